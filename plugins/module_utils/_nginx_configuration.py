# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the configuration files of nginx, and finds and changes the servers of its upstreams.

It reads as nginx does: words, quotes, escapes, comments, blocks and C(include). Each word keeps its place in its file, so that a change touches
nothing else. What C(nginx -T) prints shows whether nginx reads the same.

The text of a file is its bytes, decoded so that they can be encoded again without a loss.
"""

from __future__ import annotations

import locale
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.graceful.azure.plugins.module_utils._spellings import UNIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DOWN = "down"
SPACES = " \t\r\n"
# How deep files may include one another. nginx has no limit and runs out of open files.
DEPTH = 50
# How directives end that pass requests on, to an upstream or to an address of their own: proxy_pass, grpc_pass, and those of modules of others.
PASS = "_pass"
# Blocks that give a variable its values, one in each line. Their last word is the variable. What is no value: the first words of such lines.
TABLES = ("map", "geo", "split_clients")
NO_VALUES = {"map": ("hostnames", "volatile"), "geo": ("delete", "proxy", "proxy_recursive", "ranges"), "split_clients": ()}
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# Variables that begin with a slash or a question mark, or are empty. So they end an address.
PATHS = ("request_uri", "uri", "document_uri", "is_args")
PORT = re.compile(r":\d+\Z")
# A text that is a whole IP address.
WHOLE = re.compile(r"(\d+\.){3}\d+\Z|\[.*\]\Z")
# Directives of an upstream that choose a server themselves. Code in Lua does not look at C(down), and C(fair) does not if there is only one server.
CODE, FAIR = "balancer_by_lua", "fair"
# With these directives, a client may have connections to several servers: streams of HTTP/2 and HTTP/3, requests to further servers on the way or one
# after the other (slice), and code, which may do anything.
SEVERAL = re.compile(r"(http[23]|mirror|slice|post_action|ssi|add_(before|after)_body|\w+_cache_background_update|\w+_by_lua(_block|_file)?|js_\w+|perl)\Z")
# Directives besides set that give the variable after them a value, which is known only with the request. Those of code that may give any variable one.
GIVES = re.compile(r"(\w+_)?set(_\w+)?\Z|js_var\Z|keyval\Z")
CODE_BEFORE = re.compile(r"(set|rewrite|server_rewrite|access|content|preread)_by_lua")
# A part of a regular expression that gives a variable a value.
CAPTURE = re.compile(r"\(\?(?:P?<|')([A-Za-z_]\w*)[>']")
# Where requests go that are encrypted, or may be.
ENCRYPTED = re.compile(r"(https|grpcs|suwsgi)://|\$")
# How many addresses a text with variables may stand for. Beyond that it is not known where it leads.
VALUES = 10000
ESCAPED = {"t": "\t", "r": "\r", "n": "\n"}
# What matters in a block of Lua code: comments and strings, whose braces do not count, and braces.
LUA = re.compile(r"--\[(?P<comment>=*)\[|--[^\n]*|\[(?P<string>=*)\[|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\"'{}]", re.DOTALL)
# How the comment begins that the collection puts before a line that it has changed. What the record says follows, as JSON.
MARK = "# Held by graceful.azure, which removes this comment again: "
# nginx reads no comment of more than 4096 bytes.
MARK_LIMIT = 2048
# What C(nginx -T) prints before each file.
HEADING = re.compile(r"# configuration file ([^\n]+):\n")
# What glob(3) returns if nothing matches.
NO_MATCH = 3


class Word(NamedTuple):
    """A word: its text as nginx reads it, and where it begins and ends in the file."""

    text: str
    start: int
    end: int


class Directive(NamedTuple):
    """A directive: its words, what ends it (``;``, ``{`` or ``}``), and where this is."""

    words: tuple[Word, ...]
    ends: str
    end: int


class ConfigurationError(Exception):
    """A file cannot be read or understood; the text is a full sentence."""


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def read_file(path: str) -> bytes:
    """The bytes of a file."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise ConfigurationError("The configuration file %s cannot be read: %s." % (path, error.strerror)) from error


