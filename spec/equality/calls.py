"""One call of the store from one world: what it answered and where it led."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from runner.rows import action_names, read_rows

from equality.slices import QUEUE, Slice
from equality.world import NOW, World, settled
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.options import EnqueueOptions, ScheduleOptions
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.table import TABLE, Trigger
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.data import MemoryData, Tables
from jobfence.store.memory.rows import JobRow

Move: TypeAlias = tuple[str, World]
LEASE_MS: Final = 1000
_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")
_NAMES: Final = dict(
    zip(
        ((row.trigger, row.name, row.source) for row in TABLE),
        action_names(read_rows()),
        strict=True,
    )
)


class Caller:
    """Calls stores on one data set, which each call finds in the world it is given."""

    def __init__(self, bounds: Slice) -> None:
        self.bounds = bounds
        self._data = MemoryData()
        self._next_id = 0
        self._stores = {policy: self._open(policy) for policy in (0, *bounds.caps)}

    def _open(self, policy: int) -> MemoryJobStore:
        policies = {QUEUE: QueuePolicy(max_concurrent=policy)} if policy else {}
        return MemoryJobStore(
            queues=policies,
            clock=ManualClock(NOW),
            lease_ms=LEASE_MS if self.bounds.on("lease") else None,
            max_handoffs=self.bounds.max_handoffs or None,
            ids=lambda: str(self._next_id),
            data=self._data,
        )

    def call(
        self,
        world: World,
        ask: Callable[Concatenate[MemoryJobStore, _Arguments], _Answer],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> tuple[_Answer, World]:
        """Call this method of a store that sees this world."""
        self._data.tables = world.tables
        answer = ask(self._stores[world.policy], *args, **kwargs)
        time = self.bounds.on("time")
        tables = settled(self._data.tables, world.tables, time=time)
        if tables is world.tables:
            return answer, world
        return answer, replace(world, tables=tables)

    def request(self, world: World, job: int, time: int | None) -> EnqueueOptions:
        """Return the options of a job, which is the next to be made."""
        return {
            **self.scheduled_request(world, job, time),
            "deduplicate_while_queued": job in self.bounds.identity_of,
            "idempotency_key": self.bounds.idempotency_key_of.get(job),
        }

    def scheduled_request(
        self, world: World, job: int, time: int | None
    ) -> ScheduleOptions:
        """Return the same for `replace_scheduled`."""
        self._next_id = job
        options = ScheduleOptions(
            queue=QUEUE, max_retries=self.bounds.retries, scheduled_at=time
        )
        key = self.bounds.key_of.get(job)
        if key is not None:
            # A caller gives the cap that is registered (C3), else the lowest: the one
            # that TLC chooses.
            counter = world.tables.counters.get(key)
            cap = min(self.bounds.caps) if counter is None else counter.max_concurrency
            options["concurrency_key"], options["max_concurrency"] = key, cap
        return options

    def work(self, job: int) -> str:
        """Return the argument that makes jobs of one identity the same work."""
        return self.bounds.identity_of.get(job, f"work of {job} alone")


def edited(world: World, job: int, **columns: object) -> World:
    """Return the world with columns of a job written past every rule."""
    if not columns:
        return world
    data = MemoryData()
    data.tables = world.tables
    data.edit_job(str(job), **columns)
    return replace(world, tables=data.tables)


def first_worlds(caller: Caller) -> list[World]:
    """Return the worlds to start from: every cap of every key, every policy."""
    bounds = caller.bounds
    worlds = [World(Tables(), 0)]
    for key in sorted({*bounds.key_of.values()}):
        worlds = [
            caller.call(world, MemoryJobStore.set_concurrency, key, cap)[1]
            for world in worlds
            for cap in bounds.caps
        ]
    followed = any(job not in bounds.key_of for job in bounds.ids)
    policies = (0, *bounds.caps) if followed else (0,)
    return [replace(world, policy=policy) for world in worlds for policy in policies]


def action(before: JobRow, after: JobRow, trigger: Trigger, error: str) -> str:
    """
    Name the action that a trigger came to, by where it led.

    A failed recovery is one of two, told apart by the error that the job keeps.
    """
    found = [
        row
        for row in TABLE
        if (row.trigger, row.source, row.dest) == (trigger, before.status, after.status)
    ]
    if len(found) > 1:
        gave_up = after.last_error == error
        found = [row for row in found if (row.name == "give_up") is gave_up]
    (row,) = found
    return _NAMES[row.trigger, row.name, row.source]


def by_job(old: Mapping[int, int], job: int, number: int) -> Mapping[int, int]:
    """Return the map with one entry set."""
    return {**old, job: number}


def refused(call: str, world: World, then: World) -> Iterator[Move]:
    """Yield an edge that the spec never has if a call that was refused wrote anything."""
    if then is not world:
        yield f"RefusedBut_{call}", then
