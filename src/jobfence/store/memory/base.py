"""What every part of the store stands on: its settings, its lock, its listeners."""

import logging

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from jobfence.statemachine import checks
from jobfence.statemachine.clock import Clock, SystemClock
from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.ids import IdFactory, random_id, time_ordered_id
from jobfence.statemachine.machine import JobMachine
from jobfence.statemachine.parts import check_parts, now_ms
from jobfence.statemachine.policy import QueuePolicy, check_queues
from jobfence.statemachine.retry import RetryPolicy, SteppedRetry
from jobfence.statemachine.values import Job
from jobfence.store.contract import DEFAULT_LEASE_MS, WakeListener
from jobfence.store.memory.data import JobData, MemoryData
from jobfence.store.memory.rows import JobRow, read_job
from jobfence.store.memory.transaction import Transaction

logger = logging.getLogger("jobfence")


class StoreBase:
    """Settings are this instance's own; all that is durable is in `data`."""

    def __init__(
        self,
        *,
        queues: Mapping[str, QueuePolicy] | None = None,
        clock: Clock | None = None,
        lease_ms: int | None = DEFAULT_LEASE_MS,
        retry_policy: RetryPolicy | None = None,
        max_handoffs: int | None = None,
        ids: IdFactory | None = None,
        handoff_ids: Callable[[], str] | None = None,
        data: JobData | None = None,
    ) -> None:
        """Open a store: on a fresh data set, or as a further instance on `data`."""
        check_parts(clock, retry_policy, ids, handoff_ids, has_server=False)
        self._queues = check_queues(queues)
        self._clock = clock or SystemClock()
        self._lease_ms = checks.lease_ms(lease_ms)
        self._retry_policy = retry_policy or SteppedRetry()
        self._max_handoffs = (
            None
            if max_handoffs is None
            else checks.integer(
                "max_handoffs", max_handoffs, least=1, most=checks.INT32_MAX
            )
        )
        self._ids = ids or time_ordered_id
        self._handoff_ids = handoff_ids or random_id
        self._data: JobData = MemoryData() if data is None else data
        self._machine = JobMachine()
        self._listeners: list[WakeListener] = []

    @property
    def data(self) -> JobData:
        """What this store shares with others, and where tests look."""
        return self._data

    @property
    def clock(self) -> Clock:
        """What judges due and lease times."""
        return self._clock

    def ensure_ready(self, *, create: bool = True) -> None:
        """Do nothing: there are no tables to make or to check."""

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def clear(self) -> None:
        """Delete everything, for every store on this data."""
        with self._data.transaction() as tables:
            tables.clear()

    def on_commit_wake(self, listener: WakeListener) -> None:
        """Call back after this instance's commits that may have made work due (T3)."""
        self._listeners.append(listener)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        """
        Run one operation: all of it, or on an error nothing.

        Listeners are called after it, so that they may use the store.
        """
        with self._data.transaction() as tables:
            transaction = Transaction(
                tables=tables,
                now=now_ms(self._clock),
                machine=self._machine,
                queues=self._queues,
                retry_policy=self._retry_policy,
                max_handoffs=self._max_handoffs,
            )
            yield transaction
        if transaction.wake:
            self._wake()

    def _wake(self) -> None:
        for listener in tuple(self._listeners):
            try:
                listener()
            except Exception:
                logger.exception("a wake-up listener raised; the change stands")


def read_or_log(row: JobRow) -> Job | None:
    """Read a row, or log why it cannot be read and return None (M21)."""
    try:
        return read_job(row)
    except UnreadableJob as problem:
        logger.warning("left out: %s", problem)
        return None