def directives(text: str, path: str = "?") -> Iterator[Directive]:
    """The directives of a text, in their order. The end of a block is a directive without words, which C(}) ends."""
    position = 0
    words: list[Word] = []
    while position < len(text):
        char = text[position]
        if char in SPACES:
            position += 1
        elif char == "#":
            newline = text.find("\n", position)
            position = len(text) if newline < 0 else newline + 1
        elif char == ";" or char == "{":
            if not words:
                raise _unexpected(text, position, path)
            yield Directive(tuple(words), char, position)
            position += 1
            if char == "{" and words[0].text.endswith("_by_lua_block"):
                position = _after_lua(text, position, path)
                yield Directive((), "}", position - 1)
            words = []
        elif char == "}":
            if words:
                raise _unexpected(text, position, path)
            yield Directive((), char, position)
            position += 1
        else:
            word = _quoted(text, position, path) if char in "\"'" else _plain(text, position)
            words.append(word)
            position = word.end
    if words:
        raise ConfigurationError("The configuration file %s ends in the middle of the directive %r." % (path, words[0].text))


def _plain(text: str, start: int) -> Word:
    """A word without quotes. A brace after a dollar sign belongs to a variable."""
    position = start
    found: list[str] = []
    while position < len(text):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            found.append(_unescaped(text[position + 1]))
            position += 2
            continue
        if char == "$":
            found.append(char)
            position += 1
            while text.startswith("{", position):
                found.append("{")
                position += 1
            continue
        if char in SPACES or char in ";{":
            break
        found.append(char)
        position += 1
    return Word("".join(found), start, position)


def _quoted(text: str, start: int, path: str) -> Word:
    quote, position = text[start], start + 1
    found: list[str] = []
    while position < len(text):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            found.append(_unescaped(text[position + 1]))
            position += 2
            continue
        if char == quote:
            return Word("".join(found), start, position + 1)
        found.append(char)
        position += 1
    raise ConfigurationError("The configuration of nginx has a mistake: line %d of %s has a quote that does not end." % (line_of(text, start), path))


def _unescaped(char: str) -> str:
    # Before other characters, nginx keeps the backslash.
    return ESCAPED.get(char, char if char in "\"'\\" else "\\" + char)


def _after_lua(text: str, position: int, path: str) -> int:
    """The position after a block of Lua code, whose braces, strings and comments are not nginx's."""
    depth, start = 1, position
    while True:
        found = LUA.search(text, position)
        if not found:
            break
        position = found.end()
        level = found.group("comment") if found.group("string") is None else found.group("string")
        if level is not None:
            end = text.find("]%s]" % level, position)
            if end < 0:
                break
            position = end + len(level) + 2
        elif found.group() == "{":
            depth += 1
        elif found.group() == "}":
            depth -= 1
            if not depth:
                return position
        elif found.group() in "\"'":  # a string that does not end
            break
    raise ConfigurationError(
        "The configuration of nginx has a mistake: line %d of %s begins a block of Lua code that does not end." % (line_of(text, start), path)
    )


def _unexpected(text: str, position: int, path: str) -> ConfigurationError:
    return ConfigurationError("The configuration of nginx has a mistake: line %d of %s has an unexpected %r." % (line_of(text, position), path, text[position]))


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class NginxServer:
    """A server's line. A file may be included in several upstreams, and then its lines belong to all of them.

    ``context``: V(http) or V(stream). ``path``: the file, without symbolic links. ``text``: the line, up to and with its semicolon. ``mark``: what the
    collection's own comment before the line says, or None. ``begin``: where this comment begins, or the line.
    """

    def __init__(self, context: str, upstream: str, path: str, directive: Directive, text: str) -> None:
        self.context = context
        self.upstreams = [upstream]
        self.path = path
        self.start, self.end = directive.words[0].start, directive.end + 1
        self.line = line_of(text, self.start)
        self.text = text[self.start : self.end]
        self.words = tuple(word.text for word in directive.words)
        self.begin, self.mark, self.indent = _mark_before(text, self.start)

    @property
    def address(self) -> str:
        return self.words[1]

    @property
    def target(self) -> str:
        """What is resolved: the address, with the service if it is the name of one in the DNS (from nginx 1.27.3 on)."""
        return " ".join([self.address, *(word for word in self.words[2:] if word.startswith("service="))])

    @property
    def upstream(self) -> str:
        return ", ".join(self.upstreams)

    @property
    def down(self) -> bool:
        return DOWN in self.words[2:]

    @property
    def backup(self) -> bool:
        return "backup" in self.words[2:]

    @property
    def place(self) -> str:
        return "%s of upstream %s (%s, line %d)" % (self.address, self.upstream, self.path, self.line)


