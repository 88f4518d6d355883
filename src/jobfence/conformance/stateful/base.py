"""The state machine without its rules: opening, calling both sides, comparing."""

from collections.abc import Callable, Collection, Mapping

from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
)

from jobfence.conformance.bench import LEASE_MS, Backdoor, StoreFactory
from jobfence.conformance.blocking import blocking
from jobfence.conformance.capabilities import ALL, Capability
from jobfence.conformance.model import Model
from jobfence.conformance.rules import RULES_OF
from jobfence.conformance.stateful import drawing as draw
from jobfence.conformance.stateful.twins import (
    Divergence,
    Read,
    Ref,
    Side,
    Step,
    compare,
    refs_in,
)
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import SteppedRetry
from jobfence.store.contract import JobStore

MAX_HANDOFFS = 4
JOBS: "Bundle[Ref]" = Bundle("jobs")
HANDOFFS: "Bundle[tuple[Ref, Ref]]" = Bundle("handoffs")  # (job, handoff)


def when(capability: Capability) -> Callable[["TwinMachine"], bool]:
    """Say that a rule is for stores with this capability."""
    return lambda machine: capability in machine.capabilities


class TwinMachine(RuleBasedStateMachine):
    """Two instances of the store and two of the model, on one data set each."""

    def __init__(
        self,
        factory: StoreFactory,
        namespace: str,
        *,
        capabilities: Collection[Capability] = ALL,
        backdoor: Backdoor | None = None,
    ) -> None:
        super().__init__()
        self.clock = ManualClock(draw.START_MS)
        self.capabilities, self.backdoor = capabilities, backdoor
        self._model = Model()
        self._factories: tuple[StoreFactory, ...] = (self._model.open_store, factory)
        self._namespace = namespace
        self._steps: list[Step] = []
        self._last, self._reader = "open", 0
        self._known: set[Ref] = set()
        self.sides: list[Side] = []

    @initialize(queues=draw.CONFIGURATIONS)
    def begin(self, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Open two instances on empty data; only the first has a configuration."""
        for number in (0, 1):
            side = Side()
            self.sides.append(side)
            side.use(0, self._open(number, queues))
            side.instances[0].clear()
            side.use(1, self._open(number, None))
            self._listen(side)
        self._steps.append(Step(f"open(queues={queues})", "two instances"))

    def reopen(self, who: int, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Lose an instance and all it remembered, and open another."""
        for number, side in enumerate(self.sides):
            side.instances[who].close()
            side.use(who, self._open(number, queues))
        for side in self.sides:
            self._listen(side, who)
        self.note(f"reopen(store{who + 1}, queues={queues})")

    def _listen(self, side: Side, *who: int) -> None:
        if Capability.WAKE_UPS in self.capabilities:
            for each in who or (0, 1):
                side.listen(each)

    def _open(self, side: int, queues: Mapping[str, QueuePolicy] | None) -> JobStore:
        limited = Capability.MAX_HANDOFFS in self.capabilities
        return blocking(
            self._factories[side](
                self._namespace,
                clock=self.clock,
                queues=queues,
                lease_ms=LEASE_MS,
                retry_policy=SteppedRetry(),
                **({"max_handoffs": MAX_HANDOFFS} if limited else {}),
            )
        )

    def teardown(self) -> None:
        """Close every instance."""
        for side in self.sides:
            for each in side.instances.values():
                each.close()

    def note(self, step: str) -> None:
        """Remember a step that is not a call."""
        self._steps.append(Step(step, None))

    def both(self, who: int, method: str, *args: object, **kwargs: object) -> object:
        """Call the model and the store, compare the answers, and return them."""
        told = [repr(each) for each in args]
        told += [f"{key}={value!r}" for key, value in kwargs.items()]
        self._last, self._reader = method, 1 - who
        model, store = self.sides
        before = model.wakes[who], store.wakes[who]
        expected = model.call(who, method, args, kwargs)
        call = f"store{who + 1}.{method}({', '.join(told)})"
        self._steps.append(Step(call, expected))
        seen = store.call(who, method, args, kwargs)
        self._agree(RULES_OF[method], expected, seen)
        self._agree(
            "T3",
            {"a listener was called": model.wakes[who] > before[0]},
            {"a listener was called": store.wakes[who] > before[1]},
        )
        return expected

    def _agree(self, rules: str, expected: object, seen: object) -> None:
        if found := compare(expected, seen):
            raise Divergence(rules, self._steps, found)

    def new_jobs(self, answer: object) -> MultipleResults[Ref]:
        """Return the jobs in an answer that no bundle holds yet."""
        found = [
            each
            for each in refs_in(answer)
            if each.kind == "job" and each not in self._known
        ]
        self._known.update(found)
        return multiple(*dict.fromkeys(found))

    @invariant()
    def same_state(self) -> None:
        """Compare everything that can be read, through the other instance."""
        if not self.sides:
            return
        expected, seen = (
            each.state(self._reader, self._reads()) for each in self.sides
        )
        self._agree(f"{RULES_OF[self._last]} (the state afterwards)", expected, seen)
        if self.backdoor is not None:
            self._agree(
                "C5",
                dict(self._model.open_backdoor(self._namespace).counters()),
                dict(self.backdoor.counters()),
            )

    def _reads(self) -> list[Read]:
        reads: list[Read] = [
            ("counts", (), {}),
            ("next_available", (), {}),
            ("next_scheduled", (), {}),
        ]
        if Capability.QUEUE_STATS in self.capabilities:
            reads.append(("queue_stats", (), {}))
        if Capability.SCHEDULE_KEYS in self.capabilities:
            more: dict[str, object] = {"include_latest_terminal": True}
            reads += [("scheduled_job", (key,), more) for key in draw.KEYS]
        return reads
