# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes on beside a test, as clients and observers do."""

from __future__ import annotations

import threading

from tests.support.patience import patient


class Meanwhile:
    """Runs C(_run) in a thread for as long as a with statement lasts. C(_run) must return soon after C(_ends) is set."""

    def __init__(self):
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._ends.set()
        self._thread.join(patient(60))
        assert not self._thread.is_alive(), f"{type(self).__name__} of {type(self).__module__} hangs"

    def _run(self):
        raise NotImplementedError