class PassDirective(NamedTuple):
    """An address to which a directive passes requests itself, without an upstream. ``text``: the directive as it is in its file.

    ``unknown``: a phrase that says why the address is not known, which is then empty.
    """

    context: str
    text: str
    address: str
    path: str
    line: int
    unknown: str | None = None

    @property
    def target(self) -> str:
        return self.address


class Configuration:
    """All files of a configuration, and the servers of its upstreams.

    ``read``: a function that returns the bytes of a file. ``files``: the bytes of all files by their paths, without symbolic links.
    """

    def __init__(self, path: str, read: Callable[[str], bytes] = read_file) -> None:
        self.path = os.path.realpath(path)
        self.files: dict[str, bytes] = {}
        # The names by which the files are included. A link may lead elsewhere since nginx has read it.
        self.names: set[str] = set()
        self._read = read
        # Relative paths of files to include are relative to the folder of the main file by its own name, not of the file that it leads to.
        self._folder = os.path.dirname(os.path.join(os.getcwd(), path))
        # By their files, their places in the files, and their contexts.
        self._servers: dict[tuple[str, int, str], NginxServer] = {}
        self._upstreams: set[tuple[str, str]] = set()
        # What the directives say that pass requests on, and the values that variables may have.
        self._passes: dict[tuple[str, str, str, int], str] = {}
        self._variables: dict[str, list[str]] = {}
        # The variables that have further values, which are known only with the request: any of set where code runs.
        self._given: set[str] = set()
        self._set: set[str] = set()
        self._has_code = False
        # By context and upstream: the directive that chooses its servers, its file and its line.
        self._choosers: dict[tuple[str, str], tuple[str, str, int]] = {}
        # Whether stream listens on a UDP port, so that its upstreams may be reached over UDP.
        self.has_udp = False
        # Whether clients may come over QUIC, which have no connection of their own in the kernel.
        self.has_quic = False
        # Whether a client may have connections to several servers at a time.
        self.has_several = False
        # The upstreams of http that keep connections to their servers for further requests.
        self.kept: set[str] = set()
        # Whether nobody sees if a server has begun its answer, because it is encrypted.
        self.hides_answers = False
        self._walk(path, (), None, "", 0)

    @property
    def servers(self) -> list[NginxServer]:
        return list(self._servers.values())

    @property
    def passes(self) -> list[PassDirective]:
        """The addresses to which directives pass requests themselves. Variables have the values that C(set), C(map) and the like give them."""
        found: list[PassDirective] = []
        for (context, text, path, line), target in self._passes.items():
            if context == "mail":
                # Besides its own address.
                found.append(PassDirective(context, text, "", path, line, "its answer tells where each client is passed on"))
            values = self._values(target)
            # If only one of several values has a port, it counts.
            addresses = {_address_in(value): value for value in sorted(values or (), key=_has_port)}
            # A variable may be empty at first, and code gives it its value.
            unknown = [value for value in values or () if VARIABLE.search(_authority(value)) and _address_in(value) is None]
            if values is None or unknown or not any(addresses):
                why = "its address has too many values" if values is None else "the address %r is not known before the request" % (unknown + [target])[0]
                found.append(PassDirective(context, text, "", path, line, why))
            for address, value in addresses.items():
                names = {address.lower(), address.lower().rpartition(":")[0]} if address else set()
                if address and "$" in target and _has_port(value):
                    # Behind a variable, an address with a port is never that of an upstream.
                    names = set()
                if address and not any((context, name) in self._upstreams for name in names):
                    found.append(PassDirective(context, text, address, path, line))
        for (context, upstream), (name, path, line) in self._choosers.items():
            if name.startswith(CODE):
                found.append(PassDirective(context, "%s of upstream %s" % (name, upstream), "", path, line, "its code chooses where requests go"))
        return found

    def never_out(self, server: NginxServer) -> str | None:
        """A phrase if a server gets requests although its line has C(down)."""
        for upstream in server.upstreams:
            name = self._choosers.get((server.context, upstream), ("",))[0]
            if name.startswith(CODE) or name == FAIR and self._is_alone(server.context, upstream):
                return "%s of upstream %s chooses servers whatever their lines say" % (name, upstream)
        return None

    def _is_alone(self, context: str, upstream: str) -> bool:
        return sum(1 for server in self.servers if server.context == context and upstream in server.upstreams) == 1

    def _values(self, text: str) -> list[str] | None:
        """What a text with variables may stand for; None if it is too much. A variable whose value is not known stays as it is."""
        todo: list[tuple[str, frozenset[str]]] = [(text, frozenset())]
        done: dict[str, None] = {}
        while todo:
            value, used = todo.pop()
            variable = next((each for each in VARIABLE.finditer(value) if _name(each) in self._variables and _name(each) not in used), None)
            if variable is None:
                done[value] = None
            else:
                # A value may be made of other variables, and of the same one.
                todo.extend(
                    (value[: variable.start()] + known + value[variable.end() :], used | {_name(variable)}) for known in self._values_of(_name(variable))
                )
            if len(todo) + len(done) > VALUES:
                return None
        return list(done)

    def _values_of(self, name: str) -> list[str]:
        is_open = name in self._given or self._has_code and name in self._set
        return self._variables[name] + (["${%s}" % name] if is_open else [])

    def _note_values(self, words: list[str]) -> None:
        """Note to which variables a directive gives values that are known only with the request."""
        self._has_code = self._has_code or CODE_BEFORE.match(words[0]) is not None
        if words[0] != "set" and GIVES.match(words[0]):
            self._given.update(_name(found) for found in map(VARIABLE.match, words[1:3]) if found)
        self._given.update(name for word in words[1:] for name in CAPTURE.findall(word))

    def _note(self, context: tuple[str, ...], upstream: str | None, words: list[str], text: str, path: str, line: int) -> None:
        """Note what a directive says about where requests go."""
        if context[:1] == ("http",):
            self.has_quic = self.has_quic or words[0] == "listen" and "quic" in words
            is_told = words[0] == "listen" and "http2" in words or SEVERAL.match(words[0]) is not None and words[1:] not in (["off"], ["0"])
            self.has_several = self.has_several or self.has_quic or is_told
        if context[1:] == ("upstream",) and upstream is not None and (words[0] == FAIR or words[0].startswith(CODE)):
            self._choosers[context[0], upstream] = words[0], path, line
        elif context == ("http", "upstream") and upstream is not None and words[0] == "keepalive":
            self.kept.add(upstream)
        elif (words[0].endswith(PASS) or words[0] == "auth_http") and len(words) == 2:
            self.hides_answers = self.hides_answers or context[:1] == ("http",) and ENCRYPTED.match(words[1]) is not None
            self._passes[context[0] if context else "", text, path, line] = words[1]
        elif words[0] == "set" and len(words) == 3:
            self._set.add(words[1].strip("${}"))
            self._give(words[1], words[2])
        elif words[0] == "listen" and "udp" in words[2:] and context[:1] == ("stream",):
            self.has_udp = True

    def _give(self, variable: str, value: str) -> None:
        """Note that a variable may have this value."""
        known = self._variables.setdefault(variable.strip("${}"), [])
        if value not in known:
            known.append(value)

    def _text(self, path: str) -> tuple[str, str]:
        real = os.path.realpath(path)
        self.names.add(path)
        if real not in self.files:
            self.files[real] = self._read(real)
        return real, decode(self.files[real])

    def _walk(self, path: str, context: tuple[str, ...], upstream: str | None, variable: str, depth: int) -> None:
        """Read a file that is included in these blocks. Returns nothing: each file must end the blocks that it begins.

        ``upstream``: the upstream that includes it. ``variable``: the variable whose values it may have.
        """
        if depth > DEPTH:
            raise ConfigurationError("The configuration file %s is included by itself, or more than %d files deep." % (path, DEPTH))
        real, text = self._text(path)
        # The blocks around a directive: the first word of each, and its name if it is an upstream.
        blocks: list[tuple[str, str | None]] = []
        for directive in directives(text, real):
            here = context + tuple(name for name, _upstream in blocks)
            inside = next((name for _block, name in reversed(blocks) if name is not None), upstream)
            if directive.ends == "}":
                if not blocks:
                    raise _unexpected(text, directive.end, real)
                blocks.pop()
                continue
            words = [word.text for word in directive.words]
            self._note_values(words)
            if directive.ends == "{":
                is_upstream = words[0] == "upstream" and len(words) == 2 and here in (("http",), ("stream",))
                if is_upstream:
                    self._upstreams.add((here[0], words[1].lower()))
                blocks.append((words[0], words[1] if is_upstream else None))
                if "_by_lua_block" in words[0]:
                    self._note(here, inside, words, "", real, line_of(text, directive.words[0].start))
                variable = words[-1] if words[0] in TABLES else variable
            elif words[0] == "include" and len(words) == 2:
                for other in self._included(words[1], here):
                    self._walk(other, here, inside, variable, depth + 1)
            elif words[0] == "server" and len(words) > 1 and here in (("http", "upstream"), ("stream", "upstream")) and inside is not None:
                self._add(here[0], inside, real, directive, text)
            elif here and here[-1] in TABLES:
                if len(words) == 2 and words[0] not in NO_VALUES[here[-1]]:
                    self._give(variable, words[1])
            else:
                start = directive.words[0].start
                self._note(here, inside, words, text[start : directive.end + 1], real, line_of(text, start))
        if blocks:
            raise ConfigurationError("The configuration file %s ends inside of a block %r." % (real, blocks[-1][0]))

    def _included(self, pattern: str, context: tuple[str, ...]) -> list[str]:
        path = os.path.join(self._folder, pattern)
        # In a block C(geo), nginx takes every name as it is.
        if any(char in path for char in "*?[") and context[-1:] != ("geo",):
            return matching(path)
        return [path]

    def differs_from(self, dump: str) -> str | None:
        """In what nginx reads its configuration otherwise, a sentence; None if in nothing. ``dump``: what C(nginx -T) prints."""
        position, read = 0, set()
        while position < len(dump):
            heading = HEADING.match(dump, position)
            real = os.path.realpath(heading.group(1)) if heading else None
            if heading is None or real is None:
                return "What nginx -T prints cannot be understood: %r." % dump[position : position + 100]
            if real not in self.files:
                return "nginx reads the file %s, which was not found in its configuration from here." % heading.group(1)
            text = decode(self.files[real]) + "\n"
            if not dump.startswith(text, heading.end()):
                return "nginx reads the file %s with other contents than were read from here." % heading.group(1)
            read.add(real)
            position = heading.end() + len(text)
        unread = sorted({server.path for server in self.servers} - read)
        return "nginx does not read the file %s, which was found in its configuration from here." % unread[0] if unread else None

    def _add(self, context: str, upstream: str, path: str, directive: Directive, text: str) -> None:
        key = path, directive.words[0].start, context
        if key not in self._servers:
            self._servers[key] = NginxServer(context, upstream, path, directive, text)
        elif upstream not in self._servers[key].upstreams:
            self._servers[key].upstreams.append(upstream)


