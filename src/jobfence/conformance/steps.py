"""
Layer (d): every operation in every small state, refusals included.

States are those of some jobs (three, if not said otherwise) with up to two handoffs
each, two concurrency keys and a schedule key, told apart by what a store can see and not
by ids or by times. Walks
through the model's graph take every edge once: in a state where some operation was not
tried yet, it is tried; else the walk goes to the nearest such state, or starts again.
Both sides are compared after every step, so no way past the store is needed.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from random import Random

from jobfence.conformance.capabilities import ALL, Capability
from jobfence.conformance.stateful.comparing import Divergence
from jobfence.conformance.stateful.pair import Action, Pair, Setting
from jobfence.conformance.stateful.twins import Ref
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job
from jobfence.store.contract import JobStore

MOST_JOBS = 3
MOST_HANDOFFS = 2
LEASE_MS = 60_000
KEY = "nightly"
State = tuple[object, ...]
Verbs = ("complete", "fail", "reschedule", "return_to_queue", "extend_lease")


@dataclass(frozen=True, slots=True)
class Move:
    """An operation by the places of jobs and the age of a handoff, not by ids."""

    what: str
    job: int | None = None
    handoff: str | None = None  # "latest", "stale" or "foreign"
    given: tuple[tuple[str, object], ...] = ()


def moves(
    number_of_jobs: int,
    most_jobs: int = MOST_JOBS,
    capabilities: Collection[Capability] = ALL,
) -> Iterator[Move]:
    """Return every operation on so many jobs, of a store with these capabilities."""
    keys = Capability.SCHEDULE_KEYS in capabilities
    if number_of_jobs < most_jobs:
        for key, cap in (None, None), ("k1", 1), ("k2", 2):
            given = (("concurrency_key", key), ("max_concurrency", cap))
            yield Move("enqueue", given=given if key else ())
        yield Move("enqueue", given=(("deduplicate_while_queued", True),))
        if keys:
            yield Move("replace_scheduled")
    for what in ("claim", "recover_expired", "recover_handed_off", "clock"):
        yield Move(what)
    yield Move("set_concurrency")
    if keys:
        yield Move("cancel_scheduled")
        yield Move("wake_scheduled")
    for job in range(number_of_jobs):
        yield Move("claim_job", job)
        yield Move("cancel", job)
        for verb in Verbs:
            for handoff in ("latest", "stale", "foreign"):
                yield Move(verb, job, handoff)


@dataclass(slots=True)
class Coverage:
    """Which operations were tried in which states, and where they led."""

    most_jobs: int = MOST_JOBS
    capabilities: Collection[Capability] = ALL
    ways: dict[State, dict[Move, State | None]] = field(default_factory=dict)
    steps: int = 0
    walks: int = 0
    _left: dict[State, list[Move]] = field(default_factory=dict)

    @property
    def states(self) -> int:
        """How many states were seen."""
        return len(self.ways)

    @property
    def edges(self) -> int:
        """How many operations were tried, each in each state."""
        return sum(len(ways) for ways in self.ways.values())

    def note(self, state: State, move: Move, there: State | None) -> None:
        """Note where a step led."""
        self.steps += 1
        self.ways.setdefault(state, {})[move] = there
        if move in (left := self._untried(state)):
            left.remove(move)

    def _untried(self, state: State) -> list[Move]:
        if state not in self._left:
            self._left[state] = [*moves(len(state), self.most_jobs, self.capabilities)]
        return self._left[state]

    def untried(self, state: State) -> Move | None:
        """
        Return an operation that was not tried in this state.

        Any, by a lot that is the same in every run: always the first one would lead
        ever deeper, and a walk that is cut short would never come to the last ones.
        """
        left = self._untried(state)
        return Random(self.steps).choice(left) if left else None

    def way_on(self, state: State) -> Move | None:
        """Return the first step to the nearest state with something left to try."""
        seen = {state}
        queue: deque[tuple[State, Move | None]] = deque([(state, None)])
        while queue:
            here, first = queue.popleft()
            for move, there in self.ways.get(here, {}).items():
                if there is None or there in seen:
                    continue
                step = first or move
                if self._untried(there):
                    return step
                seen.add(there)
                queue.append((there, step))
        return None


class Walk:
    """One run from no jobs at all: a pair, and the handoffs that were seen."""

    def __init__(self, setting: Setting) -> None:
        self.pair = Pair(setting)
        self.pair.do(Action(0, "open", (None,)))
        self._handoffs: dict[str, list[str]] = {}

    def jobs(self) -> list[Job]:
        """Return the model's jobs."""
        model: JobStore = self.pair.model
        found = model.list_jobs()
        for job in found:
            held = self._handoffs.setdefault(job.id, [])
            if job.last_handoff_id is not None and job.last_handoff_id not in held:
                held.append(job.last_handoff_id)
        return found

    def state(self) -> State | None:
        """Return what tells this state from others; None when it is beyond the bounds."""
        now, jobs = self.pair.clock.now_ms(), self.jobs()
        if any(job.handoffs > MOST_HANDOFFS for job in jobs):
            return None
        owner = self.pair.model.scheduled_job(KEY).current
        return tuple(
            (
                job.status,
                job.concurrency_key,
                job.attempts,
                job.handoffs,
                job.cancel_requested,
                job.schedule_key,
                owner is not None and owner.id == job.id,
                job.status is JobStatus.QUEUED and job.scheduled_at_ms <= now,
                job.lease_expires_at_ms is not None and job.lease_expires_at_ms <= now,
            )
            for job in jobs
        )

    def take(self, move: Move) -> None:
        """Make a move on both sides, and compare all that can be read."""
        self.pair.do(self._action(move))
        self.pair.check(everything=False)

    def _action(self, move: Move) -> Action:  # noqa: PLR0911  one per kind
        given = dict(move.given)
        if move.what == "enqueue":
            return Action(0, "enqueue", ("mail",), {**given, "max_retries": 1})
        if move.what == "clock":
            return Action(0, "clock", (LEASE_MS,))
        if move.what == "replace_scheduled":
            return Action(0, move.what, (KEY, "mail"), {"max_retries": 1})
        if move.what == "set_concurrency":
            return Action(0, move.what, ("k1", 1))
        if move.what in ("cancel_scheduled", "wake_scheduled"):
            return Action(0, move.what, (KEY,))
        if move.job is None:
            return Action(1, move.what)
        job = self.jobs()[move.job]
        refs: tuple[object, ...] = (self.pair.ref("job", job.id),)
        if move.handoff is not None:
            refs += (self._handoff(job, move.handoff),)
        if move.what == "fail":
            refs += ("boom",)
        delay = {"delay_ms": 0} if move.what == "reschedule" else None
        return Action(0, move.what, refs, delay)

    def _handoff(self, job: Job, which: str) -> Ref | str:
        own = self._handoffs[job.id]
        others = [
            each for ids in self._handoffs.values() if ids is not own for each in ids
        ]
        found = {
            "latest": own[-1:],
            "stale": own[-2:-1],
            "foreign": others[:1],
        }[which]
        return self.pair.ref("handoff", found[0]) if found else "no-such-handoff"


def walk_every_edge(
    setting: Setting, *, most_jobs: int = MOST_JOBS, most_steps: int | None = None
) -> Coverage:
    """
    Try every operation in every state; `Divergence` at the first difference.

    `most_steps` ends the walks early, for a run that has only so much time.
    """
    coverage, walk = Coverage(most_jobs, setting.capabilities), Walk(setting)
    coverage.walks = 1
    try:
        while most_steps is None or coverage.steps < most_steps:
            state, move = walk.state(), None
            if state is not None:
                move = coverage.untried(state) or coverage.way_on(state)
            if state is None or move is None:
                if coverage.untried(()) is None and coverage.way_on(()) is None:
                    break
                walk.pair.close()
                walk = Walk(setting)
                coverage.walks += 1
                continue
            walk.take(move)
            coverage.note(state, move, walk.state())
    finally:
        walk.pair.close()
    return coverage


__all__ = ["Coverage", "Divergence", "Move", "Setting", "moves", "walk_every_edge"]
