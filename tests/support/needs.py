# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tests need of the machine that they run on, as marks of pytest."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from tests.support.sshd import SSHD

FAR_HOST = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are made by root alone: sudo make test"),
    pytest.mark.skipif(not (SSHD and shutil.which("ip")), reason="no sshd or ip: apt-get install openssh-server iproute2"),
]


def _has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


NEEDS_IPV6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1")
