# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An action on a modelled Windows host, without Ansible: what runs there is answered by the model at once, and each call is checked."""

from __future__ import annotations

import types

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.graceful.azure.plugins.plugin_utils._platforms import windows_modules

from tests.support.calls import load_calls
from tests.support.killed import Killed
from tests.support.windows.documented import mistakes_in, options_of
from tests.support.windows.inventory import COLLECTIONS
from tests.support.windows.model import Unreachable, answer

load_calls()


class Action:
    """``answers``: for modules that the model need not answer, what they return, by name. ``dies_before``: the number of a call."""

    def __init__(self, host, answers=None, dies_before=None, check_mode=False):
        self.host, self.answers, self.dies_before = host, answers or {}, dies_before
        self.calls = []
        self._task = types.SimpleNamespace(check_mode=check_mode, delegate_to=None)
        self._connection = types.SimpleNamespace(_shell=types.SimpleNamespace(_IS_WINDOWS=True, tmpdir=None))

    def _execute_module(self, module_name, module_args, task_vars):
        if self.dies_before == len(self.calls):
            raise Killed
        self.calls.append((module_name, module_args))
        mistakes = list(mistakes_in(options_of(str(COLLECTIONS), module_name), module_args))
        assert not mistakes, mistakes
        if module_name in self.answers:
            found = self.answers[module_name]
            return found(module_args) if callable(found) else dict(found)
        try:
            return answer(self.host, module_name, module_args, self._task.check_mode)
        except Unreachable:
            raise AnsibleConnectionFailure("the host does not answer") from None

    def run(self, module, /, pause=lambda seconds: None, **args):
        return windows_modules.run(self, module, args, {}, pause)
