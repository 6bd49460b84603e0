# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# /// script
# dependencies = ["nox >= 2025.2.9", "antsibull-nox >= 1, < 2"]
# ///

"""All that public CI runs: the sessions of antsibull-nox.toml, and this project's own tests. ``pipx run noxfile.py --list`` shows them."""

from __future__ import annotations

import antsibull_nox
import nox

antsibull_nox.load_antsibull_nox_toml()


# make sets itself up in the folder build.
@nox.session(venv_backend="none", default=False)
def test(session):
    """What every pull request must pass."""
    session.run("make", "test", external=True)


@nox.session(venv_backend="none", default=False)
def test_long(session):
    """The same at full length."""
    session.run("make", "test-long", external=True)


if __name__ == "__main__":
    nox.main()
