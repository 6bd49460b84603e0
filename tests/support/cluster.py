# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What members of clusters are asked with, scripted; and a made-up member."""

from __future__ import annotations

from ansible_collections.graceful.azure.plugins.module_utils._cluster import Member, MemberError, SeenMember


class ScriptedTools:
    """Answers of programs and of HTTP services, by the beginning of a call. The last entry that fits answers; an error is raised.

    C(answers): what C(run) or C(request) returns. C(calls): what was asked, in order.
    """

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []
        self.boot = "first"

    def run(self, argv, seconds=10.0, env=None):
        return self._answer(" ".join(argv), (0, "", ""))

    def run_all(self, commands, seconds=10.0):
        outcomes = []
        for argv in commands:
            try:
                outcomes.append(self.run(argv, seconds))
            except MemberError as error:
                outcomes.append(error)
        return outcomes

    def request(self, method, url, body=None, headers=None, seconds=10.0, tls=None):
        self.bodies = [*getattr(self, "bodies", []), body]
        return self._answer(f"{method} {url}", None)

    def boot_id(self):
        return self.boot

    def secret(self, path):
        return "secret"

    def says(self, call, *answer):
        self.answers[call] = answer[0] if len(answer) == 1 else answer

    def _answer(self, call, otherwise):
        self.calls.append(call)
        found = [self.answers[known] for known in self.answers if call.startswith(known)]
        answer = found[-1] if found else otherwise
        if callable(answer):
            answer = answer(call)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise MemberError(f"{call} failed: Connection refused.")
        return answer


class Bell(Member):
    """A made-up member: a bell in a tower. It is taken out by a flag with a name on it, and then rings as often as C(rings) says before it is silent."""

    type = "bell"
    title = "The tower"
    options = {"tower": {"type": "str", "default": "north"}, "height": {"type": "int"}}
    # The world.
    flag = None
    # The events that are written on the flag.
    told = ()
    rings = 0
    spared = True
    needed = None
    broken = False
    log: list = []

    @classmethod
    def build(cls):
        cls.flag, cls.told, cls.rings, cls.spared, cls.needed, cls.broken, cls.log = None, (), 0, True, None, False, []

    @classmethod
    def mistakes(cls, options):
        if options["tower"] == "leaning":
            yield "tower", "'leaning' is no tower that bears a bell"

    def look(self):
        if self.broken:
            raise MemberError("The program bell is not installed.")
        cls = type(self)
        left = f"it rings {cls.rings} more times" if cls.rings else None
        foreign = f"{cls.flag} put a flag on it." if cls.flag not in (None, "ours") else None
        return SeenMember(self.options["tower"], cls.flag == "ours", cls.flag is None, foreign, left, {"flag": cls.flag, "rings": cls.rings}, cls.told)

    def spare(self, seen):
        return None if self.spared else "no other bell rings"

    def still_needed(self, seen):
        if isinstance(self.needed, MemberError):
            raise MemberError(str(self.needed))
        return self.needed

    def out(self, seen):
        self.log.append("out")
        if self.spared == "refuses":
            raise MemberError("The tower refuses the flag.")
        type(self).flag, type(self).told = "ours", self.event_ids

    def back(self, seen, found):
        self.log.append("back")
        type(self).flag = None
