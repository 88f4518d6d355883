"""The state machine without its rules: it draws actions, and the pair does them."""

from collections.abc import Callable, Mapping

from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
)

from jobfence.conformance.capabilities import Capability
from jobfence.conformance.stateful import drawing as draw
from jobfence.conformance.stateful.pair import Action, Pair, Setting
from jobfence.conformance.stateful.twins import Ref, refs_in
from jobfence.statemachine.policy import QueuePolicy

JOBS: "Bundle[Ref]" = Bundle("jobs")
HANDOFFS: "Bundle[tuple[Ref, Ref]]" = Bundle("handoffs")  # (job, handoff)


def when(capability: Capability) -> Callable[["TwinMachine"], bool]:
    """Say that a rule is for stores with this capability."""
    return lambda machine: machine.pair.has(capability)


class TwinMachine(RuleBasedStateMachine):
    """Its bundles hold refs; everything else is the pair's."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.pair = Pair(setting)
        self._known: set[Ref] = set()

    @initialize(queues=draw.CONFIGURATIONS)
    def begin(self, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Open two instances on empty data; only the first has a configuration."""
        self.reopen(0, queues)

    def reopen(self, who: int, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Lose an instance and all it remembered, and open another."""
        self.pair.do(Action(who, "open", (queues,)))

    def let_pass(self, ms: int) -> None:
        """Move the clock of both sides."""
        self.pair.do(Action(0, "clock", (ms,)))

    def both(self, who: int, method: str, *args: object, **kwargs: object) -> object:
        """Call the model and the store, compare the answers, and return them."""
        return self.pair.do(Action(who, method, args, kwargs))

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
        """Compare the state."""
        self.pair.check(everything=False)

    def teardown(self) -> None:
        """Compare all that can be read once more, and close every instance."""
        try:
            self.pair.check()
        finally:
            self.pair.close()
