"""
A row of the table as a step that can be changed: what a planted fault changes.

Nothing of a row is written again here. `slot` and `ends_ownership`, which the table
works out from the states, are fields, so that a fault can leave them out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import (
    TABLE,
    Fence,
    Guard,
    Slot,
    Transition,
    Trigger,
    Writes,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One row: when it applies, and all that it changes."""

    rule: str
    trigger: Trigger
    name: str
    source: JobStatus | None
    dest: JobStatus
    guards: tuple[Guard, ...]
    fence: tuple[Fence, ...]
    writes: Writes
    slot: Slot
    ends_ownership: bool

    def __str__(self) -> str:
        """Return the words that name the row: trigger/transition from its source."""
        return f"{self.trigger}/{self.name} from {self.source or 'nothing'}"


def steps_of(table: Sequence[Transition] = TABLE) -> tuple[Step, ...]:
    """Return the rows as steps, in their order."""
    return tuple(
        Step(
            rule=row.rule,
            trigger=row.trigger,
            name=row.name,
            source=row.source,
            dest=row.dest,
            guards=row.guards,
            fence=row.fence,
            writes=row.writes,
            slot=row.slot,
            ends_ownership=row.ends_ownership,
        )
        for row in table
    )


def tried_before(step: Step, steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the alternatives of a step that are tried first and so must not apply."""
    for each in steps:
        if each is step:
            return
        if (each.trigger, each.source) == (step.trigger, step.source):
            yield each
