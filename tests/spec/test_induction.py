"""The rows keep the invariants whatever the numbers, and z3 notices when they do not."""

import dataclasses

import pytest

from induction.plants import Plant, PlantError, load_plants, planted
from induction.properties import INVARIANTS, OF_STEPS
from induction.prove import broken, never_taken
from induction.report import report_induction
from induction.steps import steps_of, tried_before
from induction.symbolic import FENCES, GUARDS

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Fence, Guard, Slot, Trigger

STEPS = steps_of()
PLANTS = load_plants()
COMPLETE = next(each for each in STEPS if each.trigger is Trigger.COMPLETE)


def test_every_row_keeps_every_property_whatever_the_numbers() -> None:
    assert list(broken(STEPS)) == []


def test_every_row_can_be_taken_so_that_keeping_means_something() -> None:
    assert never_taken(STEPS) == ()


def test_a_row_that_can_never_be_taken_is_named() -> None:
    impossible = dataclasses.replace(
        COMPLETE, guards=(Guard.RETRIES_LEFT, Guard.NO_RETRIES_LEFT)
    )
    assert never_taken((impossible,)) == (impossible,)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda each: each.why)
def test_a_planted_fault_is_found_with_a_state_that_shows_it(plant: Plant) -> None:
    without = (plant.assumption,) if plant.assumption else ()
    found = list(broken(planted(plant, STEPS), only=[plant.breaks], without=without))
    assert {each.property for each in found} == {plant.breaks}
    assert all(each.example.startswith("status ") for each in found)


def test_every_property_is_broken_by_a_planted_fault() -> None:
    assert {plant.breaks for plant in PLANTS} == {*INVARIANTS, *OF_STEPS}


def test_a_stranger_who_completes_is_shown_with_the_handoff_that_he_shows() -> None:
    unfenced = dataclasses.replace(COMPLETE, fence=())
    (found,) = broken((unfenced,), only=["FenceStrict"])
    assert str(found.step) == "complete/complete from handed_off"
    assert "status handed_off -> completed" in found.example
    assert "the caller shows " in found.example


def test_every_word_of_the_table_has_a_meaning() -> None:
    assert set(GUARDS) == set(Guard)
    assert set(FENCES) == set(Fence)


def test_alternatives_are_tried_in_the_order_of_the_table() -> None:
    retry = next(
        each
        for each in STEPS
        if (each.trigger, each.name, each.source)
        == (Trigger.FAIL, "retry", JobStatus.HANDED_OFF)
    )
    assert [each.name for each in tried_before(retry, STEPS)] == ["abort"]


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (Plant(why="", breaks="", row="no/row from queued"), "no row is called"),
        (
            Plant(why="", breaks="", row=str(COMPLETE), without="lease_over"),
            "nothing to change in complete/complete",
        ),
    ],
)
def test_a_fault_that_fits_no_row_is_refused(plant: Plant, complaint: str) -> None:
    with pytest.raises(PlantError, match=complaint):
        planted(plant, STEPS)


def test_a_slot_left_out_is_out_of_that_row_only() -> None:
    plant = next(each for each in PLANTS if each.without == "slot")
    changed = [
        (was, now)
        for was, now in zip(STEPS, planted(plant, STEPS), strict=True)
        if was != now
    ]
    assert [(was.slot, now.slot) for was, now in changed] == [(Slot.RESERVE, Slot.NONE)]


def test_the_report_says_what_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_induction() == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{len(STEPS)} rows keep {len(INVARIANTS)} invariants")
    assert f"{len(PLANTS)} planted faults, 0 not as expected" in last
