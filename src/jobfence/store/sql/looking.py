"""What an operator asks beyond the contract: the end of a listing, and one counter."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from jobfence.store.sql.auditing import settings_of
from jobfence.store.sql.runner import OwnRunner, Ready
from jobfence.store.sql.store import SqlJobStore
from jobfence.store.sql.tx import Tx

T = TypeVar("T")


def job_before_the_last(
    store: SqlJobStore, filters: Mapping[str, str], count: int
) -> str | None:
    """Return the job that a listing's last page of so many goes on from (O2)."""
    jobs = store.tables.jobs
    query = jobs.select().with_only_columns(jobs.c.id)
    for column, value in filters.items():
        query = query.where(jobs.c[column] == value)
    order = (jobs.c.created_at_ms.desc(), jobs.c.id.desc())
    query = query.order_by(*order).offset(count).limit(1)
    found: str | None = _look(store, lambda tx: tx.scalar(query))
    return found


def counter(store: SqlJobStore, key: str) -> tuple[int | None, int]:
    """Return a concurrency key's cap and its handed-off jobs (C1)."""
    counters = store.tables.concurrency
    query = counters.select().where(counters.c.concurrency_key == key)
    row = _look(store, lambda tx: tx.run(query).first())
    return (None, 0) if row is None else (row.max_concurrency, row.active_count)


def _look(store: SqlJobStore, work: Callable[[Tx], T]) -> T:
    """Read as the store itself does: tried again, and its errors in our words."""
    return OwnRunner(store.engine, settings_of(store), Ready()).look(work)
