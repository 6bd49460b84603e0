# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is **PRIVATE** to the collection. It can have breaking changes at any time.
# Do not use this from other collections or standalone plugins/modules!

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  action:
    description:
      - How the health answer is made to fail.
      - V(file) - by a file that the health answer depends on.
      - V(service) - by stopping the unit of systemd that answers the probe, or the service of a Windows host.
      - V(command) - by a command of your own.
      - V(responder) - through the responder of this collection, which answers in place of the application.
      - V(iis_site) - by stopping the site of IIS that answers the probe.
      - On Windows hosts there are V(file), V(service) and V(iis_site). The last one is nowhere else.
    type: str
    choices: [file, service, command, responder, iis_site]
  file:
    description:
      - The path of the file, for O(action=file). Its folder must be there.
    type: path
  file_means:
    description:
      - What it means if O(file) is there. With V(out) the answer then fails, and the file is made. With V(in) the answer fails when the file is
        missing. The file is then renamed, so that its content, owner and mode come back with it.
    type: str
    choices: [out, in]
    default: out
  service:
    description:
      - The unit of systemd that answers the probe, for O(action=service). No other unit may depend on it.
    type: str
  command_out:
    description:
      - The command that makes the answer fail, for O(action=command). It must be idempotent. It is split into words and not run by a shell, and may
        take 30 seconds.
    type: str
  command_in:
    description:
      - The command that lets the answer pass again. It is recorded when O(command_out) is run, so it need not be given again for the release.
    type: str
  responder_port:
    description:
      - The port of the responder, for O(action=responder).
    type: int
  iis_site:
    description:
      - The site of IIS that answers the probe, for O(action=iis_site). It must be there. If the application is on the same site, requests to it fail from
        the stop on, although the load balancer still sends some until it has noticed.
    type: str
"""
