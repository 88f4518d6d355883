"""The `transitions` machine against the table and against an interpreter of our own."""

import pytest

from hypothesis import given, strategies as st

from jobfence.statemachine import machine
from jobfence.statemachine.machine import JobMachine, Step
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE, Guard, Transition, Trigger

moves = st.tuples(
    st.sampled_from(Trigger),
    st.sampled_from(JobStatus),
    st.frozensets(st.sampled_from(Guard)),
)


@pytest.fixture(autouse=True)
def _made_anew() -> None:
    """Make the machine anew: one from before a change of the code says nothing of it."""
    machine._made_of_the_table.cache_clear()  # noqa: SLF001


def first_match(
    trigger: Trigger, source: JobStatus, holding: frozenset[Guard]
) -> Transition | None:
    """The oracle: read the table from the top."""
    for row in TABLE:
        if (
            row.trigger is trigger
            and row.source is source
            and holding >= set(row.guards)
        ):
            return row
    return None


def test_M20_the_edges_of_the_library_are_those_of_the_table() -> None:
    assert JobMachine().edges() == {
        (row.trigger.value, row.source, row.dest) for row in TABLE if row.source
    }


def test_M20_the_library_adds_no_trigger_of_its_own() -> None:
    triggers = {trigger for trigger, _, _ in JobMachine().edges()}
    assert triggers == {trigger.value for trigger in Trigger} - {"enqueue"}


@given(st.lists(moves, min_size=1, max_size=20))
def test_M20_the_machine_takes_the_first_row_whose_guards_all_hold(
    steps: list[tuple[Trigger, JobStatus, frozenset[Guard]]],
) -> None:
    machine = JobMachine()  # one for all steps: nothing of a step stays behind
    for trigger, source, holding in steps:
        expected = first_match(trigger, source, holding)
        step = machine.fire(trigger, source, holding.__contains__)
        assert step == (expected and Step(expected, expected.dest))


@pytest.mark.parametrize("source", [each for each in JobStatus if each.terminal])
@pytest.mark.parametrize("trigger", Trigger)
def test_nothing_fires_from_a_terminal_state(
    trigger: Trigger, source: JobStatus
) -> None:
    assert JobMachine().fire(trigger, source, lambda _: True) is None


@pytest.mark.parametrize("source", JobStatus)
def test_enqueue_moves_no_job_that_is_there(source: JobStatus) -> None:
    assert JobMachine().fire(Trigger.ENQUEUE, source, lambda _: True) is None


def test_only_the_guards_of_the_alternatives_are_asked_for() -> None:
    asked: list[Guard] = []

    def holds(guard: Guard) -> bool:
        asked.append(guard)
        return guard is Guard.NO_RETRIES_LEFT

    step = JobMachine().fire(Trigger.FAIL, JobStatus.HANDED_OFF, holds)
    assert step is not None
    assert step.transition.name == "exhaust"
    assert asked == [Guard.RETRIES_LEFT, Guard.RETRIES_LEFT, Guard.NO_RETRIES_LEFT]


def test_an_error_in_a_guard_is_the_callers_and_leaves_the_machine_usable() -> None:
    machine = JobMachine()

    def broken(guard: Guard) -> bool:
        raise LookupError(guard)

    with pytest.raises(LookupError, match="cancel_requested"):
        machine.fire(Trigger.RESCHEDULE, JobStatus.HANDED_OFF, broken)
    step = machine.fire(Trigger.RESCHEDULE, JobStatus.HANDED_OFF, lambda _: False)
    assert step is not None
    assert step.transition.rule == "M6"


def test_a_mistyped_trigger_raises_instead_of_doing_nothing() -> None:
    with pytest.raises(AttributeError):
        JobMachine().fire("complet", JobStatus.HANDED_OFF, bool)  # type: ignore[arg-type]


def test_two_machines_share_nothing() -> None:
    first, second = JobMachine(), JobMachine()
    step = first.fire(Trigger.CANCEL, JobStatus.QUEUED, bool)
    other = second.fire(Trigger.REQUEST_CANCEL, JobStatus.HANDED_OFF, bool)
    assert step is not None
    assert other is not None
    assert (step.status, other.status) == (JobStatus.CANCELLED, JobStatus.HANDED_OFF)
