"""Faults of who has the data alone (L2)."""

from jobfence.conformance.faults.base import Faulty, fault


@fault("L2", "examples", "any worker's release ends another's ownership")
class OwnershipReleasedByAnybody(Faulty):
    def release_ownership(self, worker_id: str) -> None:
        owner = self.data.tables.owner
        super().release_ownership(worker_id if owner is None else owner.worker_id)


@fault("L2", "examples", "an ownership whose time is over is never given to another")
class OwnershipForEver(Faulty):
    def acquire_ownership(self, worker_id: str, *, ttl_ms: int) -> bool:
        owner = self.data.tables.owner
        if owner is not None and owner.worker_id != worker_id:
            return False
        return super().acquire_ownership(worker_id, ttl_ms=ttl_ms)


@fault("L2", "examples", "an ownership cannot be renewed before its time is over")
class OwnershipNotRenewed(Faulty):
    def acquire_ownership(self, worker_id: str, *, ttl_ms: int) -> bool:
        owner = self.data.tables.owner
        if owner is not None and owner.expires_at_ms > self.now:
            return owner.worker_id == worker_id
        return super().acquire_ownership(worker_id, ttl_ms=ttl_ms)


@fault("L2", "examples", "each instance knows its own owner only")
class OwnershipNotShared(Faulty):
    def acquire_ownership(self, worker_id: str, *, ttl_ms: int) -> bool:
        self.data.tables.owner = self.__dict__.get("owner")
        taken = super().acquire_ownership(worker_id, ttl_ms=ttl_ms)
        self.__dict__["owner"] = self.data.tables.owner
        return taken
