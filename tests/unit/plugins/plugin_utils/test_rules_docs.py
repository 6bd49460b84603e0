# Copyright (c) 2026, the graceful.azure authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples of docs/rules.md, held against what their tables say."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from ansible_collections.graceful.azure.plugins.plugin_utils._rule_expression import expression_mistakes
from ansible_collections.graceful.azure.plugins.plugin_utils._rules import ACTIONS, ON_DRAIN_TIMEOUT, check_rules, rule_for, rules_of

from tests.support.checkout import ROOT

TEXT = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
EVENT = {
    "event_id": "602d9444-d2cd-49c7-8624-8643e7171297",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "resource_type": "VirtualMachine",
    "resources": ["web-1"],
    "not_before": "2026-09-19T18:29:47Z",
    "description": "Host server is undergoing maintenance.",
    "duration_in_seconds": -1,
    "affects_host": True,
    "seconds_until_not_before": 900.0,
}


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def examples():
    """Every section with a block of YAML: its title, its rules and the rows of its table."""
    for section in re.split(r"^##+ ", TEXT, flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
        if blocks:
            (block,) = blocks
            rows = [cells(line) for line in section.splitlines() if line.startswith("| `{")]
            yield section.splitlines()[0], yaml.safe_load(block)["graceful_azure_rules"], rows


EXAMPLES = list(examples())


def test_there_are_eight_and_the_preset():
    assert [title.partition(".")[0] for title, _rules, _rows in EXAMPLES] == [*(str(number) for number in range(1, 9)), "The preset `azure_sample`"]


@pytest.mark.parametrize(("_title", "rules", "rows"), EXAMPLES, ids=[title for title, _rules, _rows in EXAMPLES])
class TestExample:
    def test_it_holds_no_mistake(self, _title, rules, rows):
        assert check_rules(rules) == []

    def test_the_rule_of_its_table_decides(self, _title, rules, rows):
        for event, name, action in rows:
            rule = rule_for(rules_of(rules), dict(EVENT, **json.loads(event.strip("`"))))
            assert (rule["name"], f"`{rule['action']}`") == (name, action), event

    def test_each_of_its_rules_decides_in_the_table_and_not_for_everything(self, _title, rules, rows):
        deciding = [name for _event, name, _action in rows]
        assert {rule["name"] for rule in rules_of(rules)} <= set(deciding)
        assert len(set(deciding)) > 1


def test_each_written_mistake_is_told_as_the_page_says():
    section = TEXT.partition("## Mistakes are found")[2].partition("\n## ")[0]
    rows = [cells(line) for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) > 5
    for written, said in rows:
        expression = written[2:-2].strip() if written.startswith("``") else written[1:-1]
        (mistake,) = expression_mistakes(expression.replace("\\|", "|"))
        assert said[0] == said[-1] == "`" and said[1:-1] in mistake


def test_keys_and_fields_are_all_there():
    for word in (*ACTIONS, *ON_DRAIN_TIMEOUT, "name", "when", "action", "lead_time", "on_drain_timeout", *EVENT):
        assert f"`{word}`" in TEXT
