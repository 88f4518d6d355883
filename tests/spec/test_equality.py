"""The store in memory has the graph on record, and a fault in it makes another one."""

import dataclasses

from pathlib import Path

import pytest

from equality.calls import Caller, first_worlds
from equality.explore import FEATURE, explore
from equality.graph import Graph, compare, described, read_dump, written
from equality.report import SLICES, actions_of_spec, complaints
from equality.slices import Slice, read_slice
from equality.world import NOW, abstract
from runner.catalogue import Model, load_catalogue
from runner.values import parse_value

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.table import Fence, Guard
from jobfence.store.memory import MemoryData, MemoryJobStore, interpreter
from jobfence.store.memory.data import Tables
from jobfence.store.memory.transaction import Transaction

# Two jobs on one slot and one schedule key, every way out of a handoff.
SMALL = Slice(
    name="small",
    ids=(1, 2),
    key_of={1: "A", 2: "A"},
    schedule_key_of={2: "S"},
    identity_of={},
    idempotency_key_of={},
    retries=1,
    caps=(1,),
    max_handoffs=0,
    bound=2,
    features=frozenset({"fail", "recover", "lease", "request_cancel"}),
)
TINY = dataclasses.replace(SMALL, bound=1)


@pytest.fixture(scope="module")
def sound() -> Graph:
    return explore(TINY).graph


def test_the_smallest_slice_has_the_size_on_record_for_tlc() -> None:
    """That they are the same, not only as many, needs Java to be seen."""
    slices = [each for each in load_catalogue().models if each.name in SLICES]
    smallest = min(slices, key=lambda each: each.states)
    graph = explore(read_slice(smallest.name)).graph
    assert (len(graph.states), len(graph.edges)) == (smallest.states, smallest.edges)


def test_what_looks_the_same_to_the_spec_behaves_the_same() -> None:
    one, every = explore(SMALL), explore(SMALL, worlds_per_state=1_000_000)
    assert every.worlds > one.worlds == len(one.graph.states)
    assert every.graph == one.graph


def nothing(*_: object) -> None:
    """What a step does that forgets to do it."""


def plant(patch: pytest.MonkeyPatch, fault: str) -> None:
    """Make the store break one rule."""
    if fault == "fence":
        patch.setitem(interpreter.FENCES, Fence.HANDOFF, lambda a, row: True)
    elif fault == "counter":
        patch.setattr(Transaction, "_count", nothing)
    elif fault == "ownership":
        patch.setattr(Transaction, "_end_ownership", nothing)
    else:
        patch.setitem(interpreter.GUARDS, Guard(fault), lambda a: False)


@pytest.mark.parametrize(
    ("fault", "edge"),
    [
        ("fence", "Complete"),  # by a handoff that is not the job's
        ("counter", "Claim"),
        ("ownership", "Complete"),
        ("cancel_requested", "FailRetry"),
        ("lease_over", "RecoverRetry"),
        ("retries_left", "FailRetry"),
    ],
)
def test_a_store_that_breaks_a_rule_has_another_graph(
    sound: Graph, monkeypatch: pytest.MonkeyPatch, fault: str, edge: str
) -> None:
    plant(monkeypatch, fault)
    found = compare(sound, explore(TINY).graph)
    assert edge in {label for edges in found.edges for _, label, _ in edges}


def test_the_slices_name_every_action() -> None:
    named = {name for each in SLICES for name in within(read_slice(each))}
    assert named >= FEATURE.keys()
    always = {"Claim", "Complete", "Enqueue", "ReplaceScheduled", "AdoptPolicy"}
    assert actions_of_spec() == FEATURE.keys() | always | {"RejectQueued", "Lapse"}


def within(bounds: Slice) -> set[str]:
    """The actions whose feature takes part."""
    return {name for name, feature in FEATURE.items() if bounds.on(feature)}


CONFIG = """
  Ids = {1, 2, 3}
  OnA = {1} OnB = {} OnS = {2} OnT = {}
  SameWork = {1, 2} OtherWork = {} SameRequest = {2, 3}
  Retries = 1 Caps = {1, 2} MaxHandoffs = 0 Bound = 2
  Features = {"prune",
              "time"}
  NoJob = 0 None = "-" Queues = {"q"}
"""


def test_a_slice_is_what_the_configuration_says(tmp_path: Path) -> None:
    (tmp_path / "some.cfg").write_text(CONFIG)
    assert read_slice("some", tmp_path) == Slice(
        name="some",
        ids=(1, 2, 3),
        key_of={1: "A"},
        schedule_key_of={2: "S"},
        identity_of={1: "work", 2: "work"},
        idempotency_key_of={2: "request", 3: "request"},
        retries=1,
        caps=(1, 2),
        max_handoffs=0,
        bound=2,
        features=frozenset({"prune", "time"}),
    )


