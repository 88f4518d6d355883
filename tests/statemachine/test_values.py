"""The values of the contract: frozen, comparable, and fit to be sent to a process."""

import copy
import pickle

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from jobfence.statemachine import values
from jobfence.statemachine.errortext import MAX_ERROR_BYTES
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import (
    STALE,
    Ack,
    AckResult,
    Cancellation,
    CancelOutcome,
    Handoff,
    Job,
    QueueStats,
    Reconciliation,
    Repair,
    Replacement,
    ScheduledJob,
    Settlement,
    Wake,
    WakeOutcome,
)

JOB = Job(
    id="j",
    name="mail",
    args=(1, {"a": [2]}),
    kwargs={"to": "x"},
    queue="default",
    priority=0,
    status=JobStatus.HANDED_OFF,
    attempts=1,
    max_retries=10,
    handoffs=3,
    created_at_ms=1,
    scheduled_at_ms=2,
    handed_off_at_ms=3,
    lease_expires_at_ms=4,
    handoff_id="h",
    worker_id="w",
    last_handoff_id="h",
    last_worker_id="w",
    last_handed_off_at_ms=3,
    completed_at_ms=None,
    failed_at_ms=None,
    cancelled_at_ms=None,
    last_error=None,
    concurrency_key=None,
    max_concurrency=None,
    schedule_key=None,
    schedule_order=None,
    timeout_ms=None,
    execution_mode="inline",
    cancel_requested=False,
    origin_id=None,
)
HANDOFF = Handoff(JOB, "h", 3, 4)
EVERY = [
    JOB,
    HANDOFF,
    Ack(AckResult.ACCEPTED, JOB),
    STALE,
    Settlement.complete(HANDOFF),
    QueueStats("q", {JobStatus.QUEUED: 1}, False, None, 0, None),  # noqa: FBT003
    Replacement("new", "old", JobStatus.QUEUED),
    Cancellation("j", CancelOutcome.CANCELLED),
    Wake(None, WakeOutcome.NOT_FOUND),
    ScheduledJob(JOB, None),
    Repair("k", 17, 1),
    Reconciliation(2, 1, 1, (Repair("k", 17, 1),), 0),
]

each_value = pytest.mark.parametrize(
    "value", EVERY, ids=[f"{type(each).__name__}-{n}" for n, each in enumerate(EVERY)]
)


@each_value
def test_a_value_cannot_be_changed(value: Job) -> None:
    first = fields(value)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(value, first, None)


@each_value
def test_a_value_survives_a_trip_to_another_process(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301
    assert copy.deepcopy(value) == value
    assert copy.copy(value) == value


def test_jobs_are_equal_by_all_fields_and_hashed_by_id() -> None:
    other = replace(JOB, attempts=2)
    assert other != JOB
    assert hash(other) == hash(JOB)
    assert hash(replace(JOB, id="k")) != hash(JOB)
    assert len({JOB, replace(JOB), other}) == 2
    assert len({HANDOFF, replace(HANDOFF), replace(HANDOFF, job=other)}) == 2


def test_a_job_is_made_by_name_only() -> None:
    with pytest.raises(TypeError):
        Job("j")  # type: ignore[call-arg]


def test_a_handoffs_fence_is_the_number_of_the_claim() -> None:
    assert HANDOFF.fence == 3


@pytest.mark.parametrize(
    ("result", "marks"),
    [
        (AckResult.ACCEPTED, (True, False, False)),
        (AckResult.REPEATED, (False, True, False)),
        (AckResult.STALE, (False, False, True)),
    ],
)
def test_M18_an_answer_is_one_of_three_and_true_unless_stale(
    result: AckResult, marks: tuple[bool, bool, bool]
) -> None:
    ack = Ack(result)
    assert (ack.accepted, ack.repeated, ack.stale) == marks
    assert bool(ack) == (not ack.stale)
    assert (STALE.stale, STALE.job) == (True, None)


def test_a_settlement_says_which_handoff_ended_how() -> None:
    assert Settlement.complete(HANDOFF) == Settlement(Trigger.COMPLETE, "j", "h")
    assert Settlement.return_to_queue(HANDOFF) == Settlement(
        Trigger.RETURN_TO_QUEUE, "j", "h"
    )
    assert Settlement.reschedule(HANDOFF, 500) == Settlement(
        Trigger.RESCHEDULE, "j", "h", delay_ms=500
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("boom", "boom"),
        (ValueError("x"), "ValueError: x\n"),
        ("\0\ud800", "\ufffd" * 2),
    ],
    ids=ascii,
)
def test_B3_a_settlement_takes_any_error_and_keeps_its_storable_text(
    error: object, text: str
) -> None:
    assert Settlement.fail(HANDOFF, error) == Settlement(
        Trigger.FAIL, "j", "h", error=text
    )
    long = Settlement.fail(HANDOFF, "x" * 10**6).error
    assert long is not None
    assert len(long.encode()) <= MAX_ERROR_BYTES


def test_outcomes_are_the_words_of_the_contract() -> None:
    assert [*values.CancelOutcome] == [
        "cancelled",
        "handed_off",
        "requested",
        "terminal",
        "not_found",
    ]
    assert [*values.WakeOutcome] == ["woken", "already_due", "handed_off", "not_found"]
    assert [*values.AckResult] == ["accepted", "repeated", "stale"]
    assert [*JobStatus] == ["queued", "handed_off", "completed", "failed", "cancelled"]
