"""What the induction leaves open is open: a bound is refused with its name."""

from collections.abc import Callable

import pytest
import z3  # type: ignore[import-untyped]  # it has no type information

from induction import prove, symbolic
from induction.report import report_induction
from induction.steps import steps_of
from induction.symbolic import State, World, any_state, any_world
from induction.unbounded import BEYOND, LEAST, bounded, open_terms

from jobfence.statemachine.states import ACTIVE
from jobfence.statemachine.table import Guard

STEPS = steps_of()
Bound = Callable[[State, World], z3.BoolRef]
CLAIM = "where claim/claim from queued is taken"


def assume(monkeypatch: pytest.MonkeyPatch, bound: Bound) -> None:
    """Add a bound to the assumption E1, as its author would."""

    def narrower(state: State, world: World) -> dict[str, z3.BoolRef]:
        assumed = symbolic.assumptions(state, world)
        return {**assumed, "E1": z3.And(assumed["E1"], bound(state, world))}

    monkeypatch.setattr(prove, "assumptions", narrower)


def test_nothing_that_is_left_open_has_a_bound() -> None:
    assert list(bounded(STEPS)) == []


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("cap", lambda _, world: world.cap <= 2),
        ("max_retries", lambda state, _: state["max_retries"] <= 2),
        ("handoffs", lambda state, _: state["handoffs"] <= 4),
        ("others", lambda state, _: state.others <= 3),
        ("now", lambda _, world: world.now <= 50),
        ("counter", lambda state, _: state.counter <= 1000),
        ("max_handoffs", lambda _, world: world.max_handoffs <= BEYOND),
        ("given_max_retries", lambda _, world: world.given["max_retries"] < 9),
    ],
)
def test_a_bound_in_an_assumption_is_refused_with_the_name_of_the_number(
    monkeypatch: pytest.MonkeyPatch, name: str, bound: Bound
) -> None:
    assume(monkeypatch, bound)
    assert f"{name} is never above 1,000,000,000 {CLAIM}" in list(bounded(STEPS))
    assert list(prove.broken(STEPS)) == []  # nobody else would notice


def test_all_bounds_at_once_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assume(
        monkeypatch,
        lambda state, world: z3.And(
            *(world.cap <= 2, state["max_retries"] <= 2, state["handoffs"] <= 4),
            *(state.others <= 3, world.now <= 50),
        ),
    )
    assert report_induction() == 1
    told = capsys.readouterr().out
    for name in ("cap", "max_retries", "handoffs", "others", "now"):
        assert f"{name} is never above 1,000,000,000 {CLAIM}" in told
    assert "every row can be taken with all" not in told


@pytest.mark.parametrize("name", sorted(open_terms(any_state(), any_world())))
def test_everything_that_is_left_open_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def bound(state: State, world: World) -> z3.BoolRef:
        term = open_terms(state, world)[name]
        return z3.Not(term) if z3.is_bool(term) else term <= BEYOND

    assume(monkeypatch, bound)
    assert any(each.startswith(f"{name} is never ") for each in bounded(STEPS))


def test_a_bound_of_a_job_that_is_there_is_no_smaller_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assume(
        monkeypatch,
        lambda state, _: z3.Implies(state.is_in(*ACTIVE), state["attempts"] <= 2),
    )
    assert f"attempts is never above 1,000,000,000 {CLAIM}" in list(bounded(STEPS))


def test_a_bound_in_the_meaning_of_a_guard_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = symbolic.GUARDS[Guard.SLOT_FREE]
    bounding = {
        **symbolic.GUARDS,
        Guard.SLOT_FREE: lambda state, world: z3.And(
            sound(state, world), world.cap <= 2
        ),
    }
    monkeypatch.setattr(symbolic, "GUARDS", bounding)
    assert list(bounded(STEPS)) == [f"cap is never above 1,000,000,000 {CLAIM}"]


def test_numbers_of_which_one_must_be_small_are_refused_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assume(monkeypatch, lambda _, world: z3.Or(world.cap <= 2, world.now <= 50))
    found = list(bounded(STEPS))
    assert f"cap is never above 1,000,000,000 {CLAIM}" in found
    assert f"now is never above 1,000,000,000 {CLAIM}" in found


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_a_number_that_may_not_be_the_least_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, least: int
) -> None:
    assume(monkeypatch, lambda state, world: open_terms(state, world)[name] > least)
    assert f"{name} is never {least} of a job that is queued" in list(bounded(STEPS))


def test_a_question_with_one_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assume(monkeypatch, lambda _, world: world.other_slot_free)
    assert set(bounded(STEPS)) == {
        f"other_slot_free is never false of a job that is {status}" for status in ACTIVE
    }
