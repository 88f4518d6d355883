"""A store and the model under one clock: actions go to both, and are remembered."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from jobfence.conformance.bench import LEASE_MS, Backdoor, StoreFactory
from jobfence.conformance.blocking import blocking
from jobfence.conformance.capabilities import ALL, Capability
from jobfence.conformance.model import Model
from jobfence.conformance.rules import RULES_OF, rules_of, rules_of_slots
from jobfence.conformance.sometimes import met, note_call
from jobfence.conformance.stateful import drawing as draw
from jobfence.conformance.stateful.comparing import (
    Difference,
    Divergence,
    Step,
    compare,
    shorten,
)
from jobfence.conformance.stateful.twins import (
    Read,
    Ref,
    Side,
)
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import SteppedRetry
from jobfence.statemachine.states import JobStatus
from jobfence.store.contract import JobStore

MAX_HANDOFFS = 2
Queues = Mapping[str, QueuePolicy] | None


@dataclass(frozen=True, slots=True)
class Action:
    """
    One thing that was done: a call, an instance opened again, or time that passed.

    `made` are the jobs and handoffs that first appeared with it.
    """

    who: int
    what: str  # a method of the contract, "open" or "clock"
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] | None = None
    made: tuple[Ref, ...] = ()

    def __str__(self) -> str:
        if self.what == "clock":
            return f"the clock moves by {self.args[0]} ms"
        told = [repr(each) for each in self.args]
        told += [f"{key}={value!r}" for key, value in (self.kwargs or {}).items()]
        return f"store{self.who + 1}.{self.what}({', '.join(told)})"


@dataclass(frozen=True, slots=True)
class Setting:
    """What is compared with the model, and on which data."""

    factory: StoreFactory
    namespace: str
    capabilities: Collection[Capability] = ALL
    backdoor: Backdoor | None = None


class Pair:
    """Two instances of the store and two of the model, on one data set each."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.clock = ManualClock(draw.START_MS)
        self.script: list[Action] = []
        self._model = Model()
        self._factories: tuple[StoreFactory, ...] = (
            self._model.open_store,
            setting.factory,
        )
        self._sides: list[Side] = []
        self._steps: list[Step] = []
        self._last, self._reader = "open", 0

    @property
    def model(self) -> JobStore:
        """The model's first instance, to be looked at."""
        return self._sides[0].instances[0]

    def ref(self, kind: str, model_id: str) -> Ref:
        """Return the ref of an id of the model's."""
        return self._sides[0].ref(kind, model_id)

    def has(self, capability: Capability) -> bool:
        """Whether the store declares it."""
        return capability in self.setting.capabilities

    def do(self, action: Action) -> object:
        """Do it on both sides, compare the answers, and return the model's."""
        if action.what == "clock":
            self._note(action, None)
            (ms,) = action.args
            self.clock.advance(int(str(ms)))
            if int(str(ms)) < 0:
                met("the clock set back")
            return None
        if action.what == "open":
            self._note(action, None)
            self._open(action)
            return None
        return self._call(action)

    def _note(self, action: Action, answer: object) -> None:
        self.script.append(action)
        self._steps.append(Step(str(action), answer))

    def _open(self, action: Action) -> None:
        """Open the first two instances on no data, or one anew after a crash."""
        (queues,) = action.args
        if not self._sides:
            self._sides = [Side(), Side()]
            for number, side in enumerate(self._sides):
                side.use(0, self._opened(number, queues))
                side.instances[0].clear()
                side.use(1, self._opened(number, None))
                self._listen(side, 0)
                self._listen(side, 1)
            return
        met("an instance lost and opened again")
        for number, side in enumerate(self._sides):
            side.instances[action.who].close()
            side.use(action.who, self._opened(number, queues))
            self._listen(side, action.who)

    def _listen(self, side: Side, who: int) -> None:
        if self.has(Capability.WAKE_UPS):
            side.listen(who)

    def _opened(self, side: int, queues: object) -> JobStore:
        limited = self.has(Capability.MAX_HANDOFFS)
        assert queues is None or isinstance(queues, Mapping)
        return blocking(
            self._factories[side](
                self.setting.namespace,
                clock=self.clock,
                queues=queues,
                lease_ms=LEASE_MS,
                retry_policy=SteppedRetry(),
                **({"max_handoffs": MAX_HANDOFFS} if limited else {}),
            )
        )

    def close(self) -> None:
        """Close every instance."""
        for side in self._sides:
            for each in side.instances.values():
                each.close()
        self._sides = []

    def _call(self, action: Action) -> object:
        who, method = action.who, action.what
        self._last, self._reader = method, 1 - who
        model, store = self._sides
        before = model.wakes[who], store.wakes[who]
        known = len(model.made)
        expected = model.call(who, method, action.args, action.kwargs or {})
        self._note(replace(action, made=tuple(model.made[known:])), expected)
        note_call(method, expected)
        if method == "claim" and self._cap_refused(expected, action.args):
            met("a cap refused inside a batch")
        with self._raising(expected):
            seen = store.call(who, method, action.args, action.kwargs or {})
        self._agree(expected, seen, rules_of_slots(expected, seen))
        self._agree(
            {"a listener was called": model.wakes[who] > before[0]},
            {"a listener was called": store.wakes[who] > before[1]},
            "T3",
        )
        return expected

    def _cap_refused(self, answer: object, args: tuple[object, ...]) -> bool:
        """Whether a claim of several came back with some, and left due work behind."""
        limit = args[0] if args else 1
        if not isinstance(answer, list) or not isinstance(limit, int):
            return False
        now, full = self.clock.now_ms(), 0 < len(answer) < limit
        return full and any(
            job.concurrency_key is not None and job.scheduled_at_ms <= now
            for job in self.model.list_jobs(status=JobStatus.QUEUED)
        )

    @contextmanager
    def _raising(self, expected: object) -> Iterator[None]:
        """Take an error that the contract does not know for another answer."""
        try:
            yield
        except Exception as problem:
            told = f"{type(problem).__name__}: {problem}"
            found = [Difference("the answer", shorten(expected), told)]
            rules = RULES_OF[self._last]
            raise Divergence(rules, self._steps, found, self.script) from problem

    def _agree(self, expected: object, seen: object, rules: str | None = None) -> None:
        if found := compare(expected, seen):
            first = found[0]
            rules = rules or rules_of(
                self._last, first.where, first.expected, first.seen
            )
            raise Divergence(rules, self._steps, found, self.script)

    def check(self, *, everything: bool = True) -> None:
        """
        Compare the state, read through the instance that made no change.

        Every job and every counter; of what is read of them, such as the next one
        that a claim would take, all, or one in turn: each costs as much as a step.
        """
        if not self._sides:
            return
        reads = self._reads()
        if not everything:
            reads = [reads[len(self.script) % len(reads)]]
        model, store = self._sides
        expected = model.state(self._reader, reads)
        with self._raising("jobs and what is read of them"):
            seen = store.state(self._reader, reads)
        self._agree(expected, seen)
        door = self.setting.backdoor
        if door is not None and self.has(Capability.COUNTER_ROWS):
            own = self._model.open_backdoor(self.setting.namespace)
            self._agree(
                {repr(key): list(row) for key, row in own.counters().items()},
                {repr(key): list(row) for key, row in door.counters().items()},
                "C1, C5",
            )

    def _reads(self) -> list[Read]:
        reads: list[Read] = [
            ("next_available", (), {}),
            ("counts", (), {}),
            ("next_scheduled", (), {}),
        ]
        if self.has(Capability.QUEUE_STATS):
            reads.append(("queue_stats", (), {}))
        if self.has(Capability.SCHEDULE_KEYS):
            more: dict[str, object] = {"include_latest_terminal": True}
            reads += [("scheduled_job", (key,), more) for key in draw.KEYS]
        return reads


