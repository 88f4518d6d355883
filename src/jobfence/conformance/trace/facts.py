"""What a replay knows: rows as the entries so far left them, and what follows from them."""

from collections import Counter
from dataclasses import dataclass, field

from jobfence.conformance.trace.entries import Values
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Transition


@dataclass(slots=True)
class Facts:
    """
    The rows by id, each with its revision as `rev`, and what is derived.

    `held` counts the handed-off jobs of every concurrency key: what counters must say.
    """

    jobs: dict[str, Values] = field(default_factory=dict)
    counters: dict[str, Values] = field(default_factory=dict)
    schedule_keys: dict[str, Values] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)
    handoff_ids: set[object] = field(default_factory=set)

    def put_job(self, job_id: str, before: Values | None, after: Values | None) -> None:
        """Replace a job's row."""
        for row, n in ((before, -1), (after, 1)):
            key = held_key(row)
            if key is not None:
                self.held[key] += n
        if after is None:
            self.jobs.pop(job_id, None)
        else:
            self.jobs[job_id] = after

    def active(self, job_id: object) -> bool:
        """Whether a job is there and has not ended."""
        row = self.jobs.get(str(job_id))
        return row is not None and not JobStatus(str(row["status"])).terminal


@dataclass(slots=True)
class Happened:
    """
    What the jobs of one transaction did, for counters and owners to agree with.

    `movers` are by concurrency key the last job that took a slot or gave it back.
    """

    joined: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    new: dict[str, Values] = field(default_factory=dict)
    ended: dict[str, Values] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    movers: dict[str, str] = field(default_factory=dict)

    def add(
        self, job_id: str, transition: Transition, before: Values | None, after: Values
    ) -> None:
        """Note one step of one job."""
        was, now = held_key(before), held_key(after)
        held = transition.source is JobStatus.HANDED_OFF
        if transition.dest is not JobStatus.HANDED_OFF and was is not None:
            self.left[was] += 1
            self.movers[was] = job_id
        if not held and now is not None:
            self.joined[now] += 1
            self.movers[now] = job_id
        if transition.source is None:
            self.new[job_id] = after
        if transition.dest.terminal:
            self.ended[job_id] = after
        if transition.trigger == "request_cancel":
            self.marked.add(job_id)

    @property
    def keys(self) -> set[str]:
        """The concurrency keys whose number of handed-off jobs may have changed."""
        return {*self.joined, *self.left}


def key_of(row: Values) -> str | None:
    """Return a job's concurrency key."""
    key = row.get("concurrency_key")
    return key if isinstance(key, str) else None


def held_key(row: Values | None) -> str | None:
    """Return the key of which a job takes a slot."""
    if row is None or row.get("status") != JobStatus.HANDED_OFF.value:
        return None
    return key_of(row)
