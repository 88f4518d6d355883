"""What TLC prints is read: values, counts, what was violated, which actions were taken."""

from pathlib import Path

import pytest

from runner import tlc
from runner.toolchain import Toolchain
from runner.trace import condense
from runner.values import differences, parse_value, show

from tests.spec.fake_tlc import tools_that_say

VIOLATION = """\
Error: Invariant CounterExact is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
/\\ counter = [A |-> [cap |-> 1, active |-> 0]]
/\\ job = << [status |-> "queued", due |-> TRUE] >>

State 2: <Claim line 7, col 3 to line 9, col 4 of module JobQueue>
/\\ counter = [A |-> [cap |-> 1, active |-> 2]]
/\\ job = << [status |-> "handed_off",
     due |-> FALSE] >>

19 states generated, 12 distinct states found, 3 states left on queue.
The depth of the complete state graph search is 2.
"""
COVERED = """\
The coverage statistics at 2026-01-02 03:04:05
<Claim line 1, col 1 to line 1, col 9 of module JobQueue>: 0:0
End of statistics.
The coverage statistics at 2026-01-02 03:04:06
<Init line 43, col 1 to line 43, col 4 of module JobQueue>: 2:2
<Claim line 1, col 1 to line 1, col 9 of module JobQueue>: 2:5
<Claim line 1, col 1 to line 1, col 9 of module JobQueue (7 8 9 9)>: 0:4
<Cancel line 3, col 1 to line 3, col 9 of module JobQueue>: 0:0
  line 3, col 9 to line 8, col 24 of module JobQueue: 2
End of statistics.
"""


def outcome(folder: Path, output: str, code: int) -> tlc.Outcome:
    run = tlc.Run(module=folder / "Any.tla", config=folder / "any.cfg")
    return tlc.run_tlc(tools_that_say(folder, output, code), run)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ("TRUE", True),
        ('"handed_off"', "handed_off"),
        ("j1", "j1"),
        ("<< >>", ()),
        ("<<1, <<2>>>>", (1, (2,))),
        ("{1, 2}", frozenset({1, 2})),
        ("[cap |-> 1, free |-> {}]", {"cap": 1, "free": frozenset()}),
        ('(1 :> "a" @@ <<2>> :> "b")', {1: "a", (2,): "b"}),
    ],
)
def test_a_value_is_read_as_tlc_prints_it(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_differences_name_the_field_and_both_values() -> None:
    before = parse_value('<<[status |-> "queued", n |-> 1], [n |-> 2]>>')
    after = parse_value('<<[status |-> "failed", n |-> 1], [n |-> 3]>>')
    assert list(differences(before, after, "job")) == [
        ("job[1].status", "queued -> failed"),
        ("job[2].n", "2 -> 3"),
    ]


def test_a_value_whose_shape_changed_is_shown_whole() -> None:
    before, after = parse_value("<<1>>"), parse_value("<<1, {2}>>")
    assert list(differences(before, after, "x")) == [("x", "<<1>> -> <<1, {2}>>")]


def test_a_value_is_shown_as_it_was_read() -> None:
    text = "[a |-> <<TRUE, 1>>, b |-> {x, y}]"
    assert show(parse_value(text)) == text


def test_a_violation_is_read_with_its_name_and_counts(tmp_path: Path) -> None:
    seen = outcome(tmp_path, VIOLATION, tlc.INVARIANT)
    assert (seen.code, seen.violated) == (12, "CounterExact")
    assert (seen.generated, seen.distinct, seen.depth) == (19, 12, 2)


def test_a_false_assumption_is_named_by_its_line(tmp_path: Path) -> None:
    module = (
        "---- MODULE Any ----\nASSUME First ==\n  TRUE\nASSUME Second ==\n  1 = 2\n"
    )
    (tmp_path / "Any.tla").write_text(module)
    said = "Error: Assumption line 5, col 3 to line 5, col 7 of module Any is false.\n"
    seen = outcome(tmp_path, said, tlc.ASSUMPTION)
    assert (seen.code, seen.violated, seen.distinct) == (10, "Second", None)


def test_coverage_is_the_sum_of_the_last_report(tmp_path: Path) -> None:
    seen = outcome(tmp_path, COVERED, tlc.OK)
    assert seen.actions == {("JobQueue", "Claim"): 9, ("JobQueue", "Cancel"): 0}


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    java.chmod(0o755)
    run = tlc.Run(module=tmp_path / "A.tla", config=tmp_path / "a.cfg", timeout_s=0.1)
    assert tlc.run_tlc(Toolchain(str(java), tmp_path), run).code == -1


def test_a_counterexample_is_condensed_to_what_changed() -> None:
    assert condense(VIOLATION).splitlines() == [
        "  1 Init",
        "  2 Claim",
        "      counter.A: active 0 -> 2",
        "      job[1]: status queued -> handed_off, due TRUE -> FALSE",
    ]


def test_a_deadlock_says_where_each_client_waits() -> None:
    output = (
        "Error: Deadlock reached.\n"
        "State 1: <Initial predicate>\n"
        '/\\ tx = [c1 |-> [at |-> "idle"], c2 |-> [at |-> "lock job"]]\n\n'
        "State 2: <LockKey line 1, col 1 to line 2, col 2 of module ScheduleSql>\n"
        '/\\ tx = [c1 |-> [at |-> "lock key"], c2 |-> [at |-> "lock job"]]\n\n'
    )
    assert condense(output).splitlines() == [
        "  1 Init",
        "  2 LockKey (c1)",
        "    deadlock: c1 waits at: lock key",
        "    deadlock: c2 waits at: lock job",
    ]


def test_a_liveness_counterexample_says_how_it_goes_on() -> None:
    stays = "State 1: <Initial predicate>\n/\\ x = 1\n\nState 2: Stuttering\n\n"
    assert condense(stays).splitlines()[-1] == "  2 stays like this for ever"
    loops = (
        "State 1: <Initial predicate>\n/\\ x = 1\n\n"
        "Back to state 1: <Claim line 1, col 2 to line 3, col 4 of module M>\n"
    )
    assert condense(loops).splitlines()[-1] == "    back to 1 by Claim"
