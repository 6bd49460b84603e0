# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modelled Windows hosts in an inventory, and what ansible-playbook needs to reach them."""

from __future__ import annotations

import ntpath
import os
from pathlib import Path

from tests.support.checkout import BUILD
from tests.support.others import fetch

PACKAGE = "ansible==14.5.0"
COLLECTIONS = BUILD / "windows"
NEEDED = ("ansible.windows", "microsoft.iis")


def fetch_collections():
    """The collections whose modules run on Windows hosts. Returns their versions."""
    return {name: fetch(PACKAGE, name, COLLECTIONS) for name in NEEDED}


def surroundings():
    """What the environment of ansible-playbook has besides."""
    return {
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join([str(BUILD / "collections"), str(COLLECTIONS)]),
        "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).with_name("connection_plugins")),
        "MODELLED_WINDOWS_COLLECTIONS": str(COLLECTIONS),
    }


def shape(call):
    """What a call is, without names and contents: the module, and what it is told to do."""
    module, args = call["module"], call["args"]
    if module == "ansible.windows.win_powershell":
        given = args["parameters"]
        if args["script"] == "write":
            return (module, "write", "moves" if given["MoveTo"] else "writes" if given["Content"] else "deletes", bool(given["Expected"]))
        if args["script"] == "look":
            return (module, "look", *(f"{key}: {bool(given[key])}" for key in ("Files", "Services", "Ports")))
        return (module, args["script"], given.get("Verb", ""))
    return (module, args.get("url_method") or args.get("state") or "", *sorted(key for key in args if key in ("body", "port")))


def words(call):
    """A call on one line, with the name of what it is about."""
    args = call["args"]
    given = args.get("parameters") or args
    about = ntpath.basename(given.get("Path", "")) or given.get("Name") or given.get("name") or args.get("url", "")
    return " ".join(map(str, [call["module"].rpartition(".")[2], *shape(call)[1:], about]))


def variables(host, url):
    """The variables of a modelled host. ``url``: its metadata service."""
    return {"ansible_connection": "modelled_windows", "modelled_windows_folder": str(host.folder), "graceful_azure_imds_url": url}
