import json
import subprocess
import sys

from pathlib import Path

import pytest

from jobfence.statemachine.table import TABLE
from tests.conformance.support import run

FAST = ["-k", "acknowledgement or paused or drifted"]


@pytest.fixture(scope="module")
def unfenced(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Certify a store without fences, once."""
    scratch = tmp_path_factory.mktemp("unfenced")
    done = run(
        "jobfence.conformance",
        "adapters:unfenced",
        "report.html",
        *FAST,
        cwd=scratch,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout, scratch / "report.html"


def test_a_fault_is_named_with_its_rule_in_one_screen(
    unfenced: tuple[str, Path],
) -> None:
    said, _ = unfenced
    shown = said[said.index("= conformance =") :]
    assert "M18: test_an_acknowledgement_does_what_the_table_says" in shown
    assert "more like it" in shown
    assert "stale, not accepted" in shown
    assert len(shown.splitlines()) < 24


def test_a_page_of_its_own_names_the_fault_and_loads_nothing(
    unfenced: tuple[str, Path],
) -> None:
    _, report = unfenced
    page = report.read_text()
    assert "tests failed" in page
    assert f"of {len(TABLE)} transitions" in page
    assert "stale, not accepted" in page
    assert "<a href='#rule-M18'>M18</a>" in page
    assert "id=rule-M18 " in page
    assert ".rule.failed, .rule.passed { color: #fff; }" in page  # on their colours
    assert "<script" not in page
    assert "http" not in page


def test_no_test_file_is_needed_and_json_says_everything(tmp_path: Path) -> None:
    done = run(
        "pytest",
        *("--pyargs", "jobfence.conformance", "--job-adapter", "adapters:good"),
        *("--job-report", "report.json", "-q", "-p", "no:cacheprovider", *FAST),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["store"] == "adapters:good"
    assert report["suite"]
    assert report["rules"]["M18"]["passed"] > 200
    assert report["summary"]["passed"] > 200
    assert report["coverage"]["edges"]["complete: handed_off → completed"] > 0
    assert report["coverage"]["edges"]["wake: queued → queued"] == 0  # left out by -k
    assert report["coverage"]["states"]["fail"]["cancelled"] > 0
    assert "seeded_faults" not in report


def test_seeded_faults_are_counted_and_survivors_named(tmp_path: Path) -> None:
    (tmp_path / "test_faults.py").write_text(
        "import pytest\n"
        "from jobfence.conformance.faults import CATALOGUE\n"
        "@pytest.mark.parametrize('fault', CATALOGUE[:3])\n"
        "def test_found(fault):\n"
        "    assert fault is not CATALOGUE[1]\n"
    )
    done = run(
        *("pytest", "--job-report", "report.json", "-q", "-p", "no:cacheprovider"),
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    faults = json.loads((tmp_path / "report.json").read_text())["seeded_faults"]
    assert faults["number"] == 3
    assert len(faults["survived"]) == 1
    assert f"3 seeded faults, 1 survived: {faults['survived'][0]}" in done.stdout


def test_what_is_declared_missing_and_works_is_reported(tmp_path: Path) -> None:
    done = run(
        "jobfence.conformance", "adapters:good", "report.json", *FAST, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pause is declared missing, and works: declare it" in done.stdout
    assert "counter_rows is declared missing, and works" not in done.stdout
    (told,) = [line for line in done.stdout.splitlines() if "declared missing:" in line]
    missing = told.removeprefix("declared missing: ").split(", ")
    found = json.loads((tmp_path / "report.json").read_text())["capabilities"]
    assert found["pause"] == {
        "meaning": "pauses queues (R4)",
        "declared": False,
        "reason": "this test says so",
        "tested": False,
        "works_though_missing": True,
    }
    assert found["requeue"]["declared"]
    assert not found["requeue"]["tested"]  # left out by -k
    assert missing == [name for name in found if not found[name]["declared"]]


def test_what_is_declared_and_was_not_tested_is_no_yes(tmp_path: Path) -> None:
    arguments = ("adapters:good", "report.html", "-k", "joined or paused or requeued")
    done = run("jobfence.conformance", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    why = "the adapter gives no transaction to join"
    told = f"ambient_transactions is declared, and not tested: {why}"
    assert told in done.stdout
    assert "requeue is declared, and" not in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "(T1)<td class=missing>declared, not tested" in page
    assert "(R5)<td class=passed>yes" in page
    assert "<span class='rule skipped' id=rule-T1 title='3 skipped'>" in page
    assert f"<tr><td>{why}<td class=n>3" in page


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        ("adapters", "package.module:name, not 'adapters'"),
        ("adapters:no_such", "has no attribute 'no_such'"),
        ("no_such_module:x", "No module named 'no_such_module'"),
        ("adapters:model", "a function like open_store"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_refused_in_a_sentence(
    tmp_path: Path, adapter: str, said: str
) -> None:
    done = run("jobfence.conformance", adapter, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stdout + done.stderr


def test_the_suite_needs_no_sqlalchemy(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys; sys.modules['sqlalchemy'] = None\n"
                "from jobfence.conformance import JobStoreSuite, run_stateful\n"
            ),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_plugin_costs_other_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    assert 'jobfence.conformance.plugin' in sys.modules\n"
        "    assert 'jobfence.conformance.suite' not in sys.modules\n"
    )
    done = run("pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_several_processes_are_refused_for_a_report_would_miss_most(
    tmp_path: Path,
) -> None:
    suite = ["--pyargs", "jobfence.conformance", "--job-adapter", "adapters:unfenced"]
    done = run("pytest", *suite, "-n", "2", "-q", cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "leave out -n of pytest-xdist" in done.stderr
    assert done.stdout == ""
