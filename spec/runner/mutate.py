"""Makes a negative: a copy of the spec with one planted fault."""

import re
import shutil

from collections.abc import Iterable
from pathlib import Path

from runner import tlc
from runner.catalogue import SPEC, CatalogueError, Model, Negative

# The sections of a configuration that say what to check, each up to the next section.
_CHECKS = re.compile(
    r"^(?:INVARIANTS?|PROPERT(?:Y|IES))\b(.*?)(?=^[A-Z]+\b|\Z)",
    re.MULTILINE | re.DOTALL,
)
_ASSUMPTION = re.compile(r"^ASSUME (\w+) ==", re.MULTILINE)


def plant(negative: Negative, folder: Path) -> tlc.Run:
    """
    Write the faulty spec into `folder` and return how to run it.

    Only the property that must break is checked, so that no other can break first.
    """
    for module in SPEC.glob("*.tla"):
        shutil.copy(module, folder)
    target = folder / negative.file
    if not target.is_file():
        raise CatalogueError(f"negative {negative.name}: no module {negative.file}")
    text = target.read_text()
    for edit in negative.edits:
        seen = text.count(edit.old)
        if seen != 1:
            raise CatalogueError(
                f"negative {negative.name}: found {seen} times in {negative.file}, "
                f"must be once:\n{edit.old}"
            )
        text = text.replace(edit.old, edit.new)
    target.write_text(text)
    config = folder / "negative.cfg"
    config.write_text(_only(negative))
    return tlc.Run(
        module=folder / f"{negative.base.module}.tla",
        config=config,
        check_deadlock=negative.code == tlc.DEADLOCK,
    )


def _only(negative: Negative) -> str:
    section = {tlc.INVARIANT: "INVARIANT", tlc.PROPERTY: "PROPERTY"}.get(negative.code)
    config = without_checks(negative.base.config.read_text())
    return f"{config}\n{section} {negative.breaks}\n" if section else config


def without_checks(config: str) -> str:
    """Return a configuration that explores the same and checks nothing."""
    return _CHECKS.sub("", config)


def checked_names(models: Iterable[Model]) -> frozenset[str]:
    """Return every name that some model checks: invariants, properties, assumptions."""
    names: set[str] = set()
    for model in models:
        for section in _CHECKS.findall(model.config.read_text()):
            names.update(section.split())
        module = SPEC / f"{model.module}.tla"
        names.update(_ASSUMPTION.findall(module.read_text()))
    return frozenset(names)
