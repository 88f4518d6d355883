"""
The tables (the S rules), and the CHECKs that follow from the table of transitions.

Every table, column and index says in its `info` since which step of the schema it is
there; readiness adds what a database made by an earlier step lacks. Steps: 1 jobs,
concurrency, ledger; 2 schedule keys; 3 schedule order, idempotency, queues and the
rest. A step is never changed once released: add another.
"""

import re

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Index,
    MetaData,
    Table,
    UniqueConstraint,
    text,
)

from jobfence.statemachine import checks
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import HANDOFF_COLUMNS, TABLE, Value
from jobfence.store.dialects.naming import MYSQL_NAMES
from jobfence.store.sql.columns import (
    concurrency_columns,
    idempotency_columns,
    job_columns,
    journal_columns,
    lock_columns,
    migration_columns,
    owner_columns,
    queue_columns,
    schedule_columns,
)

VERSION = 3
UNHELD = "worker_id IS NULL"
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,29}\Z")
_OPTIONS: dict[str, Any] = {
    f"{name}_{option}": value
    for name in MYSQL_NAMES
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"))
}


def ended_columns() -> dict[JobStatus, str]:
    """Return each terminal state's own time column: what all its rows write as now."""
    found: dict[JobStatus, str] = {}
    for status in JobStatus:
        if status.terminal:
            into = [row for row in TABLE if row.dest is status]
            always = set.intersection(
                *(
                    {name for name, value in row.writes.items() if value is Value.NOW}
                    for row in into
                )
            )
            (found[status],) = always
    return found


def check_texts() -> dict[str, str]:
    """Return the CHECK constraints on jobs by name: rows the table cannot reach (M16)."""
    queued, held = JobStatus.QUEUED.value, JobStatus.HANDED_OFF.value
    statuses = ", ".join(f"'{status.value}'" for status in JobStatus)
    always_held = [name for name in HANDOFF_COLUMNS if not name.startswith("lease_")]
    checks = {
        "status": f"status IN ({statuses})",
        "not_negative": "attempts >= 0 AND handoffs >= 0 AND max_retries >= 0",
        "lease": "(lease_ms IS NULL) = (lease_expires_at_ms IS NULL)",
        "lease_held": f"lease_expires_at_ms IS NULL OR status = '{held}'",
        "last_handoff": "handoff_id IS NULL OR handoff_id = last_handoff_id",
        "capped": "(concurrency_key IS NULL) = (max_concurrency IS NULL)",
        "not_marked": f"status <> '{queued}' OR NOT cancel_requested",
    }
    for name in always_held:
        checks[f"held_{name}"] = f"(status = '{held}') = ({name} IS NOT NULL)"
    for status, name in ended_columns().items():
        checks[name] = f"(status = '{status.value}') = ({name} IS NOT NULL)"
    return checks


