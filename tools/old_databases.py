"""
Write databases as earlier steps of the schema made them, with jobs in them.

    python tools/old_databases.py tests/store/sql/fixtures

Run once, when a step is released, to have files that later versions are tested to
upgrade. A file that exists is never written again: it is history, and must not follow
what the code says today. Parts of the schema know their step by `info["since"]`.
"""

import sys

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Dialect, Table
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from jobfence.store.sql.schema import Schema, schema_for

STEPS = (1, 2)
DIALECTS: dict[str, Dialect] = {
    name: make_url(f"{driver}://").get_dialect()()
    for name, driver in (
        ("sqlite", "sqlite"),
        ("postgresql", "postgresql+psycopg"),
        ("mariadb", "mariadb+pymysql"),
    )
}

JOB = {
    "args": "[1]",
    "kwargs": "{}",
    "args_digest": "d" * 64,
    "queue": "default",
    "priority": 0,
    "priority_explicit": False,
    "max_retries": 10,
    "cancel_requested": False,
}
QUEUED = {
    **JOB,
    "id": "v1-queued",
    "name": "resize",
    "status": "queued",
    "created_at_ms": 1000,
    "scheduled_at_ms": 1200,
}
HELD = {
    **JOB,
    "id": "v1-held",
    "name": "thumbnail",
    "status": "handed_off",
    "handoffs": 1,
    "created_at_ms": 1100,
    "scheduled_at_ms": 1100,
    "handed_off_at_ms": 1500,
    "handoff_id": "v1-handoff",
    "worker_id": "v1-worker",
    "last_handoff_id": "v1-handoff",
    "last_worker_id": "v1-worker",
    "last_handed_off_at_ms": 1500,
    "concurrency_key": "account:1",
    "max_concurrency": 2,
}
COUNTER = {"concurrency_key": "account:1", "max_concurrency": 2, "active_count": 1}
SCHEDULED = {
    **QUEUED,
    "id": "v2-scheduled",
    "name": "report",
    "scheduled_at_ms": 9000,
    "schedule_key": "nightly",
}
OWNER = {"schedule_key": "nightly", "job_id": "v2-scheduled"}

Content = list[tuple[str, dict[str, Any]]]
CONTENT: dict[int, Content] = {
    1: [("jobs", QUEUED), ("jobs", HELD), ("concurrency", COUNTER)],
    2: [("jobs", SCHEDULED), ("schedule_keys", OWNER)],
}


def statements(schema: Schema, dialect: Dialect, step: int) -> Iterator[str]:
    """Return what makes a database of this step, tables first."""
    for table in schema.tables_for(dialect.name):
        if table.info["since"] <= step:
            yield create_table(table, dialect, step)
            for index in schema.indexes_for(table, dialect.name):
                if index.info["since"] <= step:
                    yield spelled(CreateIndex(index), dialect)
    for done in range(1, step + 1):
        ledger = {"version": done, "at_ms": 1000 * done}
        yield insert(schema.migrations, ledger, dialect)
        for name, row in CONTENT[done]:
            yield insert(schema.metadata.tables[schema.prefix + name], row, dialect)


def create_table(table: Table, dialect: Dialect, step: int) -> str:
    """Return CREATE TABLE with the columns there were then."""
    compiler = dialect.ddl_compiler(dialect, CreateTable(table))
    parts = [
        spelled(CreateColumn(column), dialect)
        for column in table.columns
        if column.info["since"] <= step
    ]
    constraints = sorted(table.constraints, key=lambda each: str(each.name))
    parts += [compiler.process(each) for each in constraints]
    inside = ",\n  ".join(parts)
    return (
        f"CREATE TABLE {table.name} (\n  {inside}\n){compiler.post_create_table(table)}"
    )


def insert(table: Table, row: dict[str, Any], dialect: Dialect) -> str:
    """Return an INSERT with the values in it."""
    statement = table.insert().values(row)
    return str(
        statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    )


def spelled(element: Any, dialect: Dialect) -> str:
    """Return a DDL element as text."""
    return str(element.compile(dialect=dialect)).strip()


def main(directory: Path) -> None:
    """Write the files that are not there yet."""
    schema = schema_for("jobfence_", None)
    for step in STEPS:
        for name, dialect in DIALECTS.items():
            path = directory / f"v{step}.{name}.sql"
            if path.exists():
                print(f"kept {path}")
                continue
            text = ";\n\n".join(statements(schema, dialect, step))
            path.write_text(f"{text};\n", encoding="utf-8")
            print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
