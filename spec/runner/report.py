"""What a run shows: one line for each model."""

import os
import platform

from collections.abc import Sequence
from dataclasses import dataclass

from runner import tlc


@dataclass(frozen=True, slots=True)
class Line:
    """One model or negative: what was expected of it and what was seen."""

    name: str
    shows: str
    outcome: tlc.Outcome
    expected: str
    seen: str

    @property
    def ok(self) -> bool:
        """Whether the model did what is expected of it."""
        return self.expected == self.seen


_HEAD = ("model", "states", "generated", "depth", "s", "expected", "seen", "shows")


def table(lines: Sequence[Line]) -> str:
    """Return the lines as aligned columns."""
    rows = [_HEAD, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    right = {1, 2, 3, 4}
    return "\n".join(
        "  ".join(
            [
                cell.rjust(width) if column in right else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=False))
            ]
            + [row[-1]]
        )
        for row in rows
    )


def machine() -> str:
    """Return the size of this machine: cores, memory, Python; nothing that names it."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    memory = round(pages * size / 2**30)
    python = platform.python_version()
    return (
        f"{os.cpu_count()} cores, {memory} GiB, {platform.system()} "
        f"{platform.machine()}, Python {python}"
    )


def _cells(line: Line) -> tuple[str, ...]:
    counts = (line.outcome.distinct, line.outcome.generated, line.outcome.depth)
    return (
        line.name,
        *("-" if count is None else f"{count:,}" for count in counts),
        f"{line.outcome.seconds:.1f}",
        line.expected,
        line.seen if line.ok else f"{line.seen} <- differs",
        line.shows,
    )
