"""What a run shows: one line for each model, and the file a deep run leaves."""

import os
import platform

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

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


def markdown(
    lines: Iterable[Line], graphs: Sequence[str], *, date: str, seconds: float
) -> str:
    """
    Return the record of a deep run, as it is kept in `results/`.

    `graphs`: what was said of the larger slices, and of the small ones from every world.
    """
    head = " | ".join(_HEAD)
    rows = "\n".join(f"| {' | '.join(_cells(line))} |" for line in lines)
    titles = (
        "Graph equality in larger slices:",
        "Graph equality from every content of the tables, not one for each state:",
    )
    compared = "\n".join(
        f"{title}\n\n{said}\n" for title, said in zip(titles, graphs, strict=False)
    )
    return (
        f"# Deep run of {date}\n\n{machine()}; {seconds / 60:.0f} minutes in all.\n\n"
        f"| {head} |\n|{'---|' * len(_HEAD)}\n{rows}\n\n{compared}"
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


def write(path: Path, text: str) -> None:
    """Write the record of a deep run."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


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
