"""Labelled state graphs: how they are written, read from TLC's dump, and compared."""

import re

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from runner.values import Value, parse_value

State: TypeAlias = str  # as `written` writes it: equal texts, equal states
Edge: TypeAlias = tuple[State, str, State]

_NODE = re.compile(r'^(-?\d+) \[label="((?:[^"\\]|\\.)*)"(,style = filled)?')
_EDGE = re.compile(r'^(-?\d+) -> (-?\d+) \[label="(\w+)"')
_VARIABLE = re.compile(r"^/\\ (\w+) = ", re.MULTILINE)
# A record of a job: the same few occur in thousands of states.
_RECORD = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True, slots=True)
class Graph:
    """All states that can be reached, and every step between them with its action."""

    initial: frozenset[State]
    states: frozenset[State]
    edges: frozenset[Edge]

    @property
    def actions(self) -> frozenset[str]:
        """The names of the actions that lead anywhere."""
        return frozenset(map(action_of, {label for _, label, _ in self.edges}))


def action_of(label: str) -> str:
    """Return the action of an edge, whose label may say more after it (`names.py`)."""
    return label.partition("_")[0]


def written(value: Value) -> str:
    """Write a value in one way only: TLC orders the fields of a record by its mood."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, tuple):
        return f"<<{', '.join(map(written, value))}>>"
    if isinstance(value, Mapping):
        if not value:
            return "<<>>"  # to TLA+ a function of nothing is the empty tuple
        pairs = sorted((written(key), written(each)) for key, each in value.items())
        return f"[{', '.join(f'{key} |-> {each}' for key, each in pairs)}]"
    return str(value)


def read_dump(path: Path) -> Graph:
    """Read what TLC dumps with `-dump dot,actionlabels`."""
    states: dict[str, State] = {}
    initial: set[State] = set()
    ends: set[tuple[str, str, str]] = set()
    reader = _Reader()
    with path.open() as lines:
        for line in lines:
            if edge := _EDGE.match(line):
                ends.add((edge[1], edge[3], edge[2]))
            elif node := _NODE.match(line):
                states[node[1]] = state = states.get(node[1]) or reader.state(node[2])
                if node[3]:
                    initial.add(state)
    return Graph(
        initial=frozenset(initial),
        states=frozenset(states.values()),
        edges=frozenset(
            (states[before], label, states[after]) for before, label, after in ends
        ),
    )


class _Reader:
    """Reads states, and each record in them once."""

    def __init__(self) -> None:
        self._records: dict[str, str] = {}

    def state(self, label: str) -> State:
        text = label.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
        text = _RECORD.sub(self._record, text)
        found = [*_VARIABLE.finditer(text)]
        stops = [*(each.start() for each in found[1:]), len(text)]
        return written(
            {
                name[1]: parse_value(text[name.end() : stop])
                for name, stop in zip(found, stops, strict=True)
            }
        )

    def _record(self, record: re.Match[str]) -> str:
        text = record[0]
        if text not in self._records:
            # As a string it is one word to the parser, and `written` leaves it alone.
            self._records[text] = f'"{written(parse_value(text))}"'
        return self._records[text]


@dataclass(frozen=True, slots=True)
class Difference:
    """What one of two graphs has and the other has not."""

    states: tuple[frozenset[State], frozenset[State]]
    edges: tuple[frozenset[Edge], frozenset[Edge]]
    initial: bool

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.initial or any(self.states) or any(self.edges)


def compare(one: Graph, other: Graph) -> Difference:
    """Return what only `one` has and what only `other` has."""
    return Difference(
        states=(one.states - other.states, other.states - one.states),
        edges=(one.edges - other.edges, other.edges - one.edges),
        initial=one.initial != other.initial,
    )


def described(edges: Collection[Edge], *, most: int = 3) -> Iterator[str]:
    """Yield a few edges, one of each action, from where to where."""
    by_action = {
        action_of(label): (before, label, after)
        for before, label, after in sorted(edges)
    }
    for before, label, after in [*by_action.values()][:most]:
        to = "the same" if after == before else after
        yield f"{label}\n      from {before}\n      to   {to}"
