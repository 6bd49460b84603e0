# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code of the simulator. It needs the standard library of Python 3.7 and nothing else.

A file imports only files above it in this list.

    Values and their checks. They touch nothing:
        refusals, http_messages, json_input, checks, vms, event_fields, fault_fields, scenario_library, scenarios
    What clients and browsers read, as values:
        page, documents
    The state of the service: memory, locks and clocks:
        simulated_time, request_log, faults, events, scale_set
    The process: standard streams, signals, files, commands of the user:
        output, process, commands
    Sockets:
        connection, listener
    What changes the state of the service, or answers from it:
        play, metadata_service, control
    The command line and its files:
        option_types, options, scenario_files, serve, ctl, cli
    A service of its own, with its own command:
        azure_refusals, acknowledgements, resource_manager
"""
