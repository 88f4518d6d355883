"""A line for each soak in a page that is kept: `JOBFENCE_SOAK_RECORD=FILE`."""

import datetime as dt
import os
import platform
import sqlite3

from collections.abc import Mapping
from pathlib import Path

from tests.store.sql.bench import Database

RECORD = "JOBFENCE_SOAK_RECORD"
HEAD = (
    "| date | database | machine | transitions | entries | transactions | s "
    "| processes killed | connections killed | stale answers | repeated answers "
    "| recovered | Python, s | TLC, s |"
)


def keep(
    database: Database, figures: Mapping[str, int], seconds: Mapping[str, float]
) -> None:
    """Append a line to the page that the environment names, if it names one."""
    if not (name := os.environ.get(RECORD)):
        return
    path = Path(name)
    if not path.exists():
        path.write_text(f"{HEAD}\n|{'---|' * (HEAD.count('|') - 1)}\n")
    with path.open("a") as page:
        page.write(_line(database, figures, seconds))


def _line(
    database: Database, figures: Mapping[str, int], seconds: Mapping[str, float]
) -> str:
    counted = [
        f"{figures.get(name, 0):,}"
        for name in (
            *("processes killed", "connections killed"),
            *("stale", "repeated", "recovered"),
        )
    ]
    judged = [
        f"{seconds[name]:.1f}" if name in seconds else "-" for name in ("python", "tlc")
    ]
    cells = [
        dt.datetime.now(tz=dt.UTC).date().isoformat(),
        f"{database.name} {_version(database)}",
        f"{os.cpu_count()} cores, Python {platform.python_version()}",
        *(f"{figures[name]:,}" for name in ("transitions", "entries", "transactions")),
        f"{seconds['soak']:.0f}",
        *counted,
        *judged,
    ]
    return f"| {' | '.join(cells)} |\n"


def _version(database: Database) -> str:
    if database.name == "sqlite":
        return sqlite3.sqlite_version
    with database.engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT version()").scalar_one()
    words = str(found).removeprefix("PostgreSQL ").split()
    return words[0].partition("-")[0]
