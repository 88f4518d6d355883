"""
The reader's test: take one guard out of the table and see who notices.

Each guard of each row is left out in turn, the module of rows is generated anew, and
the models that compare rows are run on it. Needs `jobfence` itself, for the table.
"""

import dataclasses
import shutil
import tempfile

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jobfence.statemachine.diagram import tla_module
from jobfence.statemachine.table import TABLE, Guard
from runner import tlc
from runner.catalogue import SPEC, Catalogue, Model
from runner.check import AT_ONCE
from runner.toolchain import Toolchain

_COMPARING = ("lifecycle", "rows-1job-scheduled", "rows-2jobs")


def without(place: int, guard: Guard) -> str | None:
    """Return the rows without this guard, or None if they cannot even be generated."""
    row = TABLE[place]
    left = tuple(each for each in row.guards if each is not guard)
    changed = dataclasses.replace(row, guards=left)
    try:
        return tla_module((*TABLE[:place], changed, *TABLE[place + 1 :]))
    except ValueError:
        return None


def guard_table(tools: Toolchain, catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield for each guard: the row and the guard left out, and who complained."""
    models = [model for model in catalogue.models if model.name in _COMPARING]
    cases = [(place, guard) for place, row in enumerate(TABLE) for guard in row.guards]

    def complaints(case: tuple[int, Guard]) -> str:
        rows = without(*case)
        if rows is None:
            return "`make generate`: two rows cannot be told apart"
        found = [_complaint(tools, model, rows) for model in models]
        return ", ".join(each for each in found if each) or "nobody"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (place, guard), said in zip(
            cases, pool.map(complaints, cases), strict=True
        ):
            row = TABLE[place]
            yield f"{row.rule} {row.trigger}/{row.name} without {guard}", said


def _complaint(tools: Toolchain, model: Model, rows: str) -> str | None:
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        for module in SPEC.glob("*.tla"):
            shutil.copy(module, folder)
        (Path(folder) / "TransitionTable.tla").write_text(rows)
        run = tlc.Run(module=Path(folder) / f"{model.module}.tla", config=model.config)
        outcome = tlc.run_tlc(tools, run)
    if outcome.code == tlc.OK:
        return None
    return f"`{model.name}`: `{outcome.violated or outcome.code}`"
