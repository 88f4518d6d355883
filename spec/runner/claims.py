"""
Whether the models check what the spec claims they check.

A planted fault says itself what TLC is to look for. So that it is found shows that the
property can be broken, not that any model looks: that is asked here, of what is
written, before anything is run.
"""

import functools
import re

from collections.abc import Iterable, Iterator
from typing import Final

from runner import kept, tlc
from runner.catalogue import SPEC, Catalogue, Model, Negative
from runner.checks import Checks, checks_of, narrowing

# The modules of statements, and what each of their models must check.
STATEMENTS: Final = ("DedupeSql", "FenceSql", "ScheduleSql")
_OF_STATEMENTS: Final = frozenset({"Refines", "LocksHeld"})
# Of these modules every action must be taken. Those of JobQueue are in the graphs.
COVERED: Final = ("Sql", *STATEMENTS)
_PROMISES: Final = re.compile(r"\n## What is proved.*?(?=\n## )", re.DOTALL)
_PROMISED: Final = re.compile(r"`([A-Z][A-Za-z]+)`")


def unkept_claims(
    catalogue: Catalogue, checks: Checks = checks_of, readme: str | None = None
) -> tuple[str, ...]:
    """Say what is claimed and not checked; nothing means that all of it is."""
    if readme is None:
        readme = (SPEC / "README.md").read_text()
    checks = functools.cache(checks)  # each is asked for several times
    models, negatives = catalogue.models, catalogue.negatives
    return (
        *_of_models(models, checks),
        *_of_coverage(models),
        *_of_negatives(negatives, checks),
        *never_broken(models, negatives, checks),
        *_of_promises(readme, models, checks),
        *_of_kept(catalogue, checks),
    )


def never_broken(
    models: Iterable[Model], negatives: Iterable[Negative], checks: Checks = checks_of
) -> tuple[str, ...]:
    """Say which checked properties no planted fault breaks."""
    checked = frozenset[str]().union(*(checks(model) for model in models))
    broken = {negative.breaks for negative in negatives}
    return tuple(
        f"no planted fault breaks: {name}" for name in sorted(checked - broken)
    )


def promised(readme: str) -> frozenset[str]:
    """Return the properties of which the README says that TLC checks them."""
    section = _PROMISES.search(readme)
    return frozenset(_PROMISED.findall(section[0]) if section else ())


def _of_models(models: Iterable[Model], checks: Checks) -> Iterator[str]:
    for model in models:
        if not checks(model):
            yield f"model {model.name}: it checks nothing"
        for word in narrowing(model.config.read_text()):
            yield f"model {model.name}: {word} keeps TLC from states or steps"
        if model.module in STATEMENTS:
            missing = sorted(_OF_STATEMENTS - checks(model))
            missing += [] if model.deadlock else ["deadlock"]
            for name in missing:
                yield f"model {model.name}: it is of {model.module}, so it must check {name}"


def _of_coverage(models: Iterable[Model]) -> Iterator[str]:
    counted = {model.module for model in models if model.coverage and not model.deep}
    for module in STATEMENTS:
        if module not in counted:
            yield f"module {module}: no quick model of it has `coverage = true`"


def _of_negatives(negatives: Iterable[Negative], checks: Checks) -> Iterator[str]:
    for negative in negatives:
        base = negative.base
        if negative.code == tlc.DEADLOCK:
            checked, name = base.deadlock, "deadlock"
        else:
            checked, name = negative.breaks in checks(base), negative.breaks
        if not checked:
            yield (
                f"planted fault {negative.name}: it breaks {name or 'nothing'}, which "
                f"its model {base.name} does not check"
            )


def _of_promises(readme: str, models: Iterable[Model], checks: Checks) -> Iterator[str]:
    names = promised(readme)
    if not names:
        yield "README.md: it has no section `What is proved` with properties in it"
    checked = frozenset[str]().union(
        *(checks(model) for model in models if not model.deep)
    )
    for name in sorted(names - checked):
        yield f"README.md promises {name}, which no quick model checks"


def _of_kept(catalogue: Catalogue, checks: Checks) -> Iterator[str]:
    changed = kept.changed(catalogue, checks)
    yield from changed
    if changed:
        yield f"If that is meant: `{kept.RENEW}`, and commit what it writes."
