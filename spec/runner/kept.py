"""
`checks.toml`: which models check each property, kept so that none is lost unnoticed.

It is made of models.toml and the configurations. Whoever takes a model or a property
away writes it anew, and the difference is there to be read.
"""

import textwrap
import tomllib

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from runner.catalogue import SPEC, Model
from runner.checks import Checks, checks_of

KEPT: Final = SPEC / "checks.toml"
RENEW: Final = ".venv/bin/python spec/run.py --checks"
_HEAD: Final = f"""\
# Which models check each property. Written by `{RENEW}`
# from models.toml and models/*.cfg; a line that is lost here is a promise that is kept
# in one model less. Also: who checks for deadlock, and whose actions are counted.
"""
_Found = set[tuple[str, str, str]]


def page(models: Iterable[Model], checks: Checks = checks_of) -> str:
    """Return the file as it should be."""
    found = _found(models, checks)
    return _HEAD + "".join(
        f"\n[{tier}]\n" + "".join(_lines(found, tier))
        for tier in ("quick", "deep")
        if any(each[0] == tier for each in found)
    )


def changed(
    models: Iterable[Model], checks: Checks = checks_of, kept: Path = KEPT
) -> tuple[str, ...]:
    """Say what is checked otherwise than the file says."""
    now, before = _found(models, checks), _read(kept)
    return tuple(
        f"{name} is {word} checked by {model} ({tier})"
        for word, which in (("no longer", before - now), ("newly", now - before))
        for tier, name, model in sorted(which)
    )


def _found(models: Iterable[Model], checks: Checks) -> _Found:
    return {
        ("deep" if model.deep else "quick", name, model.name)
        for model in models
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
