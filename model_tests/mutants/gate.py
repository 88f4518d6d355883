"""Which mutants may survive, for which reason, and whether that still is so."""

import hashlib
import json
import re
import tomllib

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobfence.conformance.sql.mutants import Mutant
from model_tests.mutants.sweep import Found, Sweep

FOLDER = Path(__file__).parent
LIST = FOLDER / "survivors.toml"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A change of a statement, by what is found in the two texts."""

    statement: re.Pattern[str]
    change: re.Pattern[str]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Pattern":
        """Read it."""
        return cls(re.compile(given["statement"]), re.compile(given["change"]))

    def fits(self, mutant: Mutant, beside: Mutant | None = None) -> bool:
        """Whether the mutant is such a one; `same` is the statement of the other."""
        if beside is not None and self.statement.pattern == "same":
            same = mutant.family == beside.family
            return same and bool(self.change.fullmatch(mutant.change))
        return bool(
            self.statement.search(mutant.family)
            and self.change.fullmatch(mutant.change)
        )


@dataclass(frozen=True, slots=True)
class Accepted:
    """
    Mutants that may survive, with the reason.

    `pair`: the statement is guarded twice, by what the mutant leaves out and by these;
    both left out together must be found. `databases`: all of them if not said.
    """

    mutants: Pattern
    reason: str
    databases: tuple[str, ...] = ()
    pair: tuple[Pattern, ...] = ()

    def fits(self, mutant: Mutant, database: str) -> bool:
        """Whether it is about this mutant on this database."""
        here = not self.databases or database in self.databases
        return here and self.mutants.fits(mutant)

    def __str__(self) -> str:
        return f"{self.mutants.change.pattern} in {self.mutants.statement.pattern}"


def accepted(path: Path = LIST) -> list[Accepted]:
    """Read the list."""
    return [
        Accepted(
            Pattern.of(each),
            " ".join(each["reason"].split()),
            tuple(each.get("databases", ())),
            tuple(map(Pattern.of, each.get("pair", ()))),
        )
        for each in tomllib.loads(path.read_text())["survivor"]
    ]


def entry_for(
    entries: Iterable[Accepted], mutant: Mutant, database: str
) -> Accepted | None:
    """Return the entry that speaks of a mutant."""
    return next((each for each in entries if each.fits(mutant, database)), None)


def with_pair(
    entry: Accepted, mutant: Mutant, mutants: Sequence[Mutant]
) -> list[Mutant]:
    """Return what is to be left out together with the mutant."""
    return [
        each
        for each in mutants
        if each != mutant and any(part.fits(each, mutant) for part in entry.pair)
    ]


def judged(
    sweep: Sweep, entries: Sequence[Accepted]
) -> tuple[list[Found], list[tuple[Accepted, Found]]]:
    """Try every mutant, and those that survive once more with their second guard."""
    database, mutants = sweep.place.database, sweep.mutants()
    plan, found, pairs = plan_of(database), [], []
    for mutant in mutants:
        entry = entry_for(entries, mutant, database)
        first = plan.get(key_of(mutant), "")
        each = sweep.attempt(mutant, first=first, brief=entry is not None)
        found.append(each)
        if each.by is None and entry is not None and entry.pair:
            more = with_pair(entry, mutant, mutants)
            pairs.append((entry, sweep.attempt(mutant, *more)))
    return found, pairs


def plan_of(database: str) -> dict[str, str]:
    """Return what found each mutant in the last whole sweep."""
    file = FOLDER / f"found-{database}.json"
    if not file.exists():
        return {}
    known: dict[str, str] = json.loads(file.read_text())["found"]
    return known


def key_of(mutant: Mutant) -> str:
    """Return a short name of a mutant that stays the same."""
    return hashlib.sha256(str(mutant).encode()).hexdigest()[:12]


def problems(
    found: Iterable[Found], entries: Sequence[Accepted], database: str
) -> Iterator[str]:
    """Say of every survivor that is not listed, and of every entry that is stale."""
    used = set()
    for each in found:
        if each.by is not None:
            continue
        entry = entry_for(entries, each.mutant, database)
        if entry is None:
            yield f"survived, and is not in {LIST.name}: {each.mutant}"
        else:
            used.add(id(entry))
    for entry in entries:
        here = not entry.databases or database in entry.databases
        if here and id(entry) not in used:
            yield f"stale in {LIST.name}: no survivor on {database} is {entry}"
