"""One worker that has the data alone (L2)."""

from jobfence.statemachine import checks
from jobfence.store.memory.base import StoreBase
from jobfence.store.memory.rows import OwnerRow


class Ownership(StoreBase):
    """`acquire_ownership` and `release_ownership`."""

    def acquire_ownership(self, worker_id: str, *, ttl_ms: int) -> bool:
        """Become or stay the only worker, unless another is (L2)."""
        worker = checks.text("worker_id", worker_id)
        ttl = checks.integer("ttl_ms", ttl_ms, least=1, most=checks.INT32_MAX)
        with self._transaction() as transaction:
            now, owner = transaction.now, transaction.tables.owner
            if (
                owner is not None
                and owner.worker_id != worker
                and owner.expires_at_ms > now
            ):
                return False
            transaction.tables.owner = OwnerRow(worker, now + ttl)
            return True

    def release_ownership(self, worker_id: str) -> None:
        """Let go, if it is this worker's to let go (L2)."""
        worker = checks.text("worker_id", worker_id)
        with self._transaction() as transaction:
            owner = transaction.tables.owner
            if owner is not None and owner.worker_id == worker:
                transaction.tables.owner = None
