"""`spec/run.py` says what it could not check, and fails where it must not be silent."""

import os
import subprocess
import sys

from pathlib import Path

import pytest

from equality.deep import run_deep
from runner import tlc
from runner.catalogue import SPEC, load_catalogue
from runner.check import check_model, check_negative
from runner.examples import examples
from runner.record import SLICE, Kept, Record
from runner.report import Line, machine, table
from runner.toolchain import Toolchain, ToolMissingError, find_toolchain

from tests.spec.fake_tlc import tools_that_say

CATALOGUE = load_catalogue()
ACCEPTED = "3 states generated, {} distinct states found, 0 states left on queue.\n"
DEPTH = "The depth of the complete state graph search is 5.\n"


def run_without_java(folder: Path, *, ci: bool) -> subprocess.CompletedProcess[str]:
    hidden = {"PATH", "JAVA_HOME", "CI"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        [sys.executable, str(SPEC / "run.py")],
        env={**kept, "PATH": str(folder), **({"CI": "true"} if ci else {})},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_it_says_so_and_passes(tmp_path: Path) -> None:
    done = run_without_java(tmp_path, ci=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "the formal model was not checked: no java in PATH" in done.stderr


def test_without_java_it_fails_in_ci(tmp_path: Path) -> None:
    done = run_without_java(tmp_path, ci=True)
    assert done.returncode == 1
    assert "no java in PATH" in done.stderr


def test_a_jar_named_by_the_environment_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TLA2TOOLS_JAR", str(tmp_path / "none.jar"))
    with pytest.raises(ToolMissingError, match="jar': no such file"):
        find_toolchain()
    (tmp_path / "none.jar").touch()
    assert find_toolchain() == Toolchain(str(java), tmp_path / "none.jar")


def test_a_model_that_holds_is_as_expected(tmp_path: Path) -> None:
    model = CATALOGUE.models[0]
    said = ACCEPTED.format(model.states) + DEPTH
    line = check_model(tools_that_say(tmp_path, said, 0), model, timeout_s=60)
    assert line.ok
    assert line.seen == f"ok, {model.states:,}"


def test_a_model_that_explores_less_than_before_differs(tmp_path: Path) -> None:
    model = CATALOGUE.models[0]
    said = ACCEPTED.format(model.states - 1)
    line = check_model(tools_that_say(tmp_path, said, 0), model, timeout_s=60)
    assert not line.ok
    assert "<- differs" in table([line])


@pytest.mark.parametrize(
    ("said", "code", "seen"),
    [
        ("Error: Invariant X is violated.\n", tlc.INVARIANT, "12 X"),
        ("Error: Deadlock reached.\n", tlc.DEADLOCK, "11 deadlock"),
        ("Parse error\n", 150, "error 150"),
    ],
)
def test_a_model_that_fails_says_how(
    tmp_path: Path, said: str, code: int, seen: str
) -> None:
    tools = tools_that_say(tmp_path, said, code)
    line = check_model(tools, CATALOGUE.models[0], timeout_s=60)
    assert (line.ok, line.seen) == (False, seen)


def test_a_planted_fault_must_break_the_property_on_record(tmp_path: Path) -> None:
    negative = next(each for each in CATALOGUE.negatives if each.code == tlc.INVARIANT)
    seen = ACCEPTED.format(negative.states)
    said = f"Error: Invariant {negative.breaks} is violated.\n{seen}"
    assert check_negative(tools_that_say(tmp_path, said, 12), negative).ok
    other = f"Error: Invariant Another is violated.\n{seen}"
    assert check_negative(tools_that_say(tmp_path, other, 12), negative).seen == (
        "12 Another"
    )


def test_a_planted_fault_that_is_not_found_differs(tmp_path: Path) -> None:
    negative = CATALOGUE.negatives[0]
    line = check_negative(tools_that_say(tmp_path, ACCEPTED.format(3), 0), negative)
    assert (line.ok, line.seen) == (False, "ok")


def test_a_deep_model_is_kept_as_soon_as_it_is_over_in_the_place_of_its_last_run(
    tmp_path: Path,
) -> None:
    model = CATALOGUE.models[0]
    said = ACCEPTED.format(model.states) + DEPTH
    line = check_model(tools_that_say(tmp_path, said, 0), model, timeout_s=60)
    folder = tmp_path / "results"
    figures = ("7", "2 = 2", "3 = 3", "2", "yes", "9")
    Record(folder).keep(Kept(SLICE, "slice", figures, 5.0, "2026-01-01", "a machine"))
    for day in ("2026-01-02", "2026-01-03"):
        Record(folder).keep_model(line, date=day)
    page = (folder / "deep.md").read_text()
    assert page == Record(folder).page()
    assert f"| {model.name} | {model.states:,} | 3 | 5 | ok, {model.states:,} |" in page
    assert f"| 2026-01-03 | {machine()} |" in page
    assert "2026-01-02" not in page
    assert "| slice | 7 | 2 = 2 | 3 = 3 | 2 | yes | 9 | 5 | 2026-01-01 |" in page


def test_a_model_that_differs_is_kept_as_such(tmp_path: Path) -> None:
    model = CATALOGUE.models[0]
    line = check_model(
        tools_that_say(tmp_path, ACCEPTED.format(3), 0), model, timeout_s=60
    )
    record = Record(tmp_path / "results")
    record.keep_model(line, date="2026-01-02")
    assert f"| ok, 3, expected ok, {model.states:,} |" in record.page()


def test_a_deep_run_of_an_unknown_model_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = tools_that_say(tmp_path, "", 0)
    assert run_deep(tools, CATALOGUE, ["no-such"], timeout_s=60) == 2
    assert capsys.readouterr().out.startswith(
        "no deep model or slice is called no-such"
    )


def test_every_planted_fault_has_its_counterexample_in_the_page() -> None:
    page = (SPEC / "counterexamples.md").read_text()
    headings = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert headings == [each.name for each in CATALOGUE.negatives]


def test_a_counterexample_is_shown_with_its_edit(tmp_path: Path) -> None:
    negative = CATALOGUE.negatives[0]
    said = f"Error: Invariant {negative.breaks} is violated.\n"
    tools = tools_that_say(tmp_path, said, 12)
    line: Line = check_negative(tools, negative)
    page = examples([(negative, line)])
    assert f"- {negative.edits[0].old}\n+ {negative.edits[0].new}\n" in page


def test_of_liveness_the_page_keeps_what_does_not_vary(tmp_path: Path) -> None:
    negative = next(each for each in CATALOGUE.negatives if each.base.liveness)
    pages = []
    for run in ("State 1: <Initial predicate>\nx = 1\n\n", "State 2: Stuttering\n"):
        tools = tools_that_say(tmp_path, f"Error: Temporal properties.\n{run}", 13)
        pages.append(examples([(negative, check_negative(tools, negative))]))
    assert pages[0] == pages[1]
    assert f"--trace {negative.name}` shows one" in pages[0]
    assert f"TLC answers 13 {negative.breaks}." in pages[0]


def test_the_kept_page_has_of_each_liveness_fault_what_would_be_written(
    tmp_path: Path,
) -> None:
    kept = (SPEC / "counterexamples.md").read_text()
    for negative in CATALOGUE.negatives:
        if negative.base.liveness:
            tools = tools_that_say(tmp_path, "", 13)
            page = examples([(negative, check_negative(tools, negative))])
            assert page.partition(f"\n## {negative.name}\n")[2] in kept
