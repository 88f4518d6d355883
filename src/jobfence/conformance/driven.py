"""
How far a run went through the state machine: which rows of its table, and from where.

Noted by the matrix and by the model that the sequences compare a store with; the report
shows what was never driven.
"""

from collections import Counter
from typing import Any

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE, Transition, Trigger

sequences: dict[str, int] = {}
tried: Counter[tuple[Trigger, JobStatus]] = Counter()
fired: Counter[str] = Counter()


def forget() -> None:
    """Begin a run."""
    tried.clear()
    fired.clear()
    sequences.clear()


def edge(row: Transition) -> str:
    """Return the name of a row of the table."""
    source = "new" if row.source is None else row.source.value
    verb = row.trigger.value
    name = verb if row.name == verb else f"{verb} ({row.name})"
    return f"{name}: {source} → {row.dest.value}"


def note(trigger: Trigger, status: JobStatus, row: Transition | None) -> None:
    """Note a trigger in a status, and the row of the table that it fired, if any."""
    tried[trigger, status] += 1
    if row is not None:
        fired[edge(row)] += 1


def enqueued() -> None:
    """Note a new job: the one row that has no source."""
    for row in TABLE:
        if row.source is None:
            fired[edge(row)] += 1


def plan(examples: int, steps: int) -> None:
    """Note how many sequences of how many steps the state machine will try at most."""
    sequences.update(examples=examples, steps=steps)


def as_json() -> dict[str, Any]:
    """Return both as JSON values; what never happened is there with 0."""
    return {
        "edges": {edge(row): fired[edge(row)] for row in TABLE},
        "states": {
            trigger.value: {
                status.value: tried[trigger, status] for status in JobStatus
            }
            for trigger in Trigger
            if trigger is not Trigger.ENQUEUE
        },
    }