def matching(pattern: str) -> list[str]:
    """The paths that a mask of C(include) matches, in nginx's order.

    nginx calls glob(3) of the C library in the locale C. Python's own module reads other masks: C([^.]), C([[:alpha:]]), C(\\*).
    """
    try:
        import ctypes  # few Pythons lack it, and few configurations have no mask
    except ImportError as error:
        raise ConfigurationError("Python needs its module ctypes to read the include %s as nginx does: %s." % (pattern, error)) from None

    class Found(ctypes.Structure):
        # The C library has further fields of its own, for which there is room.
        _fields_ = (("count", ctypes.c_size_t), ("paths", ctypes.POINTER(ctypes.c_char_p)), ("more", ctypes.c_char * 256))

    library = ctypes.CDLL(None)
    found = Found()
    before = locale.setlocale(locale.LC_ALL)
    locale.setlocale(locale.LC_ALL, "C")
    try:
        status = library.glob(encode(pattern), 0, None, ctypes.byref(found))
    finally:
        locale.setlocale(locale.LC_ALL, before)
    try:
        if status not in (0, NO_MATCH):
            raise ConfigurationError("The files of the include %s cannot be listed." % pattern)
        return [decode(found.paths[number] or b"") for number in range(found.count)]
    finally:
        library.globfree(ctypes.byref(found))


