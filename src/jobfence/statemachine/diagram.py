"""
The table as text: for readers, for the documentation, for the model checker (M20).

Pure functions; `tools/generate.py` writes what they return into the files that hold it.
"""

from collections.abc import Iterable, Mapping, Sequence

from jobfence.statemachine.states import TERMINAL, JobStatus
from jobfence.statemachine.table import (
    HANDOFF_COLUMNS,
    TABLE,
    Guard,
    Slot,
    Transition,
    Value,
)

_ABSENT = "absent"
_NOTHING = "-"


def mermaid(rows: Sequence[Transition] = TABLE) -> str:
    """Return the states and moves as a mermaid `stateDiagram-v2`."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        labels = names.setdefault((row.source or "[*]", row.dest), [])
        if row.name not in labels:
            labels.append(row.name)
    moves = [
        f"{source} --> {dest} : {', '.join(labels)}"
        for (source, dest), labels in names.items()
    ]
    ends = [f"{status} --> [*]" for status in JobStatus if status in TERMINAL]
    return "\n    ".join(["stateDiagram-v2", *moves, *ends]) + "\n"


def markdown_table(rows: Sequence[Transition] = TABLE) -> str:
    """Return the rows as a Markdown table, with what its shorthand means below it."""
    titles = (
        "rule",
        "trigger",
        "transition",
        "from → to",
        "guards",
        "fence",
        "writes",
        "attempt",
        "slot",
    )
    lines = [titles, ("---",) * len(titles), *(_cells(row) for row in rows)]
    left = ", ".join(f"`{column}`" for column in HANDOFF_COLUMNS)
    notes = (
        "Rows of one trigger and one source are alternatives: the first whose guards "
        "all hold is taken. Beside the fence, the UPDATE compares the job's id and "
        f"status. *Leaves* empties {left} and keeps the trigger in `last_ack`."
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{notes}\n"


def tla_module(rows: Sequence[Transition] = TABLE) -> str:
    """
    Return the TLA+ module `TransitionTable`: the rows as a set of records.

    A set has no order, so each row also says, as `not <guard>`, that the alternatives
    before it did not apply. `ValueError` where that takes more than one guard.
    """
    records = ",\n".join(
        _record(row, before=rows[:place]) for place, row in enumerate(rows)
    )
    return (
        "---- MODULE TransitionTable ----\n"
        "\\* Generated from src/jobfence/statemachine/table.py by `make generate`.\n"
        "\\* Do not edit: change the table, then generate this file again.\n"
        f"Rows == {{\n{records}\n}}\n"
        "====\n"
    )


def _cells(row: Transition) -> tuple[str, ...]:
    return (
        row.rule,
        row.trigger,
        row.name,
        f"{row.source or _NOTHING} → {row.dest}",
        _listed(row.guards),
        _listed(row.fence),
        _written(row),
        "+1" if row.consumes_attempt else _NOTHING,
        _NOTHING if row.slot is Slot.NONE else row.slot,
    )


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts) or _NOTHING


def _written(row: Transition) -> str:
    if row.source is None:
        return "the whole row"
    writes: Mapping[str, Value] = row.writes
    shown = []
    if row.slot is Slot.RELEASE:
        shown.append("*leaves*")
        writes = {
            column: value
            for column, value in writes.items()
            if column not in HANDOFF_COLUMNS and column != "last_ack"
        }
    return _listed([*shown, *(_assigned(*each) for each in writes.items())])


_AS_WRITTEN = {
    Value.GIVEN: "",
    Value.INCREMENT: " + 1",
    Value.NOW: " = now",
    Value.NULL: " = null",
    Value.TRUE: " = true",
}


def _assigned(column: str, value: Value) -> str:
    return f"`{column}`{_AS_WRITTEN[value]}"


def _record(row: Transition, *, before: Sequence[Transition]) -> str:
    names = [*row.guards, *_others_not_taken(row, before)]
    guards = ", ".join(f'"{name}"' for name in names)
    return (
        f'  [rule |-> "{row.rule}", trigger |-> "{row.trigger}", '
        f'transition |-> "{row.name}",\n'
        f'   source |-> "{row.source or _ABSENT}", dest |-> "{row.dest}",\n'
        f"   guards |-> {{{guards}}},\n"
        f"   consumes_attempt |-> {_boolean(row.consumes_attempt)}, "
        f'slot |-> "{row.slot}", ends_ownership |-> {_boolean(row.ends_ownership)}]'
    )


def _boolean(value: bool) -> str:  # noqa: FBT001  it is what is spelled
    return "TRUE" if value else "FALSE"


_OPPOSITES = {
    Guard.RETRIES_LEFT: Guard.NO_RETRIES_LEFT,
    Guard.NO_RETRIES_LEFT: Guard.RETRIES_LEFT,
    Guard.DUE: Guard.FUTURE,
    Guard.FUTURE: Guard.DUE,
}


def _others_not_taken(row: Transition, before: Sequence[Transition]) -> list[str]:
    """Say why the alternatives before this row did not apply, where it does not yet."""
    reasons = []
    for other in before:
        if (other.trigger, other.source) != (row.trigger, row.source):
            continue
        if any(_OPPOSITES.get(guard) in row.guards for guard in other.guards):
            continue
        more = [guard for guard in other.guards if guard not in row.guards]
        if len(more) != 1:
            raise ValueError(
                f"{row.rule} {row.trigger}/{row.name} stands behind {other.rule} "
                f"{other.name}, which asks for {len(more)} more guards: make it one"
            )
        reasons.append(f"not {more[0]}")
    return reasons
