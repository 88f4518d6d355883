"""Runs of TLC that share a JVM say what each would say in one of its own."""

import dataclasses
import os
import tempfile

from pathlib import Path

import pytest

from runner import tlc
from runner.batches import Batches
from runner.catalogue import SPEC, Model, load_catalogue
from runner.check import check_model, check_negative
from runner.jvm import Jvm
from runner.mutate import plant
from runner.report import Line
from runner.toolchain import Toolchain, ToolMissingError, find_toolchain

from tests.spec.fake_tlc import tools_that_say

CATALOGUE = load_catalogue()
MODELS = {model.name: model for model in CATALOGUE.models}
NEGATIVES = {negative.name: negative for negative in CATALOGUE.negatives}
LIFECYCLE = MODELS["lifecycle"]
RUN = tlc.Run(
    module=SPEC / f"{LIFECYCLE.module}.tla", config=LIFECYCLE.config, coverage=True
)
NO_TOOLS = Toolchain("/no/java", Path("/no/tla2tools.jar"))


@pytest.fixture(scope="module")
def tools() -> Toolchain:
    try:
        return find_toolchain()
    except ToolMissingError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))


class Answers(Jvm):
    """A JVM whose answer is known."""

    def __init__(self, outcome: tlc.Outcome | None) -> None:
        super().__init__(NO_TOOLS)
        self._outcome = outcome

    def run(self, run: tlc.Run) -> tlc.Outcome | None:
        return self._outcome if run.module.suffix == ".tla" else None


def found(
    code: int, *, distinct: int | None = None, violated: str | None = None
) -> tlc.Outcome:
    return tlc.Outcome(code, 0.1, distinct, distinct, 3, violated, {}, "")


def told(outcome: tlc.Outcome | None) -> object:
    assert outcome is not None
    return dataclasses.replace(outcome, seconds=0.0, output="")


def test_runs_in_one_jvm_find_what_each_finds_in_one_of_its_own(
    tools: Toolchain, tmp_path: Path
) -> None:
    refuted = plant(NEGATIVES["table-leaves-the-end"], tmp_path)
    with Jvm(tools) as jvm:
        shared = [told(jvm.run(run)) for run in (RUN, refuted, RUN)]
    holds, refused = (told(tlc.run_tlc(tools, run)) for run in (RUN, refuted))
    assert shared == [holds, refused, holds]


def scratch_folders() -> set[Path]:
    return {*Path(tempfile.gettempdir()).glob("tlc-*")}


def test_a_run_that_takes_too_long_ends_its_jvm_and_the_next_gets_a_new_one(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Jvm(tools, start_s=0.0) as jvm:
        assert jvm.run(dataclasses.replace(RUN, timeout_s=0.0)) is None
        again = jvm.run(RUN)
        left = scratch_folders()
    assert again is not None
    assert len(left) == 1
    assert not left & scratch_folders()
    assert (again.code, again.distinct) == (tlc.OK, LIFECYCLE.states)


def test_a_jvm_that_cannot_start_gives_no_answer_and_says_why_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Jvm(Toolchain(str(tmp_path / "bin/java"), tmp_path / "no.jar")) as jvm:
        assert [jvm.run(RUN), jvm.run(RUN)] == [None, None]
    assert capfd.readouterr().err.count("no JVM for several runs: ") == 1


def test_the_answer_of_a_shared_jvm_counts_if_it_is_the_expected_one(
    tmp_path: Path,
) -> None:
    otherwise = tools_that_say(tmp_path, "Parse error\n", 150)
    holds = Answers(found(tlc.OK, distinct=LIFECYCLE.states))
    assert check_model(otherwise, LIFECYCLE, timeout_s=60, jvm=holds).ok
    negative = NEGATIVES["table-leaks-slot"]
    refuted = found(12, distinct=negative.states, violated=negative.breaks)
    assert check_negative(otherwise, negative, jvm=Answers(refuted)).ok


@pytest.mark.parametrize(
    "shared",
    [None, found(tlc.OK, distinct=LIFECYCLE.states - 1), found(12), found(255)],
    ids=["none", "fewer states", "refuted", "broken"],
)
def test_any_other_answer_of_a_shared_jvm_is_asked_again_of_one_of_its_own(
    tmp_path: Path, shared: tlc.Outcome | None
) -> None:
    said = f"9 states generated, {LIFECYCLE.states} distinct states found\n"
    own = tools_that_say(tmp_path, said, 0)
    line = check_model(own, LIFECYCLE, timeout_s=60, jvm=Answers(shared))
    assert line.ok
    assert line.outcome.output == said

    own = tools_that_say(tmp_path, "Parse error\n", 150)
    line = check_model(own, LIFECYCLE, timeout_s=60, jvm=Answers(shared))
    assert (line.ok, line.seen) == (False, "error 150")


def test_a_fault_found_after_other_states_than_on_record_differs(
    tmp_path: Path,
) -> None:
    negative = NEGATIVES["table-leaks-slot"]
    said = (
        f"Error: Invariant {negative.breaks} is violated.\n"
        "9 states generated, 3 distinct states found\n"
    )
    line = check_negative(tools_that_say(tmp_path, said, 12), negative)
    assert (line.ok, line.seen) == (
        False,
        f"12 {negative.breaks} after 3 states, {negative.states} on record",
    )


def test_works_of_one_root_module_share_a_jvm_and_liveness_has_its_own() -> None:
    used: dict[str, Jvm | None] = {}

    def work(model: Model, jvm: Jvm | None) -> Line:
        used[model.name] = jvm
        return Line(model.name, model.shows, found(tlc.OK), "ok", "ok")

    models = [
        MODELS[name]
        for name in ("rows-1job", "lifecycle", "live-2jobs", "counters-3jobs")
    ]
    for share in (True, False):
        batches = Batches(share=share)
        for model in models:
            batches.add(model, lambda *, jvm, it=model: work(it, jvm))
        lines = batches.run(NO_TOOLS, at_once=2)
        assert {line.name for line in lines} == {model.name for model in models}
        assert [used[model.name] is None for model in models] == (
            [False, False, True, False] if share else [True] * 4
        )
        if share:
            assert used["rows-1job"] is used["counters-3jobs"]
            assert used["rows-1job"] is not used["lifecycle"]
