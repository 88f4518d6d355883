"""
The table as a running machine of the `transitions` library (rule M20).

The only module that imports the library. Its triggers are made at run time and
invisible to a type checker, so one typed method stands before them.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from transitions import Machine

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE, Guard, Transition, Trigger

Holds = Callable[[Guard], bool]


class Step(NamedTuple):
    """What a trigger did: the row that fired, and the status the machine is in now."""

    transition: Transition
    status: JobStatus


class _Subject:
    """The library's model object: it carries nothing but the state."""

    state: JobStatus


@cache
def _made_of_the_table() -> Machine:
    """
    Return the library's machine, one for all: making it costs as much as twenty steps.

    It knows no subject, so that nothing of a step stays behind; what a step needs
    comes with its trigger.
    """
    return Machine(
        model=None,
        states=JobStatus,
        initial=JobStatus.QUEUED,
        auto_transitions=False,
        transitions=[_spell(row) for row in TABLE if row.source],
    )


def _spell(row: Transition) -> dict[str, object]:
    return {
        "trigger": row.trigger.value,
        "source": row.source,
        "dest": row.dest,
        "conditions": [partial(_check, guard) for guard in row.guards],
        "after": partial(_record, row),
    }


def _check(guard: Guard, holds: Holds, _fired: list[Transition]) -> bool:
    return holds(guard)


def _record(row: Transition, _holds: Holds, fired: list[Transition]) -> None:
    fired.append(row)


class JobMachine:
    """
    Fires the rows of the table, first match first.

    It costs tens of microseconds a step, so the SQL store reads the rows by itself
    instead.
    """

    def __init__(self) -> None:
        self._machine = _made_of_the_table()

    def fire(self, trigger: Trigger, source: JobStatus, holds: Holds) -> Step | None:
        """
        Take the first row of this trigger and state whose guards all hold.

        None when the table has no such row: the step is illegal or not called for.
        """
        event = self._machine.events.get(trigger.value)
        # Enqueue, which has no source, moves no job.
        if event is None or source.name not in event.transitions:
            return None
        subject = _Subject()
        self._machine.set_state(source, subject)
        fired: list[Transition] = []
        event.trigger(subject, holds, fired)
        return Step(fired[-1], subject.state) if fired else None

    def edges(self) -> set[tuple[str, JobStatus, JobStatus]]:
        """Return every (trigger, source, dest) that the library itself holds."""
        return {
            (event.name, JobStatus[str(each.source)], JobStatus[str(each.dest)])
            for event in self._machine.events.values()
            for each in self._machine.get_transitions(event.name)
        }
