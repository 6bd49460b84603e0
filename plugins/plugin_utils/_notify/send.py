# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sends notifications, as a process of its own that no run waits for. Private to the collection.

The environment tells where Ansible has its settings and collections. The standard input has JSON: C(messages) as C(messages.py) makes them, C(seconds) that
all of them may take, and C(result), the file to which a sentence is written for each message that could not be sent. Messages hold secrets, so they are
neither on a command line nor in that file.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
from typing import Any, NoReturn

from ansible.module_utils.urls import open_url

Message = dict[str, Any]
"""One message, see C(message) in C(messages.py)."""
REQUEST_SECONDS = 10
MODULE_SECONDS = 30
TRIES = 2
PAUSE = 2.0
OF_MODULE = "graceful_azure_message"


class SendError(Exception):
    """It could not be sent. The text says why."""


class OutOfTime(BaseException):
    """All messages together have taken too long."""


def post(message: Message) -> None:
    body = message["body"].encode("utf-8", "backslashreplace")
    try:
        open_url(message["url"], data=body, headers=message["headers"], method="POST", timeout=REQUEST_SECONDS).close()
    except urllib.error.HTTPError as error:
        raise SendError(f"HTTP {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SendError(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__) from None


def run_module(message: Message) -> None:
    """Run a module of another collection by Ansible's own command, on this machine."""
    with tempfile.TemporaryDirectory(prefix="graceful-azure-") as folder:
        given = os.path.join(folder, "message.yml")
        with open(os.open(given, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as stream:
            # Texts come from events: they must never be taken for templates.
            stream.write(f"{OF_MODULE}:\n")
            stream.writelines(f"  {name}: {_as_yaml(value)}\n" for name, value in message["options"].items())
        options = {name: f"{{{{ {OF_MODULE}.{name} }}}}" for name in message["options"]}
        command = [sys.executable, "-m", "ansible", "adhoc", "localhost", "-i", "localhost,", "-c", "local", "-m", message["module"], "-a", json.dumps(options)]
        command += ["-e", f"@{given}", "-e", json.dumps({"ansible_python_interpreter": sys.executable})]
        # What the run itself has for its output must not see this one.
        environment = dict(os.environ, ANSIBLE_LOAD_CALLBACK_PLUGINS="0", ANSIBLE_NOCOLOR="1", ANSIBLE_FORCE_COLOR="0", ANSIBLE_BECOME="0")
        run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            output, _nothing = run.communicate(timeout=MODULE_SECONDS)
        except subprocess.TimeoutExpired:
            raise SendError(f"{message['module']} did not end within {MODULE_SECONDS} s") from None
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
                run.wait()
    if run.returncode != 0:
        raise SendError(f"{message['module']}: {_why(output.decode('utf-8', 'replace'))}")


def _as_yaml(value: Any) -> str:
    """A value that is never a template. JSON is YAML, but a tag is needed at each text."""
    if isinstance(value, str):
        text = json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False)
        return "!unsafe " + re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", text)
    if isinstance(value, list):
        return f"[{', '.join(map(_as_yaml, value))}]"
    return json.dumps(value)


def _why(output: str) -> str:
    """The message of a module in what the command printed."""
    found = re.search(r"=> (\{.*\})", output, re.DOTALL)
    try:
        return str(json.loads(found[1] if found else "")["msg"])
    except (TypeError, ValueError, KeyError):
        lines = [line for line in output.splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it failed and said nothing"


def send(message: Message) -> None:
    for number in range(TRIES):
        try:
            return post(message) if "url" in message else run_module(message)
        except SendError:
            if number == TRIES - 1:
                raise
        time.sleep(PAUSE)


def main() -> None:
    given = json.load(sys.stdin)
    left, failed = list(given["messages"]), []

    def end(_number: int, _frame: object) -> NoReturn:
        raise OutOfTime

    signal.signal(signal.SIGALRM, end)
    signal.alarm(int(given["seconds"]))
    try:
        while left:
            try:
                send(left[0])
            except SendError as error:
                failed.append([left[0]["label"], str(error)])
            del left[0]
    except OutOfTime:
        failed.extend([message["label"], f"not sent within {given['seconds']} s"] for message in left)
    with open(f"{given['result']}.new", "w", encoding="utf-8") as stream:
        json.dump(failed, stream)
    os.replace(f"{given['result']}.new", given["result"])


if __name__ == "__main__":
    main()
