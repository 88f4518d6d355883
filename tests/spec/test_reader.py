"""The reader's test changes the very table, in a copy, and says who complained."""

import os
import pickle
import subprocess
import sys

from pathlib import Path

import pytest

from equality.explore import explore
from equality.slices import read_slice
from reader import asked
from reader.change import Change, changes
from reader.page import line, unnoticed, write
from runner.catalogue import SPEC

from jobfence.statemachine.diagram import tla_module
from jobfence.statemachine.table import TABLE, Fence, Guard, Trigger

RETRY = next(
    place
    for place, row in enumerate(TABLE)
    if (row.trigger, row.name) == (Trigger.RECOVER, "retry")
)
ABORT = next(
    place
    for place, row in enumerate(TABLE)
    if (row.trigger, row.name) == (Trigger.RESCHEDULE, "abort")
)
WAKE = next(place for place, row in enumerate(TABLE) if row.trigger is Trigger.WAKE)
ASK_THE_TABLE = (
    "from jobfence.statemachine.table import TABLE, alternatives as at\n"
    "print(*(f'{row.guards} {row.fence}' for row in TABLE), sep='\\n')\n"
    "print({row for row in TABLE if row.source} == "
    "{each for row in TABLE for each in at(row.trigger, row.source)})"
)


def in_copy(folder: Path, *arguments: str) -> list[str]:
    """What Python prints with the changed package in the place of ours."""
    path = os.pathsep.join([str(folder), str(SPEC), str(SPEC.parent)])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=SPEC.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "change", [Change(RETRY, Guard.LEASE_OVER), Change(RETRY, Fence.HANDOFF)], ids=str
)
def test_one_row_of_the_copy_loses_one_word(tmp_path: Path, change: Change) -> None:
    change.copy_package(tmp_path)

    *rows, indexed = in_copy(tmp_path, "-c", ASK_THE_TABLE)

    ours = [f"{row.guards} {row.fence}" for row in TABLE]
    assert [place for place, row in enumerate(ours) if row != rows[place]] == [RETRY]
    assert repr(change.word) in ours[RETRY]
    assert repr(change.word) not in rows[RETRY]
    assert indexed == "True"


def test_every_guard_and_every_fence_is_left_out_once() -> None:
    guards, fences = list(changes(fences=False)), list(changes(fences=True))
    assert (
        len(guards) == sum(len(row.guards) for row in TABLE) == len({*map(str, guards)})
    )
    assert len(fences) == sum(len(row.fence) for row in TABLE)
    assert {each.kind for each in guards} == {"guard"}
    assert {each.kind for each in fences} == {"fence"}


def test_rows_that_cannot_be_told_apart_are_not_generated() -> None:
    assert Change(ABORT, Guard.CANCEL_REQUESTED).rows() is None
    without = Change(WAKE, Guard.FUTURE).rows()
    assert without not in (None, tla_module())
    assert Change(WAKE, Fence.SCHEDULED_AT).rows() == tla_module()


def test_the_sound_table_has_no_complaint(tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    name = "enqueue-3jobs"
    graphs.write_bytes(pickle.dumps({name: explore(read_slice(name)).graph}))

    assert asked.equality(graphs, "enqueue") == ""


def test_a_change_is_noticed_where_it_shows(tmp_path: Path) -> None:
    Change(WAKE, Guard.FUTURE).copy_package(tmp_path)
    graphs, name = tmp_path / "graphs", "schedule-3jobs"
    graphs.write_bytes(pickle.dumps({name: explore(read_slice(name)).graph}))

    (said,) = in_copy(tmp_path, "-m", "reader.asked", "equality", str(graphs), "wake")

    assert said == f"`{name}`: the store has a wrong `Wake`"


def test_z3_names_the_property_and_the_row(tmp_path: Path) -> None:
    Change(RETRY, Fence.HANDOFF).copy_package(tmp_path)

    (said,) = in_copy(tmp_path, "-m", "reader.asked", "induction")

    assert said == "`FenceStrict` by recover/retry from handed_off"


def test_the_table_is_written_into_its_place_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- made: guards -->\nold\n<!-- /made -->\nb\n")
    said = ("M10 wake/wake without guard future", "-", "z", "-", "-", "-")

    write(page, [said], fences=False)

    kept = page.read_text()
    assert kept.startswith("a\n<!-- made: guards -->\n\n| left out | TLC |")
    assert kept.endswith(f"{line(said)}\n\n<!-- /made -->\nb\n")
    assert "old" not in kept
    with pytest.raises(ValueError, match="0 places are marked 'made: fences'"):
        write(page, [said], fences=True)


def test_a_change_that_nobody_notices_is_known() -> None:
    assert unnoticed(("what", *"-----"))
    assert not unnoticed(("what", *"--x--"))
    assert unnoticed(("M3 complete without fence handoff", *"-----"), fences=True)
    assert not unnoticed(("M2 claim without fence due", *"-----"), fences=True)


@pytest.mark.parametrize("name", ["guards", "fences"])
def test_the_readme_has_a_line_for_each_and_what_must_be_is_noticed(
    name: str,
) -> None:
    fences = name == "fences"
    readme = (SPEC / "README.md").read_text()
    table = readme.partition(f"<!-- made: {name} -->")[2].partition("<!-- /made")[0]
    rows = [row.strip("| ").split(" | ") for row in table.strip().splitlines()[2:]]
    assert [row[0] for row in rows] == [str(each) for each in changes(fences=fences)]
    assert [row[0] for row in rows if unnoticed(row, fences=fences)] == []
