"""`spec/run.py` runs nothing where what it would run is not what it claims."""

import os
import shutil
import subprocess
import sys

from pathlib import Path

import pytest

from runner import generated
from runner.catalogue import SPEC


def edited(folder: Path, name: str, old: str, new: str) -> Path:
    """A copy of the spec with one edit in one of its files."""
    copy = folder / "spec"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SPEC, copy, ignore=ignored)
    text = (copy / name).read_text()
    assert text.count(old) == 1
    (copy / name).write_text(text.replace(old, new))
    return copy


def run_in(spec: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Its `run.py`, where no Java is: what is refused is refused before TLC."""
    hidden = {"PATH", "JAVA_HOME", "CI"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        [sys.executable, str(spec / "run.py"), *arguments],
        env={**kept, "PATH": str(spec)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("--induction",), ("--only", "lifecycle")])
def test_a_module_of_rows_that_is_not_the_table_is_refused_by_every_command(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    guarded = 'guards |-> {"due", "not_paused", "slot_free"}'
    copy = edited(
        tmp_path, "TransitionTable.tla", guarded, guarded.replace('"due", ', "")
    )
    done = run_in(copy, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "nothing was checked: spec/TransitionTable.tla is not what "
        "src/jobfence/statemachine/table.py says. Run `make generate`, then again.\n"
    )


def test_rows_that_cannot_be_generated_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def impossible() -> str:
        raise ValueError("two cannot be told apart")

    monkeypatch.setattr(generated, "tla_module", impossible)
    assert generated.stale().endswith("cannot hold: two cannot be told apart")


def test_rows_that_are_missing_are_stale(tmp_path: Path) -> None:
    assert "none.tla is not what" in generated.stale(tmp_path / "none.tla")


def test_the_rows_as_they_are_are_not_stale() -> None:
    assert generated.stale() == ""
