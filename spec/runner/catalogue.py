"""
What is to be run, read from data: `models.toml` and `negatives.toml`.

A model must hold. A negative is a model with a planted fault, given as textual
replacements; it must fail, with the exit code and the property named.
"""

import tomllib

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from runner import tlc

SPEC: Final = Path(__file__).resolve().parent.parent
Entry: TypeAlias = Mapping[str, object]
EXPECTED_CODES: Final = (tlc.ASSUMPTION, tlc.DEADLOCK, tlc.INVARIANT, tlc.PROPERTY)


class CatalogueError(Exception):
    """An entry of models.toml or negatives.toml cannot be used as it stands."""


@dataclass(frozen=True, slots=True)
class Model:
    """
    A module and a configuration of `models/` that TLC must accept.

    `edges`: how many labelled edges its graph has, where that is compared.
    """

    name: str
    module: str
    shows: str
    states: int
    edges: int | None = None
    coverage: bool = False
    deadlock: bool = False
    liveness: bool = False
    deep: bool = False
    workers: int = 1

    @property
    def config(self) -> Path:
        """The committed configuration file."""
        return SPEC / "models" / f"{self.name}.cfg"


@dataclass(frozen=True, slots=True)
class Edit:
    """One textual replacement; `old` must occur exactly once."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Negative:
    """
    A planted fault: where, what, and what TLC must answer to it.

    `states`: the distinct states it has seen by then; for liveness, which TLC looks at
    now and then, they vary.
    """

    name: str
    base: Model
    file: str
    why: str
    code: int
    breaks: str
    states: int | None
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that `spec/run.py` runs."""

    models: tuple[Model, ...]
    negatives: tuple[Negative, ...]


def load_catalogue(folder: Path = SPEC) -> Catalogue:
    """Read both files; raise CatalogueError for an entry that cannot be run."""
    models = tuple(_model(entry) for entry in _entries(folder, "model"))
    by_name = {model.name: model for model in models}
    if len(by_name) != len(models):
        raise CatalogueError("models.toml: two models have the same name")
    for model in models:
        if not model.config.is_file():
            raise CatalogueError(f"models.toml: {model.name} has no {model.config}")
    negatives = tuple(
        _negative(entry, by_name) for entry in _entries(folder, "negative")
    )
    if len({negative.name for negative in negatives}) != len(negatives):
        raise CatalogueError("negatives.toml: two negatives have the same name")
    return Catalogue(models, negatives)


def _entries(folder: Path, kind: str) -> list[Entry]:
    path = folder / f"{kind}s.toml"
    with path.open("rb") as file:
        entries = tomllib.load(file).get(kind, [])
    if not isinstance(entries, list) or not entries:
        raise CatalogueError(f"{path}: no [[{kind}]] in it")
    return entries


def _text(entry: Entry, field: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str):
        raise CatalogueError(f"{field} is {value!r}, must be text, in {dict(entry)}")
    return value


def _number(entry: Entry, field: str, default: int | None = None) -> int:
    value = entry.get(field, default)
    if not isinstance(value, int):
        raise CatalogueError(
            f"{field} is {value!r}, must be a number, in {dict(entry)}"
        )
    return value


def _model(entry: Entry) -> Model:
    return Model(
        name=_text(entry, "name"),
        module=_text(entry, "module"),
        shows=_text(entry, "shows"),
        states=_number(entry, "states"),
        edges=_number(entry, "edges") if "edges" in entry else None,
        coverage=bool(entry.get("coverage")),
        deadlock=bool(entry.get("deadlock")),
        liveness=bool(entry.get("liveness")),
        deep=bool(entry.get("deep")),
        workers=_number(entry, "workers", 1),
    )


def _negative(entry: Entry, models: Mapping[str, Model]) -> Negative:
    name = _text(entry, "name")
    base = models.get(_text(entry, "base"))
    if base is None:
        raise CatalogueError(f"negative {name}: base {entry['base']!r} is no model")
    code = _number(entry, "code")
    if code not in EXPECTED_CODES:
        raise CatalogueError(f"negative {name}: code {code} not in {EXPECTED_CODES}")
    edits = entry.get("edit")
    if not isinstance(edits, list) or not edits:
        raise CatalogueError(f"negative {name}: it has no [[negative.edit]]")
    return Negative(
        name=name,
        base=base,
        file=_text(entry, "file"),
        why=_text(entry, "why"),
        code=code,
        breaks=str(entry.get("breaks", "")),
        states=_number(entry, "states") if "states" in entry else None,
        edits=tuple(Edit(_text(edit, "old"), _text(edit, "new")) for edit in edits),
    )
