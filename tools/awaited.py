"""
Write the async store's methods from the sync ones: the same calls, awaited.

`make generate` after a change to `store/sql/methods/`; a test fails when they differ.
"""

import re
import subprocess
import sys

from pathlib import Path

SOURCES = "src/jobfence/store/sql/methods"
TARGETS = "src/jobfence/store/sql/aio"
MODULES = ("core.py", "others.py")

_NOTE = "\n\nMade from the sync methods by `make generate`; change those.\n"
# A registration and not an operation: nothing to wait for.
_STAYS_SYNC = ("on_commit_wake",)


def awaited(source: str) -> str:
    """Return a module of sync methods as one of async methods."""
    text = re.sub(r'\A"""(.*)"""\n', rf'"""\n\1{_NOTE}"""\n', source)
    text = re.sub(
        r"^class (\w+)\(Methods\)",
        r"class Async\1(AsyncMethods)",
        text,
        flags=re.MULTILINE,
    )
    text = text.replace(
        "from jobfence.store.sql.methods.base import Methods",
        "from jobfence.store.sql.aio.base import AsyncMethods",
    )
    text = re.sub(r"^    def (\w+)\(", _with_async, text, flags=re.MULTILINE)
    return _formatted(re.sub(r"(self\._(?:run|follow)\()", r"await \1", text))


def _formatted(source: str) -> str:
    """Break the lines that grew too long, as the formatter does everywhere else."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "x.py", "-"]
    done = subprocess.run(
        command, input=source, capture_output=True, text=True, check=True
    )
    return done.stdout


def _with_async(found: re.Match[str]) -> str:
    if found[1] in _STAYS_SYNC:
        return found[0]
    return f"    async def {found[1]}("


def generated(root: Path) -> dict[Path, str]:
    """Return each async module as it should be."""
    return {
        root / TARGETS / name: awaited((root / SOURCES / name).read_text("utf-8"))
        for name in MODULES
        if (root / SOURCES / name).exists()
    }
