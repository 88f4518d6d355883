"""What deep runs found: the last run of each model and each graph, kept as it ends."""

import json

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runner.report import Line, machine

MODEL, SLICE, EVERY_WORLD = "model", "slice", "every world"
_TITLES: Final = {
    MODEL: "Models",
    SLICE: "Graph equality in larger slices",
    EVERY_WORLD: "Graph equality from every content of the tables, not one for each state",
}
_HEADS: Final = {
    MODEL: "states, generated, depth, seen, shows",
    SLICE: "actions, states (spec = store), edges (spec = store), worlds, equal, store s",
}
_PAGE: Final = """# Deep runs

<!-- Written by `make spec-deep`. -->

Each line is the last run of a model, or of the comparison of a slice's graph with that
of the store in memory. Seconds are TLC's, with one or two of the machine's cores.
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """One run that is over: of what, with which figures, when, how long, and where."""

    kind: str
    name: str
    cells: tuple[str, ...]
    seconds: float
    date: str
    machine: str


class Record:
    """The file with all of them, and the page that is made of it."""

    def __init__(self, folder: Path) -> None:
        self._file, self._page = folder / "deep.json", folder / "deep.md"
        self._kept: dict[tuple[str, str], Kept] = {}
        if self._file.is_file():
            for each in json.loads(self._file.read_text()):
                kept = Kept(**{**each, "cells": tuple(each["cells"])})
                self._kept[kept.kind, kept.name] = kept

    def keep_model(self, line: Line, *, date: str) -> None:
        """Keep what a model came to, in the place of its last run."""
        outcome = line.outcome
        counts = (outcome.distinct, outcome.generated, outcome.depth)
        cells = (
            *("-" if count is None else f"{count:,}" for count in counts),
            line.seen if line.ok else f"{line.seen}, expected {line.expected}",
            line.shows,
        )
        self.keep(Kept(MODEL, line.name, cells, outcome.seconds, date, machine()))

    def keep(self, kept: Kept) -> None:
        """Keep one run, and write both files."""
        self._kept[kept.kind, kept.name] = kept
        self._file.parent.mkdir(exist_ok=True)
        entries = [asdict(each) for each in self._kept.values()]
        self._file.write_text(json.dumps(entries, indent=1) + "\n")
        self._page.write_text(self.page())

    def page(self) -> str:
        """Return the page."""
        return "\n".join([_PAGE, *(self._section(kind) for kind in _TITLES)])

    def _section(self, kind: str) -> str:
        head = _HEADS.get(kind, _HEADS[SLICE]).split(", ")
        heads = ["name", *head, "TLC s", "on", "machine"]
        rows = [
            [each.name, *each.cells, f"{each.seconds:.0f}", each.date, each.machine]
            for each in self._kept.values()
            if each.kind == kind
        ]
        lines = [heads, ["---"] * len(heads), *rows]
        told = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"## {_TITLES[kind]}\n\n{told if rows else 'None yet.'}\n"
