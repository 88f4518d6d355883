"""
Mutate `statemachine/` with mutmut, and judge what its tests do not notice.

    python -m tools.mutation [FOLDER]

Runs in a folder of its own that is removed at the end; one that is given is kept, and
what was tried there is not tried again. A mutant that survives has to be
in `tests/statemachine/survivors.toml` with a reason: by the function it is in, and the
line that it takes out and puts in; an entry there that fits none is stale. Writes
`docs/results/statemachine-mutants.md`.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
ACCEPTED = ROOT / "tests" / "statemachine" / "survivors.toml"
PAGE = ROOT / "docs" / "results" / "statemachine-mutants.md"
# Compares the repository's own texts with what diagram.py makes of the table: they are
# not in that folder, so neither is mutated.
LEFT_OUT = "test_generated.py"
# table.py makes its rows when it is imported, before there is a mutant: spec/run.py
# --guards and --fences change those.
_SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/jobfence/statemachine/*.py"]
do_not_mutate = [
  "src/jobfence/statemachine/diagram.py",
  "src/jobfence/statemachine/table.py",
]
pytest_add_cli_args_test_selection = ["tests/statemachine"]
pytest_add_cli_args = ["-q", "-x", "--import-mode=importlib", "-p", "no:cacheprovider"]
also_copy = ["tests"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""
# mutmut puts frames of its own between all calls, and there are tests of deep values.
_CONFTEST = "import sys\n\nsys.setrecursionlimit(10_000)\n"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant by its name, what became of it, and what it changes."""

    name: str
    status: str
    minus: str = ""
    plus: str = ""

    @property
    def place(self) -> str:
        """The module and the function."""
        found = self.name.removeprefix("jobfence.statemachine.")
        found = re.sub(r"__mutmut_\d+$", "", found)
        return re.sub(r"\.x[_ǁ]", ".", found).replace("ǁ", ".")


def main() -> int:
    """Run it; 0 if every survivor has a reason, and every reason a survivor."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(sys.argv[1] if sys.argv[1:] else name)
        _lay_out(folder)
        done = _mutmut(folder, "run", "--max-children", str(os.cpu_count()))
        if done.returncode != 0:
            sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
            return 2
        mutants = list(_results(folder))
    accepted = tomllib.loads(ACCEPTED.read_text())["survivor"]
    survivors = [each for each in mutants if each.status != "killed"]
    reasons = [_reason(each, accepted) for each in survivors]
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(_page(mutants, survivors, reasons, time.monotonic() - begin))
    wrong = [
        f"{each.status}, and has no reason: {each.place}: - {each.minus} + {each.plus}"
        for each, reason in zip(survivors, reasons, strict=True)
        if reason is None
    ]
    wrong += [
        f"stale: no survivor in {entry['in']} is - {entry['minus']} + {entry['plus']}"
        for entry in accepted
        if not any(_fits(entry, each) for each in survivors)
    ]
    print(f"{len(mutants)} mutants, {len(survivors)} survived")
    print("\n".join(wrong))
    return 1 if wrong else 0


def _lay_out(folder: Path) -> None:
    unwanted = shutil.ignore_patterns("__pycache__", LEFT_OUT)
    for part in (Path("src"), Path("tests", "statemachine")):
        shutil.copytree(ROOT / part, folder / part, ignore=unwanted, dirs_exist_ok=True)
    (folder / "tests" / "conftest.py").write_text(_CONFTEST)
    (folder / "pyproject.toml").write_text(_SETTINGS)


def _mutmut(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _results(folder: Path) -> Iterator[Mutant]:
    for line in _mutmut(folder, "results", "--all", "true").stdout.splitlines():
        name, _, status = line.strip().rpartition(": ")
        if not name:
            continue
        if status == "killed":
            yield Mutant(name, status)
            continue
        changes = _mutmut(folder, "show", name).stdout.splitlines()
        yield Mutant(name, status, _changed(changes, "-"), _changed(changes, "+"))


def _changed(lines: Sequence[str], sign: str) -> str:
    found = [each[1:] for each in lines if each[:1] == sign and each[:3] != sign * 3]
    return " ".join(" ".join(found).split())


def _fits(entry: dict[str, str], mutant: Mutant) -> bool:
    return (entry["in"], entry["minus"], entry["plus"]) == (
        mutant.place,
        mutant.minus,
        mutant.plus,
    )


def _reason(mutant: Mutant, accepted: Sequence[dict[str, str]]) -> str | None:
    return next((each["reason"] for each in accepted if _fits(each, mutant)), None)


def _page(
    mutants: Sequence[Mutant],
    survivors: Sequence[Mutant],
    reasons: Sequence[str | None],
    seconds: float,
) -> str:
    counts = Counter(each.status for each in mutants)
    told = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    day = time.strftime("%Y-%m-%d", time.gmtime())
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    head = f"by mutmut {version('mutmut')}: {len(mutants)} mutants: {told}."
    lines = [
        "---\norphan: true\n---\n",
        "# Mutants of the state machine\n",
        "<!-- Written by `python -m tools.mutation`. -->\n",
        f"`src/jobfence/statemachine` under `tests/statemachine`, {head}\n",
        f"On {day}, {machine}, {seconds:.0f} s.\n",
        "| in | changed from | to | why no test can or need notice |",
        "|---|---|---|---|",
    ]
    for each, reason in zip(survivors, reasons, strict=True):
        cells = (each.place, f"`{each.minus}`", f"`{each.plus}`", reason or "**none**")
        lines.append(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
