"""
Every action of JobQueue.tla as calls of the store, named by what the store answered.

Whether a call is allowed is not decided here: each is made in every world, with every
argument. A refusal is an edge only where the spec has one, or where it changed anything.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from equality.answers import acknowledge
from equality.calls import Caller, Move, action, by_job, edited, refused
from equality.slices import QUEUE
from equality.world import LATER, NOW, World, handoff_id
from jobfence.statemachine import texts
from jobfence.statemachine.errors import IdempotencyConflict
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import CancelOutcome, WakeOutcome
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.rows import unreadable

DAY_MS: Final = 86_400_000


def enqueue(caller: Caller, world: World) -> Iterator[Move]:
    """Rules M1, E4, E5. A future time is tried before and after that of a twin."""
    bounds = caller.bounds
    times = (None, LATER - 1, LATER + 1) if bounds.on("time") else (None,)
    for job in _new_jobs(caller, world):
        if job in bounds.schedule_key_of:
            continue
        for time in times:
            answer, then = caller.call(world, _enqueue, caller, world, job, time)
            if answer == str(job):
                yield "Enqueue", then
            elif job in bounds.idempotency_key_of:
                yield "EnqueueRepeated", then
            else:
                yield "EnqueueDuplicate", then


def _enqueue(
    store: MemoryJobStore, caller: Caller, world: World, job: int, time: int | None
) -> str:
    try:
        return store.enqueue(
            "n", [caller.work(job)], **caller.request(world, job, time)
        )
    except IdempotencyConflict as conflict:
        return conflict.job_id  # another request: the key is taken too


def replace_scheduled(caller: Caller, world: World) -> Iterator[Move]:
    """Rules K1 to K3."""
    for job in _new_jobs(caller, world):
        key = caller.bounds.schedule_key_of.get(job)
        if key is None:
            continue
        for time in (None, LATER) if caller.bounds.on("time") else (None,):
            options = caller.scheduled_request(world, job, time)
            ask, work = MemoryJobStore.replace_scheduled, [caller.work(job)]
            _, then = caller.call(world, ask, key, "n", work, None, **options)
            yield "ReplaceScheduled", then


def claim(caller: Caller, world: World) -> Iterator[Move]:
    """Rules M2, M11, M13: a claim may be refused and yet write."""
    for job in caller.bounds.ids:
        row = world.job(job)
        number = 1 if row is None else row.handoffs + 1
        answer, then = caller.call(
            world,
            MemoryJobStore.claim_job,
            str(job),
            handoff_id=handoff_id(job, number),
        )
        after = then.job(job)
        if row is None or after is None:
            yield from refused("Claim", world, then)
        elif after.status is JobStatus.FAILED and row.status is JobStatus.QUEUED:
            yield action(row, after, Trigger.REJECT, ""), then
        elif number > caller.bounds.bound:
            continue  # the slice ends here
        elif answer is not None:
            yield "Claim", replace(then, writers=by_job(world.writers, job, number))
        elif then.tables != world.tables:
            yield "AdoptPolicy", then


def recover(caller: Caller, world: World) -> Iterator[Move]:
    """Rules M8, M21. One job at a time: that whose lease ended first."""
    for job in caller.bounds.ids:
        row = world.job(job)
        if row is None:
            continue
        lease = row.lease_expires_at_ms
        over = lease is not None and lease <= NOW
        earlier = edited(world, job, lease_expires_at_ms=NOW - 1) if over else world
        _, then = caller.call(earlier, MemoryJobStore.recover_expired, limit=1)
        after = then.job(job)
        assert after is not None
        if after.status is row.status:
            if not _any_lease_over(world):  # else it was another's turn
                yield from refused("Recover", earlier, then)
            continue
        broken = unreadable(row) is not None
        spent = texts.handoffs_spent(caller.bounds.max_handoffs)
        trigger = Trigger.REJECT if broken else Trigger.RECOVER
        writers = by_job(world.writers, job, row.handoffs)
        yield action(row, after, trigger, spent), replace(then, writers=writers)


def _any_lease_over(world: World) -> bool:
    leases = (row.lease_expires_at_ms for row in world.tables.jobs.values())
    return any(lease is not None and lease <= NOW for lease in leases)


def cancel(caller: Caller, world: World) -> Iterator[Move]:
    """Rules M9, M14."""
    for job in caller.bounds.ids:
        answer, then = caller.call(world, MemoryJobStore.cancel, str(job))
        if answer.outcome is CancelOutcome.CANCELLED:
            yield "Cancel", then
        elif answer.outcome is CancelOutcome.REQUESTED:
            yield "RequestCancel", then
        else:
            yield from refused("Cancel", world, then)


def prune(caller: Caller, world: World) -> Iterator[Move]:
    """Rule R1. One job at a time: the only one that ended long ago."""
    for job in caller.bounds.ids:
        row = world.job(job)
        if row is None:
            continue
        old = {
            name: NOW - DAY_MS
            for name in ("completed_at_ms", "failed_at_ms", "cancelled_at_ms")
            if getattr(row, name) is not None
        }
        aged = edited(world, job, **old)
        removed, then = caller.call(
            aged,
            MemoryJobStore.prune_terminal,
            completed_ttl_ms=DAY_MS,
            failed_ttl_ms=DAY_MS,
            cancelled_ttl_ms=DAY_MS,
        )
        if removed:
            yield (
                "PruneTerminal",
                replace(
                    then,
                    writers={
                        each: number
                        for each, number in world.writers.items()
                        if each != job
                    },
                    pruned=by_job(world.pruned, job, row.schedule_order or 0),
                ),
            )
        else:
            yield from refused("Prune", aged, then)


def by_schedule_key(caller: Caller, world: World) -> Iterator[Move]:
    """Rules of section K that ask for no new job."""
    for key in sorted({*caller.bounds.schedule_key_of.values()}):
        cancelled, then = caller.call(world, MemoryJobStore.cancel_scheduled, key)
        if cancelled.outcome is not CancelOutcome.NOT_FOUND:
            yield "CancelScheduled", then
        else:
            yield from refused("CancelScheduled", world, then)
        woken, then = caller.call(world, MemoryJobStore.wake_scheduled, key)
        if woken.outcome is WakeOutcome.WOKEN:
            yield "Wake", then
        else:
            yield from refused("Wake", world, then)


def policies(caller: Caller, world: World) -> Iterator[Move]:
    """Rules C0, C3, C7, R4. To change a thing to itself is no action."""
    bounds = caller.bounds
    for key in sorted({*bounds.key_of.values()}):
        for cap in bounds.caps:
            _, then = caller.call(world, MemoryJobStore.set_concurrency, key, cap)
            if then.tables != world.tables:
                yield "SetConcurrency", then
    for cap in (0, *bounds.caps):
        if cap != world.policy:
            yield "Configure", replace(world, policy=cap)
    _, then = caller.call(world, MemoryJobStore.reconcile_queue_policies)
    yield "ReconcileQueuePolicies", then
    paused = world.tables.queue(QUEUE).paused
    _, then = caller.call(world, MemoryJobStore.pause_queue, QUEUE)
    if not paused:
        yield "PauseQueue", then
    else:
        yield from refused("PauseQueue", world, then)
    _, then = caller.call(world, MemoryJobStore.resume_queue, QUEUE)
    if paused:
        yield "ResumeQueue", then
    else:
        yield from refused("ResumeQueue", world, then)


def time_and_damage(caller: Caller, world: World) -> Iterator[Move]:
    """Let time pass for one row, or damage it: nobody calls the store."""
    for job in caller.bounds.ids:
        row = world.job(job)
        if row is None:
            continue
        if row.status is JobStatus.QUEUED and row.scheduled_at_ms > NOW:
            yield "FallDue", edited(world, job, scheduled_at_ms=NOW)
        if row.lease_expires_at_ms == LATER:
            yield "Lapse", edited(world, job, lease_expires_at_ms=NOW)
        if not row.status.terminal and unreadable(row) is None:
            yield "Damage", edited(world, job, args_text="{")


def _new_jobs(caller: Caller, world: World) -> Iterator[int]:
    """Each id is inserted at most once."""
    for job in caller.bounds.ids:
        if world.job(job) is None and job not in world.pruned:
            yield job


# What brings a world to the next ones, and the features one of which must take part.
MOVES: Final = (
    (enqueue, ()),
    (replace_scheduled, ()),
    (claim, ()),
    (acknowledge, ()),
    (recover, ("recover",)),
    (cancel, ("cancel", "request_cancel")),
    (prune, ("prune",)),
    (by_schedule_key, ("cancel_scheduled", "wake")),
    (policies, ("set_concurrency", "policy", "pause")),
    (time_and_damage, ()),
)
