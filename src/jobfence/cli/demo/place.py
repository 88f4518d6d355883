"""Where the demo's jobs and results are, for the parent and its workers alike."""

from collections.abc import Iterable

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    insert,
    select,
)

from jobfence.cli.demo.files import Digest
from jobfence.statemachine.retry import ExponentialRetry
from jobfence.statemachine.values import Handoff
from jobfence.store.sql.store import SqlJobStore

# Short, so that a lost worker's job is soon run again in front of the viewer's eyes.
LEASE_MS = 1500
RETRY = ExponentialRetry(base_ms=50, max_ms=1000)


class Place:
    """The job store, and beside it the application's own table of results."""

    def __init__(self, url: str, table_prefix: str) -> None:
        self.store = SqlJobStore(
            url, table_prefix=table_prefix, lease_ms=LEASE_MS, retry_policy=RETRY
        )
        self._metadata = MetaData()
        # By handoff, not by job: a second result of a job must be seen, not refused.
        self._results = Table(
            f"{table_prefix}results",
            self._metadata,
            Column("handoff_id", String(255), primary_key=True),
            Column("job_id", String(255), nullable=False),
            Column("sha256", String(64)),
            Column("line_count", Integer),
        )

    def make(self) -> None:
        """Make all tables."""
        self.store.ensure_ready()
        self._metadata.create_all(self.store.engine)

    def drop(self) -> None:
        """Drop all tables."""
        self._metadata.drop_all(self.store.engine)
        self.store.tables.metadata.drop_all(self.store.engine)

    def close(self) -> None:
        """Close the connections."""
        self.store.close()

    def add_result(
        self, connection: Connection, handoff: Handoff, found: Digest
    ) -> None:
        """Write a result, for the caller to commit."""
        connection.execute(
            insert(self._results),
            {
                "handoff_id": handoff.handoff_id,
                "job_id": handoff.job.id,
                "sha256": found.sha256,
                "line_count": found.lines,
            },
        )

    def results(self) -> Iterable[tuple[str, Digest]]:
        """Return every result there is, by its job's id."""
        columns = self._results.c
        with self.store.engine.connect() as connection:
            rows = connection.execute(
                select(columns.job_id, columns.sha256, columns.line_count)
            ).all()
        return [(row.job_id, Digest(row.sha256, row.line_count)) for row in rows]
