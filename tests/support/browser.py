# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chromium without a window: opens pages at a given width, light or dark, runs a script in them and takes pictures."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

from tests.support.patience import patient

WIDE, PHONE = (1280, 800), (390, 844)
FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def program():
    """Chromium's path; None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class BrowserError(Exception):
    pass


class Browser:
    """A Chromium that obeys over two pipes: it reads requests from its descriptor 3 and writes answers to 4, each a JSON text with a zero byte at its end."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        their_requests, requests = os.pipe()
        answers, their_answers = os.pipe()
        wired = ("bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "bash", str(their_requests), str(their_answers))
        self._process = subprocess.Popen(
            [*wired, program(), *FLAGS, "--user-data-dir=" + self._profile.name],
            pass_fds=(their_requests, their_answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_requests)
        os.close(their_answers)
        self._requests, self._answers = requests, answers
        self._number = 0
        self._rest = b""
        self._session = None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Page.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    def close(self):
        os.close(self._requests)  # which ends it
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)
        self._profile.cleanup()

    def _ask(self, method, **parameters):
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        answer = self._await(lambda message: message.get("id") == self._number)
        if "error" in answer:
            raise BrowserError("{0}: {1}".format(method, answer["error"]["message"]))
        return answer["result"]

    def _await(self, wanted):
        while True:
            while b"\0" not in self._rest:
                more = os.read(self._answers, 1 << 20)
                if not more:
                    raise BrowserError("Chromium ended")
                self._rest += more
            text, _zero, self._rest = self._rest.partition(b"\0")
            message = json.loads(text)
            if wanted(message):
                return message

    def open(self, address, size=WIDE, dark=False, scale=1):
        """Shows a page, and returns when it has loaded."""
        width, height = size
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._ask("Page.navigate", url=address)
        self._await(lambda message: message.get("method") == "Page.loadEventFired")

    def run(self, script):
        """The value of an expression of JavaScript; a promise is awaited."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def until(self, condition, seconds=10.0):
        """Waits until an expression of JavaScript is true."""
        deadline = time.monotonic() + patient(seconds)
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise BrowserError("not within {0:g} s: {1}".format(seconds, condition))
            time.sleep(0.05)

    def picture(self):
        """What is seen, as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])
