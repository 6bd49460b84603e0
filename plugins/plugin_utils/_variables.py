# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The values of variables, so that one that cannot be resolved is not taken for not set. Private to the collection."""

from __future__ import annotations

from ansible.errors import AnsibleError


def resolve(templar, names, variables):
    """Those of the variables that are set, and per name a sentence without its full stop about each that cannot be resolved.

    C(variables): all variables of one host as they are written, which the templates in them may need.
    """
    templar = templar.copy_with_new_env(available_variables=variables)
    values, mistakes = {}, {}
    for name in sorted(names):
        if name in variables:
            try:
                value = templar.template(variables[name])
                # Before core 2.19 what is in a vault is no text.
                values[name] = str(value) if getattr(value, "__ENCRYPTED__", False) else value
            except AnsibleError as error:
                mistakes[name] = f"{name}: {variables[name]!r} cannot be resolved: {str(error).strip().splitlines()[0]}"
    return values, mistakes
