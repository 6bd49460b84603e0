# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills a controller, and this very process, just before one of its Python processes does a certain thing. Python reads this file when it starts.

CHAOS_POINT is a JSON object with event, pattern, nth, count and who: the event of Python's audit, the pattern that its arguments have, which of
these, the file that counts them, and who dies. "helper" is nobody but the helper that answers on the machine, with the process that is at work for it.
With "connection" nobody dies but the clients of helpers: the requests under way are cut off.
"""

import json
import os
import re
import subprocess
import sys

STRIKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "strike.py")


def is_helper(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as command:
        return command.read().startswith(b"graceful_azure")


def watch(point, controller):
    pattern, wanted, nth = re.compile(point["pattern"]), point["event"], point["nth"]

    def hook(event, arguments):
        if event != wanted:
            return
        text = bytes(arguments[1][:300]).decode("latin-1") if event == "http.client.send" else repr(arguments)
        if not pattern.search(text) or event == "os.fork" and not is_helper("self"):
            return
        count = os.open(point["count"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(count, b".")
        here = os.fstat(count).st_size
        os.close(count)
        if here == nth:
            if point["who"] != "helper":
                subprocess.call([sys.executable, "-I", "-S", STRIKE, str(controller), "0", point["who"]])
                if point["who"] == "connection":
                    return
            elif is_helper(os.getppid()):
                os.kill(os.getppid(), 9)
            # Who dies may be the controller alone, and this process is none that it started.
            os.kill(os.getpid(), 9)

    sys.addaudithook(hook)


if "CHAOS_POINT" in os.environ:
    # The first is the controller itself.
    os.environ.setdefault("CHAOS_CONTROLLER", str(os.getpid()))
    watch(json.loads(os.environ["CHAOS_POINT"]), int(os.environ["CHAOS_CONTROLLER"]))
