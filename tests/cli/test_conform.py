"""`jobfence conform`: a store is judged from the command line."""

import json
import subprocess
import sys

from pathlib import Path

import pytest

from tests.cli.support import Ran, Runner

ADAPTERS = """
from hypothesis import settings
from jobfence import Ack, AckResult, MemoryJobStore
from jobfence.conformance import ALL, Capability, Model

shared = Model()

def good(namespace, **settings):
    return shared.open_store(namespace, **settings)

good.capabilities = ALL.without(Capability.PROCESSES, because="memory")

class Unfenced(MemoryJobStore):
    def complete(self, job_id, handoff_id):
        job = self.get(job_id)
        held = job.handoff_id if job else None
        return super().complete(job_id, held or handoff_id)

def bad(namespace, **settings):
    return Unfenced(data=shared.data(namespace), **settings)

nothing = 3

class Noting(MemoryJobStore):
    def claim(self, limit=1, **options):
        with open("calls.txt", "a") as file:
            file.write(f"{limit} ")
        return super().claim(limit, **options)

class Small:
    stateful_settings = settings(
        derandomize=False, deadline=None, max_examples=5, stateful_step_count=20
    )
    model = Model()

    def open_store(self, namespace, **settings):
        return Noting(data=self.model.data(namespace), **settings)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "adapters.py").write_text(ADAPTERS)
    (tmp_path / "raises.py").write_text("raise RuntimeError('no')\n")
    return tmp_path


def conform(folder: Path, *arguments: str) -> Ran:
    """Judge in a process of its own: this one runs pytest already."""
    done = subprocess.run(
        [sys.executable, "-m", "jobfence", "conform", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_good_store_exits_0_and_the_report_says_what_was_tested(folder: Path) -> None:
    arguments = ("--adapter", "adapters:good", "-k", "complete", "--report", "r.json")
    ran = conform(folder, *arguments)
    assert (ran.code, ran.err) == (0, "")
    report = json.loads((folder / "r.json").read_text())
    assert report["summary"]["passed"] > 0
    assert "failed" not in report["summary"]


def test_a_store_that_does_not_fence_exits_1_and_is_told_which_rule(
    folder: Path,
) -> None:
    arguments = ("--adapter", "adapters:bad", "-k", "complete", "--report", "r.html")
    ran = conform(folder, *arguments)
    assert ran.code == 1
    assert "M18" in ran.out
    assert "M18" in (folder / "r.html").read_text()


def test_the_run_ends_after_as_many_failures_as_it_is_told(folder: Path) -> None:
    counts = []
    for most in ("1", "0"):
        arguments = ("--adapter", "adapters:bad", "-k", "complete", "--maxfail", most)
        ran = conform(folder, *arguments, "--report", "r.json")
        assert ran.code == 1
        counts.append(json.loads((folder / "r.json").read_text())["summary"])
    assert counts[0]["failed"] == 1
    assert counts[1]["failed"] > 1


@pytest.mark.parametrize(
    ("adapter", "problem"),
    [
        ("adapters:nope", "has no attribute 'nope'"),
        ("adapters:nothing", "not int"),
        ("no_such_module:x", "No module named 'no_such_module'"),
        ("raises:x", "RuntimeError: no"),
    ],
)
def test_an_adapter_that_cannot_be_had_exits_2(
    folder: Path, adapter: str, problem: str
) -> None:
    ran = conform(folder, "--adapter", adapter)
    assert ran.code == 2
    assert problem in ran.err
    assert "Traceback" not in ran.out + ran.err
    assert len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "required: --adapter"),
        (["--adapter", "x:y", "--maxfail", "z"], "--maxfail: invalid int value: 'z'"),
        (["--adapter", "x:y", "--seed", "z"], "--seed: invalid int value: 'z'"),
        (["--adapter", "x"], "must be like package.module:name, not x"),
        (["--adapter", "x:y", "--report", "r.pdf"], "must end in .html or .json"),
        (["--adapter", "x:y", "--report", "/no/r.html"], "no directory /no"),
    ],
)
def test_a_wrong_option_exits_2(
    jobfence: Runner, arguments: list[str], problem: str
) -> None:
    ran = jobfence("conform", *arguments)
    assert problem in ran.sentence()
    assert ran.code == 2


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_without_its_extra_it_says_what_to_install(folder: Path, missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from jobfence.cli import main\n"
        "sys.exit(main(['conform', '--adapter', 'adapters:good']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    assert "pip install 'jobfence[conformance]'" in ran.sentence()
    assert ran.code == 2


def test_the_same_seed_tries_the_same_sequences(folder: Path) -> None:
    tried = []
    for number, seed in enumerate(["7", "7", "8"]):
        arguments = ("--adapter", "adapters:Small", "-k", "every_method")
        report = f"{number}.json"
        ran = conform(folder, *arguments, "--seed", seed, "--report", report)
        assert (ran.code, ran.err) == (0, "")
        assert f"sequences: 5 of up to 20 steps, seed {seed}" in ran.out
        found = json.loads((folder / report).read_text())
        assert found["sequences"] == {"seed": seed, "examples": 5, "steps": 20}
        tried.append((folder / "calls.txt").read_text())
        (folder / "calls.txt").unlink()
    assert tried[0] == tried[1] != tried[2]


def test_no_profile_of_another_project_says_how_long_the_run_is(folder: Path) -> None:
    """This one's conftest.py has a profile of its own."""
    ran = conform(folder, "--adapter", "adapters:bad", "-k", "every_method")
    assert "sequences: 100 of up to 50 steps, seed 0" in ran.out
