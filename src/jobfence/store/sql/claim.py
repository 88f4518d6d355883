"""Claiming jobs: find, lock, adopt, reserve, hand off (M2, C4, C6, C8, O1)."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from jobfence.statemachine import texts
from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.policy import derived_key
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger, row as table_row
from jobfence.statemachine.values import Handoff
from jobfence.store.sql import locks, writes
from jobfence.store.sql.acks import lease_values
from jobfence.store.sql.caps import adopted, counters_for, differs
from jobfence.store.sql.moving import Effects, move_job
from jobfence.store.sql.rows import Row, handoff_of, job_from
from jobfence.store.sql.statements import claims, counters
from jobfence.store.sql.tx import Tx

_CLAIM = table_row(Trigger.CLAIM, "claim", JobStatus.QUEUED)
_REJECT = table_row(Trigger.REJECT, "reject", JobStatus.QUEUED)
_ADOPT = table_row(Trigger.ADOPT_POLICY, "adopt_policy", JobStatus.QUEUED)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a claim asks for. One handoff id for each job it may take, made before."""

    handoff_ids: Collection[str]
    queues: Collection[str] | None
    modes: Collection[str] | None
    worker_id: str
    lease_ms: int | None


@dataclass(slots=True)
class _Round:
    """The state of one claim while it goes through its candidates."""

    ask: Ask
    unused_ids: list[str]
    filter: claims.Filter
    counters: dict[str, Row] = field(default_factory=dict)
    taken: list[Handoff] = field(default_factory=list)
    reserved: Counter[str] = field(default_factory=Counter)
    full: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    passed_ids: set[str] = field(default_factory=set)
    waited: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took; `busy` if it left jobs whose counters others hold."""

    handoffs: list[Handoff]
    busy: bool


def claim(tx: Tx, ask: Ask, *, holding_counters: bool = False) -> Claimed:
    """
    Hand off the best jobs that can be had now.

    `holding_counters` says that the transaction has counters locked already; further
    ones are then only taken if nobody else holds them (C4).
    """
    state = _Round(
        ask,
        list(ask.handoff_ids),
        claim_filter(tx, ask.queues, ask.modes),
        waited=holding_counters,
    )
    while state.unused_ids:
        found = _candidates(tx, state)
        if not found or not _take(tx, state, found):
            break
    for key, n in sorted(state.reserved.items()):
        won = writes.counter(tx, counters.reserve(tx.schema), key, "reserve", n=n)
        assert won, f"counter of {key!r} changed while it was locked"
    return Claimed(state.taken, bool(state.busy))


def _candidates(tx: Tx, state: _Round) -> list[Row]:
    shut = state.full | state.busy
    wanted = replace(
        state.filter,
        full=sorted(shut.union(state.filter.full)),
        opened=sorted(set(state.filter.opened) - shut),
        skipped_ids=sorted(state.passed_ids),
    )
    statement = claims.candidates(tx.schema, wanted.shape())
    return tx.rows(
        tx.room.locked(statement, skip_locked=True),
        at_now=tx.time_so_far(),
        row_limit=len(state.unused_ids),
        **wanted.parameters(),
    )


def claim_filter(
    tx: Tx, queues: Collection[str] | None, modes: Collection[str] | None
) -> claims.Filter:
    """
    Return what claims leave out now.

    A derived counter may still have the cap of an earlier policy; the present one
    decides, so such keys are opened or shut here (C3).
    """
    policies = tx.policies()
    caps = {
        derived_key(queue): policy.max_concurrent
        for queue, policy in policies.by_queue.items()
        if policy.max_concurrent is not None
    }
    full: set[str] = set()
    opened: set[str] = set()
    if caps:
        for row in tx.rows(counters.by_keys(tx.schema), in_keys=sorted(caps)):
            key = str(row["concurrency_key"])
            if row["max_concurrency"] != caps[key]:
                has_room = _int(row["active_count"]) < caps[key]
                (opened if has_room else full).add(key)
    return claims.Filter(queues, modes, policies.paused, sorted(full), sorted(opened))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _take(tx: Tx, state: _Round, found: list[Row]) -> bool:
    """Go through locked candidates in order; say whether another look may find more."""
    asked = len(state.unused_ids)
    readable = [row for row in found if not _rejected(tx, state, row)]
    wanted = [adopted(tx, row) for row in readable]
    _lock_counters(tx, state, wanted)
    for before, after in zip(readable, wanted, strict=True):
        _take_one(tx, state, before, after)
    return len(found) == asked


def _lock_counters(tx: Tx, state: _Round, rows: list[Row]) -> None:
    keys = {str(row["concurrency_key"]) for row in rows if row["concurrency_key"]}
    missing = keys - set(state.counters) - state.full
    if not missing:
        return
    caps = {
        str(row["concurrency_key"]): _int(row["max_concurrency"])
        for row in rows
        if row["concurrency_key"] in missing
    }
    state.counters.update(counters_for(tx, caps, skip_locked=state.waited))
    state.busy.update(missing - set(state.counters))
    state.waited = True


def _take_one(tx: Tx, state: _Round, before: Row, after: Row) -> None:
    key = after["concurrency_key"]
    if key in state.busy:
        state.passed_ids.add(str(before["id"]))
        return
    if differs(before, after):
        after = adopt(tx, before, after)
    if isinstance(key, str):
        counter = state.counters[key]
        used = _int(counter["active_count"]) + state.reserved[key]
        if used >= _int(counter["max_concurrency"]):
            state.full.add(key)
            return
    handoff = hand_off(tx, after, state.unused_ids[0], state.ask)
    if handoff is None:
        state.passed_ids.add(str(before["id"]))
        return
    state.unused_ids.pop(0)
    state.taken.append(handoff)
    if isinstance(key, str):
        state.reserved[key] += 1


def adopt(tx: Tx, before: Row, after: Row) -> Row:
    """Write the policy that a queued job takes over (M13)."""
    names = ("concurrency_key", "max_concurrency", "priority")
    moved = move_job(tx, _ADOPT, before, given={name: after[name] for name in names})
    return after if moved is None else moved


def hand_off(tx: Tx, row: Row, handoff_id: str, ask: Ask) -> Handoff | None:
    """Execute the claim of one locked job whose slot is to be had (M2)."""
    given: dict[str, Any] = {
        "handoff_id": handoff_id,
        "worker_id": ask.worker_id,
        "last_handoff_id": handoff_id,
        "last_worker_id": ask.worker_id,
        **lease_values(tx, ask.lease_ms),
    }
    after = move_job(tx, _CLAIM, row, given=given)
    return None if after is None else handoff_of(job_from(after))


def _rejected(tx: Tx, state: _Round, row: Row) -> bool:
    """Fail a row that cannot be read, so that it never stops the queue (M11)."""
    try:
        job_from(row)
    except UnreadableJob as problem:
        key = row["schedule_key"]
        if isinstance(key, str) and key not in locks.free_schedule_keys(tx, [key]):
            # The key comes before the job in the lock order: leave it to a later claim.
            state.passed_ids.add(str(row["id"]))
            return True
        reject(tx, row, problem)
        return True
    return False


def reject(tx: Tx, row: Row, problem: UnreadableJob) -> None:
    """Fail a queued row that cannot be read (M11)."""
    error = texts.unreadable(problem.column, problem.problem)
    effects = Effects()
    if move_job(tx, _REJECT, row, given={"last_error": error}) is not None:
        effects.add(tx, _REJECT, row)
    effects.apply(tx)
