"""
The table as a running machine of the `transitions` library (rule M20).

The only module that imports the library. Its triggers are made at run time and
invisible to a type checker, so one typed method stands before them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from transitions import Machine, MachineError

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


class JobMachine:
    """
    Fires the rows of the table, first match first.

    Not safe for several threads at once: its owner brings the lock. It costs tens of
    microseconds a step, so the SQL store reads the rows by itself instead.
    """

    def __init__(self) -> None:
        self._subject = _Subject()
        self._holds: Holds = bool
        self._fired: list[Transition] = []
        self._machine = Machine(
            model=self._subject,
            states=JobStatus,
            initial=JobStatus.QUEUED,
            auto_transitions=False,
            transitions=[self._spell(row) for row in TABLE if row.source],
        )

    def _spell(self, row: Transition) -> dict[str, object]:
        return {
            "trigger": row.trigger.value,
            "source": row.source,
            "dest": row.dest,
            "conditions": [partial(self._check, guard) for guard in row.guards],
            "after": partial(self._record, row),
        }

    def _check(self, guard: Guard) -> bool:
        return self._holds(guard)

    def _record(self, row: Transition) -> None:
        self._fired.append(row)

    def fire(self, trigger: Trigger, source: JobStatus, holds: Holds) -> Step | None:
        """
        Take the first row of this trigger and state whose guards all hold.

        None when the table has no such row: the step is illegal or not called for.
        """
        event = self._machine.events.get(trigger.value)
        if event is None:  # enqueue, which has no source, moves no job
            return None
        self._machine.set_state(source, self._subject)
        self._holds, self._fired = holds, []
        try:
            event.trigger(self._subject)
        except MachineError:
            return None
        if not self._fired:
            return None
        return Step(self._fired[-1], self._subject.state)

    def edges(self) -> set[tuple[str, JobStatus, JobStatus]]:
        """Return every (trigger, source, dest) that the library itself holds."""
        return {
            (event.name, JobStatus[str(each.source)], JobStatus[str(each.dest)])
            for event in self._machine.events.values()
            for each in self._machine.get_transitions(event.name)
        }
