# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

"""The machine's own IP addresses, read from the kernel's files without another program."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re

LOCAL = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")


def own_addresses(proc="/proc"):
    """The addresses, sorted, without those of loopback and those that are valid on one link alone. Empty where they cannot be read."""
    found = set(LOCAL.findall(_read(proc, "net", "fib_trie")))
    # Each line begins with the address, 32 hexadecimal digits.
    found.update(":".join(re.findall("....", line[:32])) for line in _read(proc, "net", "if_inet6").splitlines())
    known = set()
    for text in found:
        try:
            known.add(ipaddress.ip_address(text))
        except ValueError:
            continue
    return sorted(str(address) for address in known if not (address.is_loopback or address.is_link_local))


def network_of(proc="/proc"):
    """What tells this network from every other: that of another machine, or of another container on the same one. None where it cannot be told."""
    boot = _read(proc, "sys", "kernel", "random", "boot_id").strip()
    try:
        namespace = os.readlink(os.path.join(proc, "self", "ns", "net"))
    except OSError:
        return None
    return hashlib.sha256((boot + namespace).encode()).hexdigest()[:16] if boot else None


def _read(*parts):
    try:
        with open(os.path.join(*parts), "rb") as stream:
            return stream.read().decode("ascii", "replace")
    except OSError:
        return ""
