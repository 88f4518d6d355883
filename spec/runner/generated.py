"""Whether the rows that TLC reads are the rows that the stores follow."""

from pathlib import Path
from typing import Final

from jobfence.statemachine.diagram import tla_module
from runner.catalogue import SPEC

ROWS: Final = SPEC / "TransitionTable.tla"


def stale(rows: Path = ROWS) -> str:
    """Say in a sentence that the generated module is not the table; '' if it is."""
    try:
        expected = tla_module()
    except ValueError as error:
        return (
            "nothing was checked: src/jobfence/statemachine/table.py has rows that "
            f"{rows.name} cannot hold: {error}"
        )
    if rows.is_file() and rows.read_text(encoding="utf-8") == expected:
        return ""
    return (
        f"nothing was checked: spec/{rows.name} is not what "
        "src/jobfence/statemachine/table.py says. Run `make generate`, then again."
    )
