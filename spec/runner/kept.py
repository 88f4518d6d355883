"""
`checks.toml`: which models check each property, and which planted faults break it.

It is made of both lists and the configurations. Whoever takes a model, a property or a
fault away writes it anew, and the difference is there to be read.
"""

import textwrap
import tomllib

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runner.catalogue import SPEC, Catalogue, Model
from runner.checks import Checks, checks_of

KEPT: Final = SPEC / "checks.toml"
RENEW: Final = ".venv/bin/python spec/run.py --checks"
_HEAD: Final = f"""\
# Which models check each property. Written by `{RENEW}`
# from models.toml, models/*.cfg and negatives.toml; a name that is lost here is a promise
# that is kept in one model less. Also: who checks for deadlock, whose actions are
# counted, and which planted faults break each property.
"""
_FAULTS: Final = "faults"
_Found = set[tuple[str, str, str]]


def page(catalogue: Catalogue, checks: Checks = checks_of) -> str:
    """Return the file as it should be."""
    found = _found(catalogue, checks)
    return _HEAD + "".join(
        f"\n[{tier}]\n" + "".join(_lines(found, tier))
        for tier in ("quick", "deep", _FAULTS)
        if any(each[0] == tier for each in found)
    )


def changed(
    catalogue: Catalogue, checks: Checks = checks_of, kept: Path = KEPT
) -> tuple[str, ...]:
    """Say what is checked otherwise than the file says."""
    now, before = _found(catalogue, checks), _read(kept)
    return tuple(
        f"{name} is {word} broken by {by}"
        if tier == _FAULTS
        else f"{name} is {word} checked by {by} ({tier})"
        for word, which in (("no longer", before - now), ("newly", now - before))
        for tier, name, by in sorted(which)
    )


def _found(catalogue: Catalogue, checks: Checks) -> _Found:
    faults = {
        (_FAULTS, negative.breaks or "deadlock", negative.name)
        for negative in catalogue.negatives
    }
    return faults | {
        ("deep" if model.deep else "quick", name, model.name)
        for model in catalogue.models
        for name in (*checks(model), *_flags(model))
    }


def _flags(model: Model) -> Iterator[str]:
    if model.deadlock:
        yield "deadlock"
    if model.coverage:
        yield "coverage"


def _read(kept: Path) -> _Found:
    tiers = tomllib.loads(kept.read_text()) if kept.is_file() else {}
    return {
        (tier, name, model)
        for tier, names in tiers.items()
        for name, models in names.items()
        for model in models
    }


def _lines(found: _Found, tier: str) -> Iterator[str]:
    for name in sorted({each[1] for each in found if each[0] == tier}):
        models = sorted(each[2] for each in found if each[:2] == (tier, name))
        told = ", ".join(f'"{model}"' for model in models)
        wrapped = textwrap.fill(
            told,
            88,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        yield f"{name} = [\n{wrapped},\n]\n"
