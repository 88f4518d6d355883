"""Rule E1 in calls other than `enqueue`: what no store may take."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, Bench, held
from jobfence.statemachine.errors import InvalidOption

LONG = "x" * 256
# The method, its arguments, its options, and the option that is refused.
BAD_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("claim", (), {"queues": "mail"}, "queues"),
    ("claim", (), {"queues": b"mail"}, "queues"),
    ("claim", (), {"queues": [7]}, "queues"),
    ("claim", (), {"queues": [""]}, "queues"),
    ("claim", (), {"execution_modes": ["fork"]}, "execution_modes"),
    ("claim", (), {"execution_modes": "inline"}, "execution_modes"),
    ("claim", (), {"worker_id": ""}, "worker_id"),
    ("claim", (), {"worker_id": LONG}, "worker_id"),
    ("claim", (), {"worker_id": "a\0b"}, "worker_id"),
    ("claim", (-1,), {}, "limit"),
    ("claim", (True,), {}, "limit"),
    ("claim", (10_001,), {}, "limit"),
    ("claim_job", ("due",), {"handoff_id": ""}, "handoff_id"),
    ("claim_job", ("due",), {"handoff_id": "a\0b"}, "handoff_id"),
    ("claim_job", ("due",), {"handoff_id": LONG}, "handoff_id"),
    ("claim_job", ("due",), {"worker_id": ""}, "worker_id"),
    ("claim_job", ("due",), {"worker_id": LONG}, "worker_id"),
    ("claim_job", ("due",), {"lease_ms": 0}, "lease_ms"),
    ("settle", ([],), {"claim": 1, "queues": "mail"}, "queues"),
    ("settle", ([],), {"claim": 1, "execution_modes": ["fork"]}, "execution_modes"),
    ("settle", ([],), {"claim": 1, "worker_id": ""}, "worker_id"),
    ("settle", ([],), {"claim": -1}, "claim"),
    ("settle", ([],), {"claim": True}, "claim"),
    ("settle", (["complete"],), {}, "acks"),
    ("enqueue_many", (["mail"],), {}, "requests"),
    ("list_jobs", (), {"status": "nonsense"}, "status"),
    ("list_jobs", (), {"name": ""}, "name"),
    ("list_jobs", (), {"name": LONG}, "name"),
    ("list_jobs", (), {"queue": " "}, "queue"),
    ("list_jobs", (), {"queue": 7}, "queue"),
    ("list_jobs", (), {"after": "no-such-job"}, "after"),
    ("list_jobs", (), {"limit": 0}, "limit"),
    ("list_jobs", (), {"limit": 10_001}, "limit"),
    ("next_available", (), {"queues": "mail"}, "queues"),
    ("next_available", (), {"execution_modes": ["fork"]}, "execution_modes"),
    ("next_scheduled", (), {"queues": "mail"}, "queues"),
    ("handoffs_for_worker", ("",), {}, "worker_id"),
    ("handoffs_for_worker", (LONG,), {}, "worker_id"),
    ("recover_expired", (), {"limit": 0}, "limit"),
    ("recover_expired", (), {"limit": True}, "limit"),
    ("extend_leases", ([],), {"lease_ms": 0}, "lease_ms"),
    ("reconcile_queue_policies", ({"q": 1},), {}, "queues"),
    ("reconcile_queue_policies", ("mail",), {}, "queues"),
]


class Refusing(SuiteBase):
    """Part of layer (b)."""

    @pytest.mark.parametrize(("method", "args", "options", "refused"), BAD_CALLS)
    def test_a_bad_option_of_any_call_is_refused_by_name_and_writes_nothing(
        self,
        bench: Bench,
        method: str,
        args: tuple[Any, ...],
        options: dict[str, Any],
        refused: str,
    ) -> None:
        """Rule E1: although each has a job to find, by a letter of the text given."""
        store = bench.open()
        held(store, store.enqueue("mail"))
        bench.clock.advance(LEASE_MS)
        due = store.enqueue("mail", queue="m")
        given = [due if each == "due" else each for each in args]
        with bench.unchanged(store, "E1"), pytest.raises(InvalidOption) as problem:
            getattr(store, method)(*given, **options)
        found = problem.value.option
        assert found.startswith(refused), f"E1: {refused} is told as {found!r}"
