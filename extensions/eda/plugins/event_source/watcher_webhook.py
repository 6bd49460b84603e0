# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event source for ansible-rulebook: a webhook for the watchers of the role event_watcher, which never stands open."""

from __future__ import annotations

import sys
from pathlib import Path

DOCUMENTATION = r"""
---
short_description: A webhook for watchers
description:
  - This is C(eda.builtin.webhook) of ansible-rulebook for the watchers of the role C(event_watcher). It only starts with exactly one of
    O(token) and O(hmac_secret). An empty option counts as not given, so both can be variables of one rulebook.
  - Use it with the filter C(graceful.azure.watcher_reports).
options:
  host:
    description: The address on which it listens.
    type: str
    default: 0.0.0.0
  port:
    description: The port on which it listens.
    type: int
    default: 5000
  token:
    description: The token that a caller must send. Watchers send it only over C(https), except to their own VM. So it needs O(certfile).
    type: str
  hmac_secret:
    description: The secret with which a caller must sign its report (SHA-256, in C(X-Hub-Signature-256)).
    type: str
  certfile:
    description: A file with the certificate for C(https), and the certificates between it and the root.
    type: str
  keyfile:
    description: The file with the key, if O(certfile) does not contain it.
    type: str
"""

EXAMPLES = r"""
# As JSON, since ansible-rulebook would make a number of a token of digits.
- graceful.azure.watcher_webhook:
    token: "{{ my_token | string | tojson }}"
    certfile: /etc/graceful-azure/cert.pem
    keyfile: /etc/graceful-azure/key.pem
  filters:
    - graceful.azure.watcher_reports:
"""

RETURN = r"""
payload:
  description: What was sent.
meta:
  description: The path and the headers with which it was sent.
  type: dict
"""

# ansible-rulebook runs this file by its path, and knows nothing of collections. Theirs is the folder above ansible_collections.
sys.path.append(str(Path(__file__).absolute().parents[7]))

from ansible_collections.graceful.azure.extensions.eda.plugins.event_source.scheduled_events import ArgumentError  # noqa: E402

TEXTS = ("host", "token", "hmac_secret", "certfile", "keyfile")


def read_arguments(args):
    """The arguments of the webhook that it is. Raises ArgumentError for wrong ones."""
    # ansible-rulebook adds some of its own.
    given = {name: value for name, value in args.items() if not name.startswith("eda_") and value not in (None, "")}
    mistakes = [f"{name}: there is no such argument; there are port, {', '.join(TEXTS)}." for name in given if name not in (*TEXTS, "port")]
    # The values are not shown: they are secrets.
    mistakes += [f"{name} must be text." for name in TEXTS if name in given and not isinstance(given[name], str)]
    port = given.setdefault("port", 5000)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        mistakes.append(f"port is {port!r}; it must be a number from 1 to 65535.")
    if ("token" in given) == ("hmac_secret" in given):
        mistakes.append("Give one of token and hmac_secret (rulebook graceful.azure.webhook: webhook_token, webhook_hmac_secret), and not both.")
    if "keyfile" in given and "certfile" not in given:
        mistakes.append("keyfile is given, but no certfile.")
    if mistakes:
        raise ArgumentError("graceful.azure.watcher_webhook: " + " ".join(mistakes))
    return given


async def main(queue, args):
    """What ansible-rulebook calls."""
    arguments = read_arguments(args)
    # Here, since it is a part of ansible-rulebook.
    from ansible_rulebook.event_source.webhook import main as listen

    await listen(queue, arguments)
