# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a playbook until it says that a host is in a state; then kills it, or does something else and lets it end.

handle_until.py HOST STATE [--do COMMAND ...] -- PLAYBOOK COMMAND ...
Fails where the state never came, or where a playbook that was not killed failed.
"""

import os
import re
import subprocess
import sys

split = sys.argv.index("--")
host, state, *act = sys.argv[1:split]
act = act[1:]
playbook = sys.argv[split + 1 :]
told = re.compile(r"^\d\d:\d\d:\d\d UTC  %s +%s " % (re.escape(host), re.escape(state)))

reached = False
process = subprocess.Popen(playbook, stdout=subprocess.PIPE, text=True, env=dict(os.environ, ANSIBLE_NOCOLOR="1"))
for line in process.stdout:
    print(line, end="")
    if not reached and told.search(line):
        reached = True
        if not act:
            # The controller alone: what its workers do, they do to the end.
            process.kill()
            break
        subprocess.run(act, check=True)
status = process.wait()
if not reached:
    sys.exit("%s was never %s" % (host, state))
sys.exit(status if act else 0)