def _name(variable: re.Match[str]) -> str:
    return variable.group(1) or variable.group(2)


def _authority(value: str) -> str:
    """What stands before the path in the target of a pass."""
    scheme, found, rest = value.partition("://")
    rest = rest if found else value
    return rest if rest.startswith(UNIX) else re.split("[/?]", rest, maxsplit=1)[0]


def _has_port(value: str) -> bool:
    """Whether the target of a pass has a port, which a variable may follow."""
    return PORT.search(VARIABLE.split(_authority(value), maxsplit=1)[0]) is not None


def _address_in(value: str) -> str | None:
    """The address in the target of a pass, without its scheme and path: C(10.0.0.4:8080) or C(unix:/run/app.sock). None if it is not known.

    The port is 0 if only that is not known.
    """
    scheme, found, _rest = value.partition("://")
    value = _authority(value)
    if value.startswith(UNIX):
        # A colon ends the path of the socket.
        path = value[len(UNIX) :].partition(":")[0]
        return None if "$" in path else UNIX + path
    variable = VARIABLE.search(value)
    if variable is not None:
        value = value[: variable.start()]
        if value.endswith(":"):
            # On a loopback address only the port tells whose it is.
            return value + "0" if value[:-1] not in ("", "127.0.0.1", "[::1]", "localhost") else None
        # Behind a port there can only be a path, and behind a whole IP address as well.
        if not (PORT.search(value) or _name(variable) in PATHS or WHOLE.match(value) and _name(variable).isdigit()):
            return None
    if not value or "$" in value:
        return None
    return value + ":443" if found and scheme in ("https", "grpcs") and not PORT.search(value) else value


