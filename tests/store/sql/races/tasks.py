"""What the tests let other processes do; each opens its own store."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races.watch import Troubles

Ready = Callable[[], object]


@contextmanager
def opened(url: str, prefix: str) -> Iterator[tuple[SqlJobStore, Counter[str]]]:
    """Give a store, and what troubles it meets."""
    store = SqlJobStore(url, table_prefix=prefix)
    troubles = Troubles()
    troubles.watch(store.engine)
    try:
        yield store, troubles.seen
    finally:
        store.close()


def enqueue_once(
    ready: Ready, url: str, prefix: str, keys: Sequence[str]
) -> tuple[list[str], Counter[str]]:
    """Enqueue one job for each idempotency key, once everybody is ready."""
    with opened(url, prefix) as (store, troubles):
        store.ensure_ready()
        ready()
        ids = [store.enqueue("job", idempotency_key=key) for key in keys]
    return ids, troubles
