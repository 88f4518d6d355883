"""Plain values compared, and differences said in few words."""

import re

from collections.abc import Sequence
from dataclasses import dataclass


class Word(str):
    """A text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Step:
    """One call, and what it must answer, with refs in the place of ids."""

    call: str
    answer: object


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which the store and the model differ."""

    where: str
    expected: str
    seen: str

    @property
    def column(self) -> str | None:
        """The column of a job in which they differ, if that is the place."""
        found = re.fullmatch(r"jobs\[.*\]\.(\w+)", self.where)
        return None if found is None else found[1]

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, seen {self.seen}"


class Divergence(AssertionError):
    """
    The store did something else than the model; `steps` is how it came there.

    `told` is all of it but the rules.
    """

    def __init__(
        self,
        rules: str,
        steps: Sequence[Step],
        found: Sequence[Difference],
        script: Sequence[object] = (),
    ) -> None:
        self.script = tuple(script)
        self.rules, self.differences = rules, tuple(found)
        self.steps = [(step.call, shorten(step.answer)) for step in steps]
        lines = [
            f"{number:>3}. {call}" + (f"  ->  {answer}" if answer else "")
            for number, (call, answer) in enumerate(self.steps, 1)
        ]
        lines += [f"  {each}" for each in self.differences[:_MOST_SHOWN]]
        more = len(self.differences) - _MOST_SHOWN
        lines += [f"  and {more} more"] if more > 0 else []
        self.told = "the store differs from the model\n" + "\n".join(lines)
        super().__init__(f"{rules}: {self.told}")

    def is_like(self, other: "Divergence") -> bool:
        """Whether it is about the same thing, wherever it was seen first."""
        if self.rules == other.rules:
            return True
        column, others = self.differences[0].column, other.differences[0].column
        return column is not None and column == others


_MOST_SHOWN = 6


_SHORT = 100


def shorten(value: object) -> str:
    """Say an answer in few words: a job by its ref and status."""
    told = _tell(value)
    return told if len(told) <= _SHORT else told[:_SHORT] + "…"


def _tell(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_tell, value)) + "]"
    if not isinstance(value, dict):
        return repr(value)
    if "raises" in value:
        told = [f"{key}={content!r}" for key, content in value.items()][1:]
        return f"{value['raises']}({', '.join(told)})"
    if value.get("is") == "Job":
        return f"{value['id']} {value['status']}"
    if value.get("is") == "Handoff":
        return f"{value['handoff_id']} of {_tell(value['job'])}"
    rest = [_tell(content) for key, content in value.items() if key != "is"]
    return f"{value.get('is', '')}({', '.join(rest)})"


def compare(expected: object, seen: object, path: str = "") -> list[Difference]:
    """Say where two plain values differ, the smallest parts only."""
    if expected == seen:
        return []
    found: list[Difference] = []
    if isinstance(expected, dict) and isinstance(seen, dict):
        for key in [*expected, *(key for key in seen if key not in expected)]:
            where = f"{path}.{key}" if path else str(key)
            found += compare(expected.get(key, _NONE), seen.get(key, _NONE), where)
        return found
    if (
        isinstance(expected, list)
        and isinstance(seen, list)
        and len(expected) == len(seen)
    ):
        for index, (one, other) in enumerate(zip(expected, seen, strict=True)):
            found += compare(one, other, f"{path}[{_name(one, index)}]")
        return found
    return [Difference(path or "the answer", shorten(expected), shorten(seen))]


_NONE = "(absent)"


def _name(item: object, index: int) -> str:
    """Name an item of a list: a job by its ref, anything else by its place."""
    return repr(item["id"]) if isinstance(item, dict) and "id" in item else str(index)
