"""Goes breadth-first through every world that the store can be brought into."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from equality.calls import Caller, first_worlds
from equality.graph import Edge, Graph, State, action_of
from equality.moves import MOVES
from equality.slices import Slice
from equality.world import World, abstract

# A slice leaves out the actions of the features that it does not name (JobQueue.tla).
FEATURE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("FailAbort", "FailRetry", "FailExhaust"), "fail"),
    **dict.fromkeys(
        ("RescheduleAbort", "RescheduleGiveUp", "Reschedule"), "reschedule"
    ),
    **dict.fromkeys(
        ("ReturnToQueueAbort", "ReturnToQueueGiveUp", "ReturnToQueue"),
        "return_to_queue",
    ),
    **dict.fromkeys(
        (
            *("RecoverAbort", "RecoverGiveUp", "RecoverRetry", "RecoverExhaust"),
            "RejectHandedOff",
        ),
        "recover",
    ),
    **dict.fromkeys(
        ("AckRepeated", "AckStale", "EnqueueDuplicate", "EnqueueRepeated"), "answers"
    ),
    **dict.fromkeys(("Configure", "ReconcileQueuePolicies"), "policy"),
    **dict.fromkeys(("PauseQueue", "ResumeQueue"), "pause"),
    "ExtendLease": "lease",
    "Cancel": "cancel",
    "RequestCancel": "request_cancel",
    "PruneTerminal": "prune",
    "CancelScheduled": "cancel_scheduled",
    "Wake": "wake",
    "SetConcurrency": "set_concurrency",
    "FallDue": "time",
    "Damage": "damage",
}


@dataclass(frozen=True, slots=True)
class Explored:
    """The graph, and from how many different contents of the tables it was made."""

    graph: Graph
    worlds: int


def explore(bounds: Slice, *, worlds_per_state: int = 1) -> Explored:
    """
    Return the labelled state graph of the store within these bounds.

    Many contents of the tables are one state to the spec: they differ in error texts,
    copies of caps, times of ends. `worlds_per_state` says from how many of them to go
    on; more than one checks that what looks the same also behaves the same.
    """
    caller = Caller(bounds)
    moves = [each for each, needs in MOVES if not needs or any(map(bounds.on, needs))]
    states: dict[object, State] = {}
    gone_on: Counter[State] = Counter()
    edges: set[Edge] = set()
    waiting: deque[tuple[World, State]] = deque()

    def meet(world: World) -> State:
        key = world.key()
        if key not in states:
            states[key] = state = abstract(world, bounds)
            if gone_on[state] < worlds_per_state:
                gone_on[state] += 1
                waiting.append((world, state))
        return states[key]

    initial = frozenset(map(meet, first_worlds(caller)))
    while waiting:
        world, before = waiting.popleft()
        for each in moves:
            for label, then in each(caller, world):
                feature = FEATURE.get(action_of(label))
                if feature is None or bounds.on(feature):
                    after = before if then is world else meet(then)
                    edges.add((before, label, after))
    found = Graph(initial, frozenset(states.values()), frozenset(edges))
    return Explored(found, gone_on.total())