def changed_at(names: Iterable[str]) -> float:
    """When the last of these files, or of the links that lead to them, was changed. If one is gone, it changes just now."""
    found: dict[str, os.stat_result] = {}
    todo = list(names)
    try:
        while todo:
            path = todo.pop()
            if path in found:
                continue
            status = found[path] = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                todo.append(os.path.join(os.path.dirname(path), os.readlink(path)))
            if os.path.dirname(path) != path:
                todo.append(os.path.dirname(path))
    except OSError:
        return float("inf")
    return max((_changed_at(status) for status in found.values()), default=0.0)


def _changed_at(status: os.stat_result) -> float:
    """When a file or link was changed, or a folder was moved to its name."""
    if not stat.S_ISDIR(status.st_mode):
        return max(status.st_mtime, status.st_ctime)
    # Both dates change when a file in it comes or goes, which says nothing about the others. Only the second one changes when it is moved.
    return status.st_ctime if status.st_ctime_ns > status.st_mtime_ns else 0.0


def words_of(text: str) -> tuple[str, ...] | None:
    """The words of one server's line, or None if it is none."""
    try:
        found = list(directives(text))
    except ConfigurationError:
        return None
    return tuple(word.text for word in found[0].words) if len(found) == 1 and found[0].ends == ";" else None


def _mark_before(text: str, start: int) -> tuple[int, str | None, str]:
    """Where the collection's comment before a line begins, and what it says; and the blanks before the line if nothing else is there."""
    end = start
    while end and text[end - 1] in " \t":
        end -= 1
    if end and text[end - 1] != "\n":
        return start, None, ""
    mark = text.find(MARK, text.rfind("\n", 0, max(end - 1, 0)) + 1, end)
    return (start, None, text[end:start]) if mark < 0 else (mark, text[mark + len(MARK) : end].strip(), text[end:start])


def taken_out(text: str) -> str:
    """A server's line with the parameter C(down) after its last word. Everything else stays as it is."""
    last = next(directives(text)).words[-1]
    return "%s %s%s" % (text[: last.end], DOWN, text[last.end :])


def put_back(text: str) -> str:
    """A server's line without its last parameter C(down), and without the blanks before it."""
    words = [word for word in next(directives(text)).words[2:] if word.text == DOWN]
    if not words:
        return text
    before = text[: words[-1].start]
    return before.rstrip(" \t") + text[words[-1].end :]
