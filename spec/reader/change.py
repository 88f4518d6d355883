"""
One change of the table: a guard or a fence left out of one row.

The change is made in a copy of the package, in `statemachine/table.py` itself, so that
all that is derived from the table follows: SQL, the store in memory, the spec's rows.
"""

import dataclasses
import shutil

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jobfence

from jobfence.statemachine.diagram import tla_module
from jobfence.statemachine.table import TABLE, Fence, Guard

_PACKAGE: Final = Path(jobfence.__file__).parent
# The rows are whole there, and nothing has been made of them yet.
_BEFORE: Final = "\n\ndef alternatives("
_EDIT: Final = """
_changed = list(TABLE)
_changed[{place}] = __import__("dataclasses").replace(
    TABLE[{place}],
    {kind}=tuple(each for each in TABLE[{place}].{kind} if each != "{word}"),
)
TABLE = tuple(_changed)
"""


@dataclass(frozen=True, slots=True)
class Change:
    """A guard or a fence that one row loses."""

    place: int
    word: Guard | Fence

    def __str__(self) -> str:
        """Say it as the table does."""
        row = TABLE[self.place]
        return f"{row.rule} {row.trigger}/{row.name} without {self.kind} {self.word}"

    @property
    def trigger(self) -> str:
        """The row's trigger."""
        return TABLE[self.place].trigger.value

    @property
    def kind(self) -> str:
        """The field of the row that holds it."""
        return "guard" if isinstance(self.word, Guard) else "fence"

    def rows(self) -> str | None:
        """Return the spec's rows so changed, or None: they cannot be generated."""
        row = TABLE[self.place]
        if isinstance(self.word, Fence):
            return tla_module()  # a fence is not in them
        left = tuple(each for each in row.guards if each is not self.word)
        changed = dataclasses.replace(row, guards=left)
        try:
            return tla_module((*TABLE[: self.place], changed, *TABLE[self.place + 1 :]))
        except ValueError:
            return None

    def copy_package(self, folder: Path) -> None:
        """Write the package with the change in it into the folder."""
        copy = folder / _PACKAGE.name
        shutil.copytree(_PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        table = copy / "statemachine" / "table.py"
        text = table.read_text()
        if text.count(_BEFORE) != 1:
            raise ValueError(
                f"{table} has not one {_BEFORE.strip()!r}: look where the rows end"
            )
        kind = "guards" if self.kind == "guard" else "fence"
        edit = _EDIT.format(place=self.place, kind=kind, word=self.word)
        table.write_text(text.replace(_BEFORE, f"\n{edit}{_BEFORE}"))


def changes(*, fences: bool) -> Iterator[Change]:
    """Yield every guard of every row, or every fence."""
    for place, row in enumerate(TABLE):
        for word in row.fence if fences else row.guards:
            yield Change(place, word)
