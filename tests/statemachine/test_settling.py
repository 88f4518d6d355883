"""What may be asked for in a batch of acknowledgements (T5)."""

import pytest

from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.settling import (
    SETTLED,
    extension,
    extensions,
    settled,
    settlements,
)
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Settlement
from tests.statemachine.test_values import HANDOFF


@pytest.mark.parametrize("trigger", [Trigger.COMPLETE, Trigger.RETURN_TO_QUEUE])
def test_T5_what_says_all_by_its_trigger_is_taken_as_it_is(trigger: Trigger) -> None:
    ack = Settlement(trigger, "job", "handoff", error="no\0", delay_ms=-1)
    assert settled(ack) is ack


def test_T5_an_error_is_what_would_be_recorded() -> None:
    ack = Settlement(Trigger.FAIL, "job", "handoff", error="no\0")
    told = settled(ack).error
    assert told is not None
    assert told.startswith("no")
    assert "\0" not in told


def test_T5_a_wait_is_checked() -> None:
    ack = Settlement(Trigger.RESCHEDULE, "job", "handoff", delay_ms=5)
    assert settled(ack) is ack
    for delay_ms in (None, -1):
        with pytest.raises(InvalidOption, match=r"^delay_ms must be"):
            settled(Settlement(Trigger.RESCHEDULE, "job", "x", delay_ms=delay_ms))


@pytest.mark.parametrize("trigger", [each for each in Trigger if each not in SETTLED])
def test_T5_another_trigger_is_no_acknowledgement(trigger: Trigger) -> None:
    with pytest.raises(
        InvalidOption,
        match=f"^acks must be of complete, fail, reschedule, return_to_queue, not .*{trigger}",
    ):
        settled(Settlement(trigger, "job", "handoff"))


def test_T5_a_text_is_no_trigger_and_a_handoff_id_no_settlement() -> None:
    text: Trigger = "complete"  # type: ignore[assignment]  # as a caller may
    with pytest.raises(InvalidOption, match=r"^acks must be of complete, "):
        settled(Settlement(text, "job", "handoff"))
    with pytest.raises(
        InvalidOption, match=r"^acks must be Settlement values, not 'h'"
    ):
        settled("h")


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ((5, "h"), "job_id must be a string, not 5"),
        (("j", None), "handoff_id must be a string, not None"),
        (("j\0", "h"), "job_id must not contain NUL"),
    ],
)
def test_M21_ids_are_text_that_every_database_can_hold(
    ids: tuple[str, str], told: str
) -> None:
    with pytest.raises(InvalidOption, match=f"^{told}"):
        settled(Settlement(Trigger.COMPLETE, *ids))
    with pytest.raises(InvalidOption, match=f"^{told}"):
        extension(*ids)
    assert extension("j", "") == ("j", "")


def test_T5_a_batch_is_checked_one_by_one_and_as_a_whole() -> None:
    acks = [Settlement(Trigger.COMPLETE, each, "h") for each in ("a", "b")]
    assert settlements(iter(acks)) == acks
    assert settlements(()) == []
    with pytest.raises(
        InvalidOption, match=r"^acks must be a list of Settlement values, not 5"
    ):
        settlements(5)
    with pytest.raises(InvalidOption, match=r"^acks must be Settlement values, not 7"):
        settlements([acks[0], 7])
    with pytest.raises(InvalidOption, match=r"^acks must be of complete, "):
        settlements([Settlement(Trigger.CANCEL, "a", "h")])


def test_M12_leases_are_renewed_of_handoffs_and_of_nothing_else() -> None:
    assert extensions([HANDOFF]) == [(HANDOFF.job.id, HANDOFF.handoff_id)]
    with pytest.raises(
        InvalidOption, match=r"^handoffs must be a list of Handoff values, not None"
    ):
        extensions(None)
    with pytest.raises(
        InvalidOption, match=r"^handoffs must be Handoff values, not \('j', 'h'\)"
    ):
        extensions([("j", "h")])
