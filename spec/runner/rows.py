"""
The rows of the table as the spec names them, and which of them no model reached.

An action is named after its row: the trigger, then the transition if it is called
otherwise (FailRetry), then the source if two rows would still share a name
(RejectQueued, RejectHandedOff).
"""

import re

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.catalogue import SPEC

_ROW = re.compile(
    r'trigger \|-> "(?P<trigger>\w+)",\s*transition \|-> "(?P<transition>\w+)",'
    r'\s*source \|-> "(?P<source>\w+)"'
)


@dataclass(frozen=True, slots=True)
class Row:
    """What names a row of TransitionTable.tla."""

    trigger: str
    transition: str
    source: str


def read_rows(table: Path = SPEC / "TransitionTable.tla") -> tuple[Row, ...]:
    """Return the rows of the generated module, in its order."""
    return tuple(Row(**match.groupdict()) for match in _ROW.finditer(table.read_text()))


def action_names(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return for each row the name that its action has in JobQueue.tla."""
    rows = tuple(rows)
    short = [_camel(*dict.fromkeys((row.trigger, row.transition))) for row in rows]
    shared = {name for name, count in Counter(short).items() if count > 1}
    return tuple(
        name + _camel(row.source) if name in shared else name
        for name, row in zip(short, rows, strict=True)
    )


def unreached(
    actions: Mapping[tuple[str, str], int], rows: Iterable[Row]
) -> tuple[str, ...]:
    """
    Return what no model reached: actions, and rows that have no reached action.

    `actions` maps (module, action) to how often it was taken in all models together.
    """
    idle = {
        f"{module}!{name}" for (module, name), taken in actions.items() if not taken
    }
    missing = {
        f"row {name}"
        for name in action_names(rows)
        if not actions.get(("JobQueue", name), 0)
    }
    return tuple(sorted(idle | missing))


def _camel(*words: str) -> str:
    return "".join(part.capitalize() for word in words for part in word.split("_"))
