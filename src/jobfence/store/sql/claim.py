"""Claiming jobs: find, lock, adopt, reserve, hand off (M2, C4, C6, C8, O1)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Select

from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.policy import derived_key
from jobfence.statemachine.values import Handoff
from jobfence.store.sql import locks, writes
from jobfence.store.sql.caps import (
    adopted,
    counters_for,
    differs,
    lacking,
    made_if_free,
)
from jobfence.store.sql.handing import Ask, adopt, hand_off, reject
from jobfence.store.sql.rows import Row, unreadable
from jobfence.store.sql.statements import claims, counters
from jobfence.store.sql.tx import Tx


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
    unmade: dict[str, int] = field(default_factory=dict)
    passed_ids: set[str] = field(default_factory=set)
    seen_ids: set[object] = field(default_factory=set)
    waited: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """
    What a claim took. `busy`: it passed over jobs whose counters others hold.

    A caller's transaction leaves those for good: another one may wait, it may not.
    """

    handoffs: list[Handoff]
    busy: bool


class Unmade(Exception):
    """
    The next job's counter is missing, and to make it this transaction may not wait.

    It has waited for counters before, or holds some. What it did is to be undone: with
    the counter made in a transaction before it, it can be done as a whole.
    """

    def __init__(self, key: str, cap: int) -> None:
        super().__init__(f"the counter of {key!r} is missing")
        self.key, self.cap = key, cap


def claim(tx: Tx, ask: Ask) -> Claimed:
    """
    Hand off the best jobs that can be had now.

    In a transaction that holds counters already further ones are only taken if nobody
    else holds them (C4).
    """
    tx.policies(latest=True)
    state = _Round(
        ask,
        list(ask.handoff_ids),
        claim_filter(tx, ask.queues, ask.modes),
        waited=tx.holds_counters,
    )
    while state.unused_ids:
        found = _candidates(tx, state)
        if not found or not _take(tx, state, found):
            break
    for key, n in sorted(state.reserved.items()):
        if n == 0:
            continue
        won = writes.counter(tx, counters.reserve(tx.schema), key, "reserve", n=n)
        assert won, f"counter of {key!r} changed while it was locked"
    return Claimed(state.taken, bool(state.busy) and not tx.joined)


def _candidates(tx: Tx, state: _Round) -> list[Row]:
    shut = state.full | state.busy
    wanted = replace(
        state.filter,
        full=sorted(shut.union(state.filter.full)),
        opened=sorted(set(state.filter.opened) - shut),
        skipped_ids=sorted(state.passed_ids),
    )
    statement = _locking(tx, claims.candidates(tx.schema, wanted.shape()))
    asked, found = len(state.unused_ids), list[Row]()
    for ahead in tx.room.look_ahead:
        found = tx.rows(
            statement,
            at_now=tx.time_so_far(),
            row_limit=asked,
            look_limit=asked + ahead,
            **wanted.parameters(),
        )
        if len(found) == asked:
            break
    return found


def _locking(tx: Tx, best: Select[Any]) -> Select[Any]:
    if tx.reads_the_past:
        # A look without locks would be into the past: lock all that is passed over.
        return tx.room.locked(best, skip_locked=True)
    still = claims.still_claimable(tx.schema)
    return tx.room.locked_first(best, tx.schema.jobs, still)


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
        for row in tx.rows_in(counters.by_keys(tx.schema), counters.KEYS, caps):
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
    fresh = {row["id"] for row in found} - state.seen_ids
    state.seen_ids |= fresh
    problems = {
        str(row["id"]): problem for row in found if (problem := unreadable(row))
    }
    wanted = {
        str(row["id"]): adopted(tx, row)
        for row in found
        if str(row["id"]) not in problems
    }
    _lock_counters(tx, state, list(wanted.values()))
    chosen = _choose(tx, state, found, problems, wanted)
    ids = state.unused_ids[: len(chosen)]
    for row, handoff in zip(chosen, hand_off(tx, chosen, ids, state.ask), strict=True):
        if handoff is None:
            # Its time came and went between two looks at a database's clock.
            state.passed_ids.add(str(row["id"]))
            if row["concurrency_key"] is not None:
                state.reserved[str(row["concurrency_key"])] -= 1
        else:
            state.unused_ids.remove(handoff.handoff_id)
            state.taken.append(handoff)
    # A row whose very id is damaged matches no UPDATE and comes back every time.
    return len(found) == asked and bool(fresh)


def _lock_counters(tx: Tx, state: _Round, rows: list[Row]) -> None:
    keys = {str(row["concurrency_key"]) for row in rows if row["concurrency_key"]}
    wanted = keys - set(state.counters) - state.full
    if not wanted:
        return
    caps = {
        str(row["concurrency_key"]): _int(row["max_concurrency"])
        for row in rows
        if row["concurrency_key"] in wanted
    }
    state.counters.update(counters_for(tx, caps, skip_locked=state.waited))
    missing = lacking(tx, wanted - set(state.counters))
    if tx.joined or not tx.room.locks_rows:
        # A caller's transaction cannot be undone and done again. Here to make one waits
        # at most for somebody who is making it too, and never on SQLite.
        state.counters.update(made_if_free(tx, {key: caps[key] for key in missing}))
        missing = set()
    state.unmade = {key: caps[key] for key in missing}
    state.busy.update(wanted - set(state.counters) - missing)
    state.waited = True


def _choose(
    tx: Tx,
    state: _Round,
    found: Sequence[Row],
    problems: Mapping[str, UnreadableJob],
    wanted: Mapping[str, Row],
) -> list[Row]:
    """
    Return the rows that get a slot, as their policies make them.

    In turn, as if each were claimed by itself: one whose key those before it have
    filled is left as it is. What a row takes over it keeps, also if its slot is refused.
    """
    adopting: list[tuple[Row, Row]] = []
    chosen: list[Row] = []
    for row in found:
        job_id = str(row["id"])
        if not _has_room(state, row):
            continue
        if job_id in problems:
            _reject(tx, state, row, problems[job_id])
            continue
        after = wanted[job_id]
        if after["concurrency_key"] in state.unmade:
            # To pass it over would claim a lesser one, although nobody holds anything.
            key = str(after["concurrency_key"])
            raise Unmade(key, state.unmade[key])
        if after["concurrency_key"] in state.busy:
            state.passed_ids.add(job_id)
            continue
        if differs(row, after):
            adopting.append((row, after))
        if _has_room(state, after):
            _reserve(state, after)
            chosen.append(after)
    moved = {str(row["id"]): row for row in adopt(tx, adopting)}
    return [moved.get(str(row["id"]), row) for row in chosen]


def _has_room(state: _Round, row: Row) -> bool:
    """Whether its key has a slot left, under the counter's lock; a full one is noted."""
    key = row["concurrency_key"]
    counter = state.counters.get(key) if isinstance(key, str) else None
    if counter is None:  # no key; or one that nobody takes here, so the look was right
        return True
    key = str(key)
    used = _int(counter["active_count"]) + state.reserved[key]
    if used < _int(counter["max_concurrency"]):
        return True
    state.full.add(key)
    return False


def _reserve(state: _Round, row: Row) -> None:
    key = row["concurrency_key"]
    if isinstance(key, str):
        assert key in state.counters, f"the counter of {key!r} is not locked"
        state.reserved[key] += 1


def _reject(tx: Tx, state: _Round, row: Row, problem: UnreadableJob) -> None:
    """Fail a row that cannot be read, so that it never stops the queue (M11)."""
    key = row["schedule_key"]
    if isinstance(key, str) and key not in locks.free_schedule_keys(tx, [key]):
        # The key comes before the job in the lock order: leave it to a later claim.
        state.passed_ids.add(str(row["id"]))
        return
    reject(tx, row, problem)
