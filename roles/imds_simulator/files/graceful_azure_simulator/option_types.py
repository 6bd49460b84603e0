# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parser of command lines, and the kinds of values that options take."""

from __future__ import annotations

import argparse
import re
import socket
import sys

from .event_fields import a_command_line
from .output import complain
from .refusals import Unfit
from .vms import COMPUTE_FIELDS


class Parser(argparse.ArgumentParser):
    """A parser whose message for a mistake is one line."""

    def error(self, message):
        complain(message)
        sys.exit(2)


def an_address(text):
    host, _colon, port = text.rpartition(":")
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDRESS:PORT with a port from 0 (any free one) to 65535")
    if host == "localhost":
        host = "127.0.0.1"
    bracketed = re.fullmatch(r"\[(.*:.*)\]", host)
    try:
        if not host or (":" in host and not bracketed):
            raise ValueError
        # Numbers only: no name is looked up.
        found = socket.getaddrinfo(bracketed.group(1) if bracketed else host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        raise argparse.ArgumentTypeError(f"{host!r} in {text!r} is neither an IPv4 address nor an IPv6 address in brackets") from None
    return found[0][0], found[0][4]


def a_named_address(text):
    name, _mark, address = text.rpartition("=")
    if not name or not name.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=ADDRESS:PORT")
    return name, an_address(address)


def a_compute_field(text):
    match = re.fullmatch(rf"(?:(.+)/)?({'|'.join(COMPUTE_FIELDS)})=(.*)", text, re.DOTALL)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE or NAME/FIELD=VALUE with one of the fields {', '.join(COMPUTE_FIELDS)}")
    return match.groups()


def a_command(text):
    try:
        return a_command_line(text)
    except Unfit as error:
        raise argparse.ArgumentTypeError("the command is empty" if not text.split() else f"{text!r} is not {error}") from None


def an_option(check, convert=float):
    """The type of an option: converts its text and checks the value."""

    def convert_and_check(text):
        try:
            return check(convert(text))
        except (ValueError, Unfit):
            try:
                check(object())
            except Unfit as error:
                raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from None

    return convert_and_check