class Schema:
    """The tables under one prefix and, optionally, in one database schema."""

    def __init__(self, prefix: str, schema: str | None) -> None:
        self.prefix = prefix
        self.metadata = MetaData(schema=schema)
        self.jobs = self._table("jobs", 1, *job_columns(), *self._job_checks())
        self.concurrency = self._table("concurrency", 1, *concurrency_columns())
        self.migrations = self._table("migrations", 1, *migration_columns())
        self.locks = self._table("locks", 1, *lock_columns(), only=MYSQL_NAMES)
        self.schedule_keys = self._table("schedule_keys", 2, *schedule_columns())
        self.idempotency = self._table("idempotency", 3, *idempotency_columns())
        self.queues = self._table("queues", 3, *queue_columns())
        self.owners = self._table("owners", 3, *owner_columns())
        self.journal = self._table("journal", 3, *journal_columns())
        self._add_indexes()

    def _table(
        self, name: str, since: int, *parts: Any, only: tuple[str, ...] | None = None
    ) -> Table:
        return Table(
            self.prefix + name,
            self.metadata,
            *parts,
            info={"since": since, "only": only},
            **_OPTIONS,
        )

    def _job_checks(self) -> list[CheckConstraint | UniqueConstraint]:
        checks: list[CheckConstraint | UniqueConstraint] = [
            CheckConstraint(rule, name=f"{self.prefix}jobs_{name}")
            for name, rule in check_texts().items()
        ]
        # A handoff id is unique because it equals last_handoff_id while it is held.
        unique = UniqueConstraint(
            "last_handoff_id", name=f"{self.prefix}jobs_last_handoff_id_key"
        )
        return [*checks, unique]

    def _add_indexes(self) -> None:
        jobs, queued, held = self.jobs.c, JobStatus.QUEUED, JobStatus.HANDED_OFF
        by_age = (jobs.scheduled_at_ms, jobs.created_at_ms, jobs.id)
        self._index("due", (jobs.priority.desc(), *by_age), status=queued)
        # Not for claims, which would have to sort all that they give: PostgreSQL takes
        # these for cheap while it has no statistics of what was enqueued meanwhile. A
        # claim does not say what they say beside the status.
        self._index("scheduled", by_age, status=queued, when=UNHELD)
        self._index("dedupe", (jobs.args_digest,), status=queued, present="args_digest")
        self._index("lease", (jobs.lease_expires_at_ms, jobs.id), status=held)
        self._index("worker", (jobs.worker_id,), status=held)
        self._index("created", (jobs.created_at_ms, jobs.id))
        self._index(
            "concurrency_key",
            (jobs.concurrency_key, jobs.status),
            present="concurrency_key",
        )
        for name in ended_columns().values():
            self._index(name.removesuffix("_at_ms"), (jobs[name],), present=name)
        self._index(
            "schedule_key",
            (jobs.schedule_key,),
            present="schedule_key",
            since=2,
        )

    def _index(
        self,
        name: str,
        columns: tuple[Any, ...],
        *,
        status: JobStatus | None = None,
        present: str | None = None,
        when: str | None = None,
        since: int = 1,
    ) -> None:
        """
        Add an index over only the rows it serves, where the database can.

        MySQL has no partial indexes: there the status stands first instead.
        """
        full_name = f"{self.prefix}jobs_{name}"
        parts = [] if status is None else [f"status = '{status.value}'"]
        parts += [] if present is None else [f"{present} IS NOT NULL"]
        parts += [] if when is None else [when]
        where = text(" AND ".join(parts)) if parts else None
        info = {"since": since}
        partial = Index(
            full_name,
            *columns,
            postgresql_where=where,
            sqlite_where=where,
            info={**info, "partial": True},
        )
        leading = (self.jobs.c.status,) if status is not None else ()
        plain = Index(full_name, *leading, *columns, info={**info, "partial": False})
        partial.ddl_if(callable_=_unless_mysql)
        plain.ddl_if(callable_=_on_mysql)

    def force_index(self, name: str) -> str:
        """Return MySQL's hint to use one of the jobs' indexes."""
        return f"FORCE INDEX ({self.prefix}jobs_{name})"

    def tables_for(self, dialect_name: str) -> list[Table]:
        """Return the tables that this database needs, in order of creation."""
        return [
            table
            for table in self.metadata.sorted_tables
            if table.info["only"] is None or dialect_name in table.info["only"]
        ]

    def indexes_for(self, table: Table, dialect_name: str) -> list[Index]:
        """Return the indexes of a table in this database's form, by name."""
        partial = dialect_name not in MYSQL_NAMES
        return sorted(
            (each for each in table.indexes if each.info["partial"] is partial),
            key=lambda index: str(index.name),
        )


def _on_mysql(*_: Any, dialect: Any, **__: Any) -> bool:
    return dialect.name in MYSQL_NAMES


def _unless_mysql(*_: Any, dialect: Any, **__: Any) -> bool:
    return dialect.name not in MYSQL_NAMES


def named_schema(prefix: object, schema: object) -> Schema:
    """Check the names of a prefix and a database schema, and return their tables."""
    if not (isinstance(prefix, str) and _PREFIX.match(prefix)):
        raise InvalidOption(
            "table_prefix",
            prefix,
            "must be a letter or underscore and up to 29 letters, digits or "
            "underscores",
        )
    return schema_for(
        checks.plain_text(prefix),
        None if schema is None else checks.text("schema", schema),
    )


@lru_cache(maxsize=32)
def schema_for(prefix: str, schema: str | None) -> Schema:
    """Return the tables for a prefix; the same object for the same names."""
    return Schema(prefix, schema)
