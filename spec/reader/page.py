"""The tables of the reader's test in `spec/README.md`."""

import re

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

COLUMNS: Final = ("TLC", "z3", "graph equality", "trace replay", "conformance suite")
NOBODY: Final = "-"


def head() -> str:
    """Return the first two lines of a table."""
    return f"| left out | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}"


def line(said: Sequence[str]) -> str:
    """Return the line of one change: what was left out, and what each column said."""
    return f"| {' | '.join(said)} |"


def unnoticed(said: Sequence[str], *, fences: bool = False) -> bool:
    """
    Whether nobody complained of what somebody must.

    Of fences that is the handoff's. The others say again what was just read under a
    lock: README.md says who finds them together with the lock.
    """
    must = not fences or said[0].endswith("fence handoff")
    return must and set(said[1:]) == {NOBODY}


def write(page: Path, found: Iterable[Sequence[str]], *, fences: bool) -> None:
    """Put the table in its place in the page, which two comments mark."""
    name = "fences" if fences else "guards"
    place = re.compile(rf"(<!-- made: {name} -->\n).*?(<!-- /made -->)", re.DOTALL)
    table = "\n".join([head(), *map(line, found)])
    text, times = place.subn(
        lambda marks: f"{marks[1]}\n{table}\n\n{marks[2]}", page.read_text()
    )
    if times != 1:
        raise ValueError(
            f"{page}: {times} places are marked 'made: {name}', must be one"
        )
    page.write_text(text)
