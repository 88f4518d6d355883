"""
A journal as a TLA+ module, for `spec/trace/TraceCheck.tla` to judge.

Ids become numbers in the order of their first use, and times become ranks: comparisons
are all that a rule asks of them, and TLC's integers end at 2^31.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobfence.conformance.trace.baseline import beginning
from jobfence.conformance.trace.entries import BadEntry, Entry, Values
from jobfence.conformance.trace.order import in_order
from jobfence.statemachine.states import TERMINAL
from jobfence.store.notes import Action, Entity

MODULE = "TraceData"
_TERMINAL = {status.value for status in TERMINAL}
_TIMES = ("scheduled_at_ms", "lease_expires_at_ms")


class NotForTLC(ValueError):
    """A journal that cannot be written as a trace."""


def trace_module(entries: Iterable[Entry], *, max_handoffs: int | None = None) -> str:
    """
    Return the text of the module TraceData.

    The events stand in the order in which `check` replays them: event n there, counted
    from 0, is Trace[n + 1]. `NotForTLC` says why a journal is none: it began when there
    were rows already, or what it holds cannot be read.
    """
    noted = list(entries)
    if not beginning(noted).empty:
        raise NotForTLC("the journal began when there were rows already")
    order = in_order(noted)
    if order.stuck:
        raise NotForTLC("its transactions cannot be ordered")
    try:
        return _module(order.transactions, max_handoffs)
    except (BadEntry, KeyError, TypeError) as problem:
        raise NotForTLC(f"an entry cannot be read: {problem}") from problem


class _Numbers:
    """Numbers for things, from 1 by first use; 0 is none."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, thing: object) -> int:
        return 0 if thing is None else self._known.setdefault(thing, len(self) + 1)

    def known(self, thing: object) -> int:
        """Return the number of what was used before; 0 for anything else."""
        return self._known.get(thing, 0)

    def literal(self) -> str:
        return _literal(tuple(self._known))


class _JobNumbers:
    """
    Numbers for jobs, which are given again.

    A job that has ended, and of which no later entry speaks, gives its number back.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._last: dict[object, int] = {}
        for n, entry in enumerate(entries):
            self._last[_job_of(entry)] = n
        self._known: dict[object, int] = {}
        self._free: list[int] = []
        self.most = 0

    def of(self, job_id: object) -> int:
        if job_id is None:
            return 0
        if job_id not in self._known:
            if not self._free:
                self.most += 1
                self._free.append(self.most)
            self._known[job_id] = self._free.pop()
        return self._known[job_id]

    def has(self, job_id: str) -> bool:
        return job_id in self._known

    def done(self, entry: Entry, n: int) -> None:
        """Give the number back if this, entry `n`, was the last to speak of it."""
        job_id = _job_of(entry)
        if job_id in self._known and self._last[job_id] == n and _is_end(entry):
            self._free.append(self._known.pop(job_id))


def _job_of(entry: Entry) -> object:
    """Return the job that an entry speaks of."""
    if entry.entity == Entity.SCHEDULE_KEY:
        return entry.values()["job_id"]
    return entry.entity_id if entry.entity == Entity.JOB else None


def _is_end(entry: Entry) -> bool:
    if entry.entity != Entity.JOB:
        return False
    return entry.action == Action.DELETE or entry.values()["status"] in _TERMINAL


class _Writer:
    """Writes events, and numbers what they name on the way."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._ranks = _ranks(entries)
        self.jobs, self.keys, self.owners = _JobNumbers(entries), _Numbers(), _Numbers()
        self.steps, self.rest, self.words = _Numbers(), _Numbers(), _Numbers()
        self._handoffs = _Numbers()

    def event(self, entry: Entry, *, last: bool) -> tuple[str | int, ...]:
        """Return one event; what it means is said in TraceCheck.tla."""
        end = int(last)
        begins = entry.rev - entry.writes + 1
        match entry.entity, entry.action:
            case Entity.JOB, Action.DELETE:
                return "job-", end, self.jobs.of(entry.entity_id), entry.rev
            case Entity.JOB, _:
                kind = "job" if self.jobs.has(entry.entity_id) else "new"
                return kind, end, *self._job(entry)
            case Entity.COUNTER, Action.DELETE:
                return "counter-", end, self.keys.of(entry.entity_id), entry.rev
            case Entity.COUNTER, _:
                key = self.keys.of(entry.entity_id)
                return "counter", end, key, begins, *self._counter(entry)
            case Entity.SCHEDULE_KEY, _:
                key = self.owners.of(entry.entity_id)
                return "owner", end, key, begins, *self._owner(entry)
            case _:
                return "begin", end

    def _job(self, entry: Entry) -> tuple[int, ...]:
        values = entry.values()
        rest = (
            bool(values["cancel_requested"]),
            _int(values, "max_retries"),
            self.keys.of(values["concurrency_key"]),
            _int(values, "max_concurrency"),
            _int(values, "priority"),
            self.owners.of(values["schedule_key"]),
            _int(values, "schedule_order"),
        )
        return (
            self.jobs.of(entry.entity_id),
            entry.rev,
            self.steps.of((*entry.step, str(values["status"]))),
            self._ranks[entry.at_ms],
            self._handoffs.known(entry.handoff_id),
            _int(values, "attempts"),
            _int(values, "handoffs"),
            self._handoffs.of(values["handoff_id"]),
            self._time(values, "scheduled_at_ms"),
            self._time(values, "lease_expires_at_ms"),
            self.rest.of(rest),
        )

    def _time(self, values: Values, name: str) -> int:
        value = values[name]
        return 0 if value is None else self._ranks[_int(values, name)]

    def _counter(self, entry: Entry) -> tuple[int, ...]:
        values = entry.values()
        return (
            entry.rev,
            self.words.of(frozenset(entry.actions)),
            _int(values, "active_count"),
            _int(values, "max_concurrency"),
        )

    def _owner(self, entry: Entry) -> tuple[int, ...]:
        values = entry.values()
        return (
            entry.rev,
            self.words.of(frozenset(entry.actions)),
            self.jobs.of(values["job_id"]),
            _int(values, "last_order"),
        )


