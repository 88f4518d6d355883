"""The table as text: what readers and the model checker get (M20)."""

import re

import pytest

from jobfence.statemachine.diagram import markdown_table, mermaid, tla_module
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE, Guard, Transition, Trigger


def test_the_diagram_shows_each_move_once_and_each_end() -> None:
    assert (
        mermaid()
        == """\
stateDiagram-v2
    [*] --> queued : enqueue
    queued --> handed_off : claim
    handed_off --> completed : complete
    handed_off --> cancelled : abort
    handed_off --> queued : retry, reschedule, return_to_queue
    handed_off --> failed : exhaust, give_up, reject
    queued --> cancelled : cancel
    queued --> queued : wake, adopt_policy
    queued --> failed : reject
    handed_off --> handed_off : extend_lease, request_cancel
    completed --> [*]
    failed --> [*]
    cancelled --> [*]
"""
    )


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_a_line_for_each_row_and_says_all_that_it_writes() -> None:
    lines = [line for line in markdown_table().splitlines() if line.startswith("|")]
    assert cells(lines[0]) == [
        "rule",
        "trigger",
        "transition",
        "from → to",
        "guards",
        "fence",
        "writes",
        "attempt",
        "slot",
    ]
    assert [cells(line)[:3] for line in lines[2:]] == [
        [row.rule, row.trigger, row.name] for row in TABLE
    ]
    assert {line.count("|") for line in lines} == {10}
    for line, row in zip(lines[2:], TABLE, strict=True):
        written = set(re.findall(r"`(\w+)`", cells(line)[6]))
        if "*leaves*" in line:
            note = markdown_table().rpartition("*Leaves*")[2]
            written |= set(re.findall(r"`(\w+)`", note))
        assert written == set(row.writes)


@pytest.mark.parametrize(
    "line",
    [
        "| M1 | enqueue | enqueue | - → queued | - | - | the whole row | - | - |",
        (
            "| M4 | fail | retry | handed_off → queued | retries_left | handoff | *leaves*, "
            "`attempts` + 1, `last_error`, `scheduled_at_ms` | +1 | release |"
        ),
        (
            "| M8 | recover | exhaust | handed_off → failed | lease_over, no_retries_left | "
            "handoff, lease_over | *leaves*, `attempts` + 1, `last_error`, `failed_at_ms` = "
            "now | +1 | release |"
        ),
        (
            "| M14 | request_cancel | request_cancel | handed_off → handed_off | - | - | "
            "`cancel_requested` = true | - | - |"
        ),
    ],
)
def test_a_line_of_the_table_reads_as_its_rule(line: str) -> None:
    assert line in markdown_table().splitlines()


def test_the_claim_reserves_and_clears_the_last_end() -> None:
    (line,) = [each for each in markdown_table().splitlines() if "| M2 |" in each]
    assert "`handoffs` + 1" in line
    assert line.endswith("`last_ack` = null | - | reserve |")


RECORD = re.compile(
    r"\[rule \|-> (?P<rule>\S+), trigger \|-> (?P<trigger>\S+), "
    r"transition \|-> (?P<transition>\S+),\s+"
    r"source \|-> (?P<source>\S+), dest \|-> (?P<dest>\S+),\s+"
    r"guards \|-> \{(?P<guards>[^}]*)\},\s+"
    r"consumes_attempt \|-> (?P<attempt>TRUE|FALSE), slot \|-> (?P<slot>\S+), "
    r"ends_ownership \|-> (?P<ends>TRUE|FALSE)\]"
)


def test_the_module_has_a_record_for_each_row() -> None:
    text = tla_module()
    assert text.startswith("---- MODULE TransitionTable ----\n")
    assert "make generate" in text.splitlines()[1]
    assert text.endswith("]\n}\n====\n")
    found = [
        tuple(each.strip('"') for each in record.group(1, 2, 3, 4, 5, 7, 8, 9))
        for record in RECORD.finditer(text)
    ]
    assert found == [
        (
            row.rule,
            row.trigger.value,
            row.name,
            row.source.value if row.source else "absent",
            row.dest.value,
            "TRUE" if row.consumes_attempt else "FALSE",
            row.slot.value,
            "TRUE" if row.ends_ownership else "FALSE",
        )
        for row in TABLE
    ]


def test_the_records_of_one_trigger_and_source_exclude_each_other() -> None:
    guards = {
        (record["trigger"], record["source"], record["transition"]): set(
            re.findall(r'"([^"]+)"', record["guards"])
        )
        for record in RECORD.finditer(tla_module())
    }
    recover = '"recover"', '"handed_off"'
    assert guards[(*recover, '"abort"')] == {
        "lease_over",
        "retries_left",
        "cancel_requested",
    }
    assert guards[(*recover, '"give_up"')] == {
        "lease_over",
        "retries_left",
        "handoffs_spent",
        "not cancel_requested",
    }
    assert guards[(*recover, '"retry"')] == {
        "lease_over",
        "retries_left",
        "not cancel_requested",
        "not handoffs_spent",
    }
    assert guards[(*recover, '"exhaust"')] == {"lease_over", "no_retries_left"}
    assert guards['"fail"', '"handed_off"', '"exhaust"'] == {"no_retries_left"}
    assert guards['"complete"', '"handed_off"', '"complete"'] == set()


def made_up(name: str, *guards: Guard) -> Transition:
    return Transition(
        "X1", Trigger.FAIL, name, JobStatus.HANDED_OFF, JobStatus.FAILED, guards
    )


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([made_up("a", Guard.DUE, Guard.UNREADABLE), made_up("b")], 2),
        ([made_up("a"), made_up("b", Guard.DUE)], 0),
        ([made_up("a", Guard.DUE), made_up("b", Guard.DUE)], 0),
    ],
)
def test_rows_whose_order_a_set_cannot_say_are_refused(
    rows: list[Transition], count: int
) -> None:
    with pytest.raises(
        ValueError, match=rf"^X1 fail/b stands behind X1 a, which asks for {count} more"
    ):
        tla_module(rows)


def test_other_rows_than_the_tables_can_be_shown() -> None:
    assert mermaid([made_up("a")]).splitlines()[1] == "    handed_off --> failed : a"
    assert "| X1 | fail | a |" in markdown_table([made_up("a")])