def test_a_slice_of_several_queues_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.cfg").write_text(CONFIG.replace('{"q"}', '{"q", "r"}'))
    with pytest.raises(ValueError, match="some: Queues is"):
        read_slice("some", tmp_path)


def test_a_slice_begins_with_every_cap_and_every_policy_that_is_followed() -> None:
    policy = read_slice("policy-3jobs")
    assert {world.policy for world in first_worlds(Caller(policy))} == {0, 1}
    counters = read_slice("counters-3jobs")
    caps = [
        world.tables.counters["A"].max_concurrency
        for world in first_worlds(Caller(counters))
    ]
    assert caps == [1, 2]


def test_a_state_is_written_as_the_spec_has_it() -> None:
    (world,) = first_worlds(Caller(SMALL))
    claimed = claim_first(world.tables)
    (_, world_then) = Caller(SMALL).call(
        dataclasses.replace(world, tables=claimed), MemoryJobStore.recover_expired
    )
    state = parse_value(abstract(world_then, SMALL))
    assert isinstance(state, dict)
    first = state["job"][0]
    assert (first["status"], first["handoff"], first["lease"]) == (
        "handed_off",
        1,
        "runs",
    )
    assert state["counter"] == {
        "A": {"cap": 1, "active": 1},
        "q": {"cap": 0, "active": 0},
    }
    assert state["skey"] == {"S": {"owner": 0, "high": 0}}
    assert state["first"] == ()


def claim_first(tables: Tables) -> Tables:
    """Job 1 enqueued and handed off."""
    data = MemoryData()
    data.tables = tables
    store = MemoryJobStore(clock=ManualClock(NOW), ids=lambda: "1", data=data)
    store.enqueue("n", concurrency_key="A", max_concurrency=1, queue="q")
    assert store.claim_job("1", handoff_id="1-1") is not None
    return data.tables


DUMP = r"""strict digraph DiskGraph {
-1 [label="/\\ a = [y |-> \"-\", x |-> 1]\n/\\ b = << >>",style = filled]
-1 -> 2 [label="Go",color="2",fontcolor="2"];
2 [label="/\\ a = [ x |-> 2,\n  y |-> \"-\" ]\n/\\ b = << >>"];
2 -> 2 [label="Stay",color="3",fontcolor="3"];
2 -> -1 [label="Go",color="2",fontcolor="2"];
subgraph cluster_legend {
Go [label="Go",fillcolor=2]
}}"""
ONE = "[a |-> [x |-> 1, y |-> -], b |-> <<>>]"
TWO = "[a |-> [x |-> 2, y |-> -], b |-> <<>>]"


def test_what_tlc_dumps_is_read_as_states_and_labelled_edges(tmp_path: Path) -> None:
    (tmp_path / "graph.dot").write_text(DUMP)
    graph = read_dump(tmp_path / "graph.dot")
    assert graph.initial == {ONE}
    assert graph.states == {ONE, TWO}
    assert graph.edges == {
        (ONE, "Go", TWO),
        (TWO, "Stay", TWO),
        (TWO, "Go", ONE),
    }
    assert graph.actions == {"Go", "Stay"}


def test_a_value_is_written_in_one_way() -> None:
    assert written({"b": True, "a": (1, {})}) == "[a |-> <<1, <<>>>>, b |-> TRUE]"


def test_each_difference_is_named_with_the_side_that_has_it() -> None:
    one = Graph(frozenset({ONE}), frozenset({ONE, TWO}), frozenset({(ONE, "Go", TWO)}))
    two = Graph(frozenset({ONE}), frozenset({ONE}), frozenset({(ONE, "Stay", ONE)}))
    said = list(complaints(on_record(2, 1), one, two))
    assert [each for each in said if not each.startswith(" ")] == [
        "only the spec has 1 states",
        "only the spec has 1 edges:",
        "only the store has 1 edges:",
    ]
    assert list(described(one.edges)) == [f"Go\n      from {ONE}\n      to   {TWO}"]
    assert list(complaints(on_record(2, 1), one, one)) == []


def test_graphs_that_are_equal_but_not_of_the_size_on_record_are_noticed() -> None:
    one = Graph(frozenset({ONE}), frozenset({ONE}), frozenset())
    assert list(complaints(on_record(2, 3), one, one)) == [
        "models.toml has 2 states on record",
        "models.toml has 3 edges on record",
    ]
    assert list(complaints(on_record(1, None), one, one)) == [
        "models.toml has no edges on record"
    ]


def on_record(states: int, edges: int | None) -> Model:
    """A model as models.toml has it."""
    return Model("some", "MC", "shows nothing", states, edges)