def _int(values: Values, name: str) -> int:
    """Return a number; none at all is 0."""
    value = values[name]
    if value is None:
        return 0
    if not isinstance(value, int):
        raise BadEntry(f"{name} is {value!r}, and must be an integer")
    return value


def _module(transactions: Iterable[Sequence[Entry]], most: int | None) -> str:
    groups = list(transactions)
    entries = [entry for group in groups for entry in group]
    ends = {id(group[-1]) for group in groups}
    writer = _Writer(entries)
    events = []
    for n, entry in enumerate(entries):
        events.append(_literal(writer.event(entry, last=id(entry) in ends)))
        writer.jobs.done(entry, n)
    return "\n".join(
        [
            f"---- MODULE {MODULE} ----",
            f"Jobs == {max(1, writer.jobs.most)}",
            f"Keys == {max(1, len(writer.keys))}",
            f"ScheduleKeys == {max(1, len(writer.owners))}",
            f"MaxHandoffs == {most or 0}  \\* 0: not known",
            f"Steps == {writer.steps.literal()}",
            f"Rest == {writer.rest.literal()}",
            f"Words == {writer.words.literal()}",
            "Trace == <<",
            ",\n".join(events),
            ">>",
            "====",
            "",
        ]
    )


def _ranks(entries: Iterable[Entry]) -> Mapping[int, int]:
    """Return for every time its place among all of them, from 1."""
    times = sorted(set(_times(entries)))
    return {time: rank for rank, time in enumerate(times, 1)}


def _times(entries: Iterable[Entry]) -> Iterator[int]:
    for entry in entries:
        yield entry.at_ms
        if entry.entity == Entity.JOB and entry.action != Action.DELETE:
            values = entry.values()
            for name in _TIMES:
                if values[name] is not None:
                    yield _int(values, name)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return "<<" + ", ".join(map(_literal, value)) + ">>"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(_literal, value))) + "}"
    # Words of a journal, which anybody may have edited.
    word = "".join(
        c if c.isascii() and (c.isalnum() or c in "_-") else "?" for c in str(value)
    )
    return f'"{word}"'
