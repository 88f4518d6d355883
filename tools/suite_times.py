"""
Run the conformance suite on each of our stores, and keep the time of each layer.

    python -m tools.suite_times

One store after the other, in one process each, with CI's number of sequences. Writes
`docs/results/suite-times.md`; exit code 1 if a store does not pass.
"""

import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results" / "suite-times.md"
STORES = {
    "memory": "model_tests/test_memory.py",
    "SQLite": "model_tests/test_sql.py::TestSqlJobStoreOnSQLite",
    "PostgreSQL": "model_tests/test_sql.py::TestSqlJobStoreOnPostgreSQL",
    "MariaDB": "model_tests/test_sql.py::TestSqlJobStoreOnMariaDB",
    "first example of the page": "model_tests/test_example.py::TestDocumentJobStore",
    "second example of the page": "model_tests/test_example.py::TestFileJobStore",
}
LAYERS = ("matrix", "examples", "processes", "stateful")
_HEAD = """---
orphan: true
---

# The suite's time on each store

<!-- Written by `python -m tools.suite_times`. -->

"""


def main() -> int:
    """Run all of them; 0 if each store passed and was tested."""
    rows, failed = [], []
    for store, tests in STORES.items():
        report = _report(tests)
        ended = report["summary"]
        if ended.get("failed") or not ended.get("passed"):
            failed.append(store)
        rows.append(_row(store, report))
        print(rows[-1], flush=True)
    PAGE.write_text(_page(rows))
    print(f"written: {PAGE.relative_to(ROOT)}")
    print("\n".join(f"{store} did not pass" for store in failed))
    return 1 if failed else 0


def _report(tests: str) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", tests, "--job-report", str(file)],
            cwd=ROOT,
            env={**os.environ, "HYPOTHESIS_PROFILE": "ci"},
            check=False,
        )
        found: Mapping[str, Any] = json.loads(file.read_text())
        return found


def _row(store: str, report: Mapping[str, Any]) -> str:
    layers, summary = report["layers"], report["summary"]
    cells = [
        f"{layers[name]['seconds']:.0f} s, {layers[name]['tests']:.0f}"
        if name in layers
        else "-"
        for name in LAYERS
    ]
    ran = report["sequences"]
    tried = f"{ran['examples']} of {ran['steps']}" if ran else "-"
    told = ", ".join(f"{number} {end}" for end, number in summary.items())
    return f"| {store} | {' | '.join(cells)} | {tried} | {report['seconds']:.0f} | {told} |"


def _page(rows: Sequence[str]) -> str:
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    memory = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)
    where = (
        f"{today}, {os.cpu_count()} cores, {memory} GiB, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}; one process a store, "
        f"servers on the same machine. Seconds and tests of each layer, all its calls:"
    )
    head = ["store", *LAYERS, "sequences of steps", "seconds in all", "tests"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]
    return _HEAD + where + "\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
