# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module's main(), run in this process."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils import _imds

from tests.support.module import arguments_are


@pytest.fixture
def run_module(capsys, monkeypatch):
    """What a module prints, as Ansible reads it; its warnings are texts. With a clock, no time passes."""
    warnings = []
    # Ansible's own list would go on from one module to the next.
    monkeypatch.setattr(AnsibleModule, "warn", lambda self, text: warnings.append(text))

    def run(module, clock=None, check=False, **args):
        if clock is not None:

            def client_from_params(params):
                return _imds.ImdsClient(params["imds_url"], params["api_version"], params["request_timeout"], clock.monotonic, clock.sleep)

            monkeypatch.setattr(module, "client_from_params", client_from_params)
        warnings.clear()
        with arguments_are(dict(args, _ansible_check_mode=check)), pytest.raises(SystemExit) as ended:
            module.main()
        result = json.loads(capsys.readouterr().out)
        assert bool(result.get("failed")) == bool(ended.value.code)
        return dict(result, warnings=list(warnings)) if warnings else result

    return run