def play(setting: Setting, script: Sequence[Action]) -> Divergence | None:
    """
    Do these actions on a new pair; return where the two sides differ first.

    Jobs and handoffs get new refs as they appear; an action that needs one whose
    maker was left out is left out too.
    """
    pair = Pair(setting)
    refs: dict[Ref, Ref] = {}
    try:
        for action in script:
            fitted = _fitted(action, refs)
            if fitted is None:
                continue
            pair.do(fitted)
            refs.update(zip(action.made, pair.script[-1].made, strict=False))
            pair.check()
    except Divergence as found:
        return found
    finally:
        pair.close()
    return None


def _fitted(action: Action, refs: Mapping[Ref, Ref]) -> Action | None:
    try:
        args = tuple(_renamed(each, refs) for each in action.args)
        kwargs = {
            key: _renamed(value, refs) for key, value in (action.kwargs or {}).items()
        }
    except KeyError:
        return None
    return replace(action, args=args, kwargs=kwargs, made=())


def _renamed(value: object, refs: Mapping[Ref, Ref]) -> object:
    if isinstance(value, Ref):
        return refs[value]
    if isinstance(value, list):
        return [_renamed(each, refs) for each in value]
    rename = getattr(value, "renamed", None)
    return rename(refs) if callable(rename) else value
