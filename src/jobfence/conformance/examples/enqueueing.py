"""Rules E1 to E3, E6 and E7: what is stored, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import START_MS, Bench, held, there
from jobfence.statemachine.errors import ConcurrencyConflict, InvalidOption
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job

BAD_OPTIONS = [
    ("name", ""),
    ("name", "n" * 256),
    ("name", "a\0b"),
    ("queue", "   "),
    ("queue", "q" * 256),
    ("queue", 7),
    ("max_retries", -1),
    ("max_retries", 1.0),
    ("max_retries", True),
    ("max_retries", 2**31),
    ("scheduled_at", -1),
    ("scheduled_at", 1.5),
    ("scheduled_at", float("nan")),
    ("scheduled_at", 253_402_300_800_000),
    ("scheduled_at", datetime(2026, 1, 1)),  # noqa: DTZ001  naive on purpose
    ("priority", 2**31),
    ("priority", -(2**31) - 1),
    ("priority", 0.0),
    ("priority", False),
    ("timeout_ms", float("nan")),
    ("timeout_ms", float("inf")),
    ("timeout_ms", 1.5),
    ("timeout_ms", -1.5),
    ("timeout_ms", 2**31),
    ("timeout_ms", "15000"),
    ("timeout_ms", True),
    ("execution_mode", "fork"),
    ("idempotency_key", ""),
    ("idempotency_key", "i" * 256),
    ("deduplicate_while_queued", 1),
    ("concurrency_key", "alone"),
    ("max_concurrency", 1),
    ("args", "text"),
    ("kwargs", [1]),
]
BAD_VALUES = [
    ([float("nan")], "args[0]"),
    ([float("inf")], "args[0]"),
    ([{"x": float("-inf")}], "args[0]['x']"),
    ([b"bytes"], "args[0]"),
    ([[{1, 2}]], "args[0][0]"),
    ([{1: "a"}], "args[0]"),
    (["\ud800"], "args[0]"),
]


class Enqueueing(SuiteBase):
    """Part of layer (b)."""

    def test_a_job_has_the_defaults(self, bench: Bench) -> None:
        """Rules M1 and E, cases A1, A7, A8, A71: every column of a plain enqueue."""
        store = bench.open()
        job_id = store.enqueue("mail")
        assert there(store, job_id) == Job(
            id=job_id,
            name="mail",
            args=(),
            kwargs={},
            queue="default",
            priority=0,
            status=JobStatus.QUEUED,
            attempts=0,
            max_retries=10,
            handoffs=0,
            created_at_ms=START_MS,
            scheduled_at_ms=START_MS,
            handed_off_at_ms=None,
            lease_expires_at_ms=None,
            handoff_id=None,
            worker_id=None,
            last_handoff_id=None,
            last_worker_id=None,
            last_handed_off_at_ms=None,
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

    def test_a_job_has_what_was_given(self, bench: Bench) -> None:
        """Rule E: every option is stored as it was given."""
        store = bench.open()
        job = there(
            store,
            store.enqueue(
                "mail",
                [1, "é", None],
                {"b": {"y": 2, "x": 1}, "a": []},
                queue=" uploads ",
                priority=-3,
                max_retries=2,
                scheduled_at=START_MS + 5,
                concurrency_key="account:1",
                max_concurrency=4,
                timeout_ms=15_000,
                execution_mode="process",
            ),
        )
        assert (job.args, job.kwargs) == (
            (1, "é", None),
            {"a": [], "b": {"x": 1, "y": 2}},
        )
        assert (job.queue, job.priority, job.max_retries) == ("uploads", -3, 2), "A2"
        assert (job.created_at_ms, job.scheduled_at_ms) == (START_MS, START_MS + 5)
        assert (job.concurrency_key, job.max_concurrency) == ("account:1", 4)
        assert (job.timeout_ms, job.execution_mode) == (15_000, "process")

    @pytest.mark.parametrize(
        ("given", "stored"), [(15_000, 15_000), (0, 0), (-5, 0), (None, None)]
    )
    def test_a_timeout_at_or_below_zero_means_none(
        self, bench: Bench, given: int | None, stored: int | None
    ) -> None:
        """Rule E, case A100."""
        store = bench.open()
        job = there(store, store.enqueue("mail", timeout_ms=given))
        assert job.timeout_ms == stored

    @pytest.mark.parametrize(("option", "value"), BAD_OPTIONS)
    def test_a_bad_option_is_refused_by_name_and_writes_nothing(
        self, bench: Bench, option: str, value: object
    ) -> None:
        """Rule E1, cases A13, A59, A101, F83."""
        store = bench.open()
        given: dict[str, Any] = {"name": "mail", option: value}
        with bench.unchanged(store, "E1"), pytest.raises(InvalidOption) as refused:
            store.enqueue(**given)
        paired = {"concurrency_key": "max_concurrency"}
        paired |= {"max_concurrency": "concurrency_key"}
        missing_half = option in paired and refused.value.value is None
        assert missing_half or refused.value.option == option

    def test_a_reserved_key_is_refused(self, bench: Bench) -> None:
        """Rule E, case A11."""
        store = bench.open()
        with bench.unchanged(store, "E1"), pytest.raises(InvalidOption, match="queue:"):
            store.enqueue("mail", concurrency_key="queue:reserved", max_concurrency=1)

    @pytest.mark.parametrize(("args", "path"), BAD_VALUES)
    def test_what_json_cannot_carry_is_refused_by_its_path(
        self, bench: Bench, args: list[Any], path: str
    ) -> None:
        """Rule E2, cases F58, F59."""
        store = bench.open()
        with (
            bench.unchanged(store, "E2"),
            pytest.raises(ValueError, match=r"JSON|must") as refused,
        ):
            store.enqueue("mail", args)
        assert path in str(refused.value)

    def test_values_come_back_exactly(self, bench: Bench) -> None:
        """Rule E2: big integers, NUL, floats, nesting, astral characters."""
        store = bench.open()
        args: list[Any] = [
            2**70,
            -(2**63),
            "a\0b",
            0.1,
            1e300,
            -0.0,
            [],
            {},
            "😀",
            True,
            None,
        ]
        job = there(store, store.enqueue("mail", args, {"deep": [[[{"x": [1]}]]]}))
        assert list(job.args) == args
        assert [type(each) for each in job.args] == [type(each) for each in args]
        assert job.kwargs == {"deep": [[[{"x": [1]}]]]}

    def test_arguments_above_a_mebibyte_are_refused(self, bench: Bench) -> None:
        """Rule E6: args and kwargs are at most 1 MiB of text."""
        store = bench.open()
        job_id = store.enqueue("mail", ["x" * (1024 * 1024 - 6)])  # with [""] and {}
        assert len(str(there(store, job_id).args[0])) == 1024 * 1024 - 6
        with bench.unchanged(store, "E6"), pytest.raises(InvalidOption):
            store.enqueue("mail", ["x" * (1024 * 1024 - 5)])

    def test_keys_and_names_are_compared_byte_by_byte(self, bench: Bench) -> None:
        """Rule E1, case F62: "K", "k" and "k " are three."""
        store = bench.open()
        for key in ("K", "k", "k ", "ḱ"):
            store.enqueue("mail", concurrency_key=key, max_concurrency=1)
        assert len(store.claim(10)) == 4
        ids = {store.enqueue(name) for name in ("A", "a", "a ")}
        assert {job.name for job in store.list_jobs(name="a")} == {"a"}
        assert len(ids) == 3

    def test_a_time_is_an_instant_whatever_its_zone(self, bench: Bench) -> None:
        """Rule E1, case F70: +08:00 is not dropped."""
        store = bench.open()
        zone = timezone(timedelta(hours=8))
        store.enqueue("mail", scheduled_at=datetime(2026, 1, 1, 9, tzinfo=zone))
        due = int(datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp() * 1000)
        bench.clock.set(due - 1)
        assert store.claim() == []
        bench.clock.set(due)
        assert len(store.claim()) == 1

    def test_a_datetime_is_rounded_up_to_a_millisecond(self, bench: Bench) -> None:
        """Rule E1: a job is never due before the time given."""
        store = bench.open()
        when = datetime(1970, 1, 1, 0, 0, 5, 1, tzinfo=UTC)
        job = there(store, store.enqueue("mail", scheduled_at=when))
        assert job.scheduled_at_ms == 5_001

    def test_jobs_of_one_millisecond_stay_in_order(self, bench: Bench) -> None:
        """Rule E7, through two instances: first in, first out."""
        one, other = bench.open(), bench.open()
        ids = [
            (one, other)[number % 2].enqueue("mail", [number]) for number in range(20)
        ]
        assert [job.id for job in one.list_jobs()] == ids
        assert [each.job.id for each in other.claim(20)] == ids
        assert sorted(ids) == ids

    def test_a_batch_is_stored_in_order(self, bench: Bench) -> None:
        """Rule E6."""
        store = bench.open()
        ids = store.enqueue_many(JobRequest("mail", [each]) for each in range(5))
        assert [job.id for job in store.list_jobs()] == ids
        assert [job.args for job in store.list_jobs()] == [(each,) for each in range(5)]
        assert store.enqueue_many([]) == []

    def test_a_batch_is_stored_whole_or_not_at_all(self, bench: Bench) -> None:
        """Rule E6: a conflict undoes the batch, the counters it made included."""
        store = bench.open()
        store.enqueue("mail", concurrency_key="k", max_concurrency=1)
        batch = [
            JobRequest("mail"),
            JobRequest("mail", concurrency_key="new", max_concurrency=5),
            JobRequest("mail", concurrency_key="k", max_concurrency=2),
        ]
        with bench.unchanged(store, "E6"), pytest.raises(ConcurrencyConflict):
            store.enqueue_many(batch)
        store.enqueue("mail", concurrency_key="new", max_concurrency=6)

    def test_equal_requests_in_a_batch_are_one(self, bench: Bench) -> None:
        """Rule E6: as if enqueued one by one."""
        store = bench.open()
        twice = [JobRequest("mail", [1], deduplicate_while_queued=True)] * 2
        first, second = store.enqueue_many(twice)
        assert first == second
        assert store.counts()[JobStatus.QUEUED] == 1

    def test_a_chosen_handoff_id_is_stored_exactly(self, bench: Bench) -> None:
        """Rule M19, case A17."""
        store = bench.open()
        job_id = store.enqueue("mail")
        handoff = held(store, job_id, "caller-selected-local-handoff")
        assert handoff.handoff_id == "caller-selected-local-handoff"
        assert there(store, job_id).handoff_id == "caller-selected-local-handoff"
