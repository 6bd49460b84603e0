# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module whose process goes on as the helper, and answers what a test asks."""

from __future__ import annotations

import os
import signal
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.graceful.azure.plugins.module_utils import _helper


def handle(request, still_wanted=lambda: None):
    """What the request says: look, act and the ways to go wrong."""
    do = request["do"]
    began = time.monotonic()
    answer = {"pid": os.getpid(), "changed": False, "leader": os.getsid(0), "is_helper": os.getppid() == os.getsid(0)}
    if do == "wait":
        try:
            while time.monotonic() - began < request["seconds"]:
                time.sleep(0.05)
                still_wanted()
        finally:
            append(request["file"], "waited\n")
    elif do == "act":
        append(request["file"], "begun %s\n" % request["text"])
        time.sleep(request.get("seconds", 0))
        append(request["file"], "done %s\n" % request["text"])
        answer["changed"] = True
    elif do == "load":
        # Nothing of it was loaded while the archive of the module was there.
        from ansible_collections.graceful.azure.plugins.module_utils._duties.all_types import types

        answer["types"] = sorted(types())
    elif do == "tell":
        with open("/proc/self/environ", "rb") as shown:
            answer["shown"] = shown.read().replace(b"\0", b"").decode()
        with open("/proc/self/cmdline", "rb") as shown:
            answer["command"] = shown.read().replace(b"\0", b" ").decode().strip()
        answer.update(has=os.environ.get(request.get("variable", "")), folder=os.getcwd(), uid=os.getuid(), files=sorted(os.listdir("/proc/self/fd")))
    elif do == "large":
        answer["text"] = "x" * request["size"]
    elif do == "raise":
        raise ValueError(request["text"])
    elif do == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif do == "echo":
        answer["request"] = request
    return answer


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


def main():
    module = AnsibleModule(argument_spec={"request": {"type": "dict", "required": True}, "helper": {"type": "str"}})
    # So that tests which leave one do not wait for its end.
    _helper.STAY = module.params["request"].get("stay", 5.0)
    answer = handle(module.params["request"])
    if module.params["helper"]:
        answer["helper"] = _helper.start(module.params["helper"], lambda args, still_wanted: handle(args["request"], still_wanted))
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
