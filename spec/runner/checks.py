"""What a model checks, read from the configuration that TLC reads."""

import re

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from runner.catalogue import SPEC, Model

Checks: TypeAlias = Callable[[Model], frozenset[str]]

# The sections of a configuration that say what to check, each up to the next section.
_CHECKS: Final = re.compile(
    r"^(?:INVARIANTS?|PROPERT(?:Y|IES))\b(.*?)(?=^[A-Z]+\b|\Z)",
    re.MULTILINE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"\\\*[^\n]*|\(\*.*?\*\)", re.DOTALL)
_ASSUMPTION: Final = re.compile(r"^ASSUME (\w+) ==", re.MULTILINE)
# Sections with which TLC looks at less than the specification allows.
_NARROWING: Final = re.compile(r"\b(?:(?:ACTION_)?CONSTRAINTS?|SYMMETRY|VIEW)\b")


def without_checks(config: str) -> str:
    """Return a configuration that explores the same and checks nothing."""
    return _CHECKS.sub("", config)


def named_in(config: str) -> frozenset[str]:
    """Return the names of the properties that a configuration checks."""
    text = _COMMENT.sub("", config)
    return frozenset(
        name for section in _CHECKS.findall(text) for name in section.split()
    )


def narrowing(config: str) -> tuple[str, ...]:
    """Return the sections with which TLC would look at less than there is."""
    return tuple(_NARROWING.findall(_COMMENT.sub("", config)))


def checks_of(model: Model) -> frozenset[str]:
    """Return all that a model checks: invariants, properties, assumptions."""
    module = (SPEC / f"{model.module}.tla").read_text()
    return named_in(model.config.read_text()) | set(_ASSUMPTION.findall(module))


def checked_names(models: Iterable[Model]) -> frozenset[str]:
    """Return every name that some model checks."""
    return frozenset[str]().union(*(checks_of(model) for model in models))
