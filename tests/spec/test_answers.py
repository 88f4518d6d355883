"""Graph equality sees what every handoff hears, not only that it heard something."""

import inspect
import itertools

from collections.abc import Callable

import pytest

from equality.explore import explore
from equality.graph import Graph, compare, described
from equality.names import JOBS, MODULE, NUMBERS, module, name_of
from equality.report import DEEP_SLICES, SLICES
from equality.slices import Slice, read_slice

from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import AckResult
from jobfence.store.memory import MemoryJobStore, acks

ACCEPTED, REPEATED, STALE = AckResult.ACCEPTED, AckResult.REPEATED, AckResult.STALE
KINDS = ("complete", "fail", "reschedule", "return_to_queue")
# One job, handed off twice: every way out of a handoff, and what is heard after each.
ANSWERS = Slice(
    name="answers",
    ids=(1,),
    key_of={1: "A"},
    schedule_key_of={1: "S"},
    identity_of={},
    idempotency_key_of={},
    retries=1,
    caps=(1,),
    max_handoffs=0,
    bound=2,
    features=frozenset(
        {"answers", "fail", "reschedule", "return_to_queue", "recover", "lease"}
        | {"cancel", "cancel_scheduled", "wake", "pause", "prune"}
    ),
)


@pytest.fixture(scope="module")
def sound() -> Graph:
    return explore(ANSWERS).graph


def test_every_answer_is_named_by_job_handoff_and_kind(sound: Graph) -> None:
    named = {label for _, label, _ in sound.edges if label.startswith("Ack")}
    assert named == {
        *(f"AckStale_1_{number}" for number in (0, 1, 2)),
        *(f"AckRepeated_1_{number}_{kind}" for number in (1, 2) for kind in KINDS),
    }


DECIDES = "row.last_ack == trigger.value"


@pytest.mark.parametrize(
    ("instead", "kinds"),
    [
        ("row.last_ack is not None", KINDS),
        ("row.last_ack is not None and row.last_ack != trigger.value", KINDS),
        (
            f'{DECIDES} and trigger.value not in ("reschedule", "return_to_queue")',
            ("reschedule", "return_to_queue"),
        ),
    ],
    ids=["any end", "another end", "two kinds never"],
)
def test_a_store_that_repeats_wrongly_lacks_the_edges_of_those_kinds(
    sound: Graph, monkeypatch: pytest.MonkeyPatch, instead: str, kinds: tuple[str, ...]
) -> None:
    scope = dict(vars(acks))
    source = inspect.getsource(scope["_acknowledge"])
    assert source.count(DECIDES) == 1
    exec(source.replace(DECIDES, instead), scope)  # noqa: S102  our own, with a fault
    monkeypatch.setattr(acks, "_acknowledge", scope["_acknowledge"])
    missing, wrong = compare(sound, explore(ANSWERS).graph).edges
    lost = {label for _, label, _ in missing if label.startswith("AckRepeated")}
    assert lost == {f"AckRepeated_1_{n}_{kind}" for n in (1, 2) for kind in kinds}
    assert wrong
    said = "\n".join(described(missing))
    assert "AckRepeated_1_" in said
    assert "to   the same" in said


@pytest.mark.parametrize(
    ("method", "edge"),
    [
        ("extend_lease", "RefusedBut_Ack_extend_lease"),
        ("cancel", "RefusedBut_Cancel"),
        ("cancel_scheduled", "RefusedBut_CancelScheduled"),
        ("wake_scheduled", "RefusedBut_Wake"),
        ("claim_job", "RefusedBut_Claim"),
        ("recover_expired", "RefusedBut_Recover"),
        ("prune_terminal", "RefusedBut_Prune"),
        ("pause_queue", "RefusedBut_PauseQueue"),
        ("resume_queue", "RefusedBut_ResumeQueue"),
    ],
)
def test_a_refusal_that_writes_is_an_edge_that_the_spec_has_not(
    sound: Graph, monkeypatch: pytest.MonkeyPatch, method: str, edge: str
) -> None:
    monkeypatch.setattr(
        MemoryJobStore, method, writing(getattr(MemoryJobStore, method))
    )
    _, wrong = compare(sound, explore(ANSWERS).graph).edges
    assert edge in {label for _, label, _ in wrong}


def writing(method: Callable[..., object]) -> Callable[..., object]:
    """The method, which also changes a cap whatever it comes to."""
    caps = itertools.cycle((2, 3))

    def called(store: MemoryJobStore, *args: object, **kwargs: object) -> object:
        answer = method(store, *args, **kwargs)
        store.set_concurrency("A", next(caps))
        return answer

    return called


def test_the_names_in_the_spec_are_those_that_are_written() -> None:
    written = MODULE.read_text() == module()
    assert written, f"stale: {MODULE}; run `python -m equality.names` in spec"


def test_there_is_a_name_for_every_answer_of_a_slice() -> None:
    for bounds in map(read_slice, (*SLICES, *DEEP_SLICES)):
        if bounds.on("answers"):
            assert {*bounds.ids} <= {*JOBS}
            assert bounds.bound in NUMBERS


@pytest.mark.parametrize(
    ("heard", "name"),
    [
        ({Trigger.FAIL: {ACCEPTED}}, None),
        ({Trigger.FAIL: {STALE}}, "AckStale_1_2"),
        ({Trigger.COMPLETE: {STALE}, Trigger.FAIL: {REPEATED}}, "AckRepeated_1_2_fail"),
        # The spec has no name for these.
        ({Trigger.EXTEND_LEASE: {REPEATED}}, "AckRepeated_1_2_extend_lease"),
        (
            {Trigger.COMPLETE: {STALE}, Trigger.FAIL: {ACCEPTED}},
            "AckStale_1_2_fail_accepted",
        ),
        (
            {Trigger.RESCHEDULE: {REPEATED, STALE}},
            "AckRepeated_1_2_reschedule_repeated_stale",
        ),
    ],
)
def test_all_that_a_handoff_hears_is_one_name(
    heard: dict[Trigger, set[AckResult]], name: str | None
) -> None:
    assert name_of(1, 2, heard) == name
