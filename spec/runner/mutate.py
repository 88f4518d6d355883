"""Makes a negative: a copy of the spec with one planted fault."""

import shutil

from pathlib import Path

from runner import tlc
from runner.catalogue import SPEC, CatalogueError, Negative
from runner.checks import without_checks


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
