"""Changes the table, one word at a time, and writes down who complains, and where."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from equality.graph import Graph, read_dump
from equality.report import SLICES
from runner import tlc
from runner.catalogue import SPEC, Catalogue, Model
from runner.check import AT_ONCE, check_model
from runner.toolchain import Toolchain

from reader.asked import PREFIX
from reader.change import Change, changes
from reader.page import NOBODY

_COMPARING = ("lifecycle", "rows-1job-scheduled", "rows-2jobs")
_TIMEOUT_S = 900.0
_SUITE = ("model_tests/test_sql.py", "-k", "SQLite")


class Reader:
    """Asks everybody about one change after another."""

    def __init__(self, tools: Toolchain, catalogue: Catalogue, folder: Path) -> None:
        self._tools = tools
        self._models = [each for each in catalogue.models if each.name in _COMPARING]
        self._graphs = folder / "graphs.pickle"
        self._dump(catalogue)

    def _dump(self, catalogue: Catalogue) -> None:
        """Keep the graphs of the sound spec: it does not change, the store does."""
        slices = [each for each in catalogue.models if each.name in SLICES]
        graphs: dict[str, Graph] = {}
        for model in sorted(slices, key=lambda each: each.states):
            with tempfile.TemporaryDirectory(prefix="graph-") as folder:
                dump = Path(folder, "graph.dot")
                check_model(self._tools, model, timeout_s=_TIMEOUT_S, dump=dump)
                graphs[model.name] = read_dump(dump)
        self._graphs.write_bytes(pickle.dumps(graphs))

    def ask(self, change: Change) -> tuple[str, ...]:
        """Return what each of COLUMNS says to this change."""
        with tempfile.TemporaryDirectory(prefix="reader-") as scratch:
            folder = Path(scratch)
            change.copy_package(folder)
            return (
                self._tlc(change),
                _asked(folder, "induction"),
                _asked(folder, "equality", str(self._graphs), change.trigger),
                _trace(folder),
                _suite(folder),
            )

    def _tlc(self, change: Change) -> str:
        if change.kind == "fence":
            return NOBODY
        rows = change.rows()
        if rows is None:
            return "rows not generated: two cannot be told apart"
        found = [_checked(self._tools, model, rows) for model in self._models]
        return ", ".join(each for each in found if each) or NOBODY


def _checked(tools: Toolchain, model: Model, rows: str) -> str | None:
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        for module in SPEC.glob("*.tla"):
            shutil.copy(module, folder)
        Path(folder, "TransitionTable.tla").write_text(rows)
        run = tlc.Run(module=Path(folder, f"{model.module}.tla"), config=model.config)
        outcome = tlc.run_tlc(tools, run)
    if outcome.code == tlc.OK:
        return None
    return f"`{model.name}`: `{outcome.violated or outcome.code}`"


def _python(*arguments: str, package: Path | None) -> subprocess.CompletedProcess[str]:
    """Run Python in the checkout, with this package in the place of ours."""
    first = [str(package)] if package is not None else []
    path = os.pathsep.join([*first, str(SPEC), str(SPEC.parent)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=SPEC.parent,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def _asked(folder: Path, *what: str) -> str:
    done = _python("-m", "reader.asked", *what, package=folder)
    if done.returncode != 0:
        return f"{done.stderr.splitlines()[-1]}"
    return done.stdout.strip() or NOBODY


def _trace(folder: Path) -> str:
    """Let the changed store work, and the sound package judge what it did."""
    url = f"sqlite:///{folder / 'work.db'}"
    said = _asked(folder, "work", url)
    if said != NOBODY:
        return said
    audit = ("-m", "jobfence", "audit", "--url", url, "--table-prefix", PREFIX)
    done = _python(*audit, "--json", package=None)
    found = json.loads(done.stdout)["impossible"]
    return NOBODY if found is None else f"{found['rule']} at {found['action']}"


def _suite(folder: Path) -> str:
    """Run the suite on the changed store, on SQLite; its model is changed as well."""
    report = folder / "report.json"
    done = _python(
        *("-m", "pytest", *_SUITE, "--maxfail=1"),
        *("-q", "--tb=no", "-p", "no:cacheprovider", "--job-report", str(report)),
        package=folder,
    )
    if not report.is_file():
        return f"not run: {(done.stdout + done.stderr).strip().splitlines()[-1]}"
    tests = json.loads(report.read_text())["tests"]
    failed = [each for each in tests if each["outcome"] == "failed"]
    if not failed:
        return NOBODY
    rules = ", ".join(failed[0]["rules"])
    return f"{rules}: `{failed[0]['name'].partition('[')[0]}`"


def reader_table(
    tools: Toolchain, catalogue: Catalogue, *, fences: bool
) -> Iterator[Sequence[str]]:
    """Yield for each change: what was left out, and what each of COLUMNS said."""
    cases = list(changes(fences=fences))
    with tempfile.TemporaryDirectory(prefix="reader-") as folder:
        reader = Reader(tools, catalogue, Path(folder))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for change, said in zip(cases, pool.map(reader.ask, cases), strict=True):
                yield (str(change), *said)
