# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the stand-in for Azure Resource Manager refuses a request."""

from __future__ import annotations


class Refusal(Exception):
    def __init__(self, status, code, message, headers=None):
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}


def no_resource(resource_id):
    return Refusal(404, "ResourceNotFound", "The Resource '%s' was not found." % "/".join(resource_id.split("/")[6:]))


def unknown_version(version, known):
    return Refusal(400, "InvalidApiVersionParameter", "The api-version '%s' is invalid. The supported versions are '%s'." % (version, ",".join(known)))
