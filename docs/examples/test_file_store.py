"""The suite on the example of "Write an adapter"."""

import tempfile

from pathlib import Path

from file_store import FileJobStore

from jobfence.conformance import ALL, Capability, JobStoreSuite


class TestFileJobStore(JobStoreSuite):
    capabilities = (
        ALL.without(
            Capability.AMBIENT_TRANSACTIONS, because="a file has no transaction to join"
        )
        .without(Capability.COUNTER_ROWS, because="slots are counted under the lock")
        .without(
            Capability.IDEMPOTENCY,
            Capability.MAX_HANDOFFS,
            Capability.OWNERSHIP,
            Capability.PAUSE,
            Capability.QUEUE_STATS,
            Capability.REQUEUE,
            Capability.RETENTION,
            Capability.SCHEDULE_KEYS,
            because="left out of the example to keep it short",
        )
    )

    def open_store(self, namespace, *, clock, queues, lease_ms, retry_policy):
        return FileJobStore(
            path_of(namespace),
            clock=clock,
            queues=queues,
            lease_ms=lease_ms,
            retry_policy=retry_policy,
        )

    def drop_namespace(self, namespace):
        path_of(namespace).unlink(missing_ok=True)


def path_of(namespace):
    return Path(tempfile.gettempdir(), f"jobs-{namespace}.jsonl")
