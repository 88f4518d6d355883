"""A difference is shown under the rules about what differs, not about the last call."""

from typing import Any

import pytest

from jobfence.conformance.faults import CATALOGUE, FaultySuite
from jobfence.conformance.faults.base import Faulty
from jobfence.conformance.rules import RULES_OF, rules_of
from jobfence.conformance.stateful.comparing import Difference, Divergence
from jobfence.conformance.stateful.pair import Action, Setting, play
from jobfence.conformance.stateful.shortening import shorten
from jobfence.conformance.stateful.twins import Ref, Request

CAPPED = Request("mail", (), {"concurrency_key": "k", "max_concurrency": 1})
URGENT = Request("mail", (), {"priority": 1})
JOB, HANDOFF = Ref("job", 1), Ref("handoff", 1)
BOTH = (JOB, Ref("job", 2))
TWO = Action(0, "enqueue_many", ([CAPPED, CAPPED],), made=BOTH)
LATE_BUT_URGENT = Action(0, "enqueue_many", ([Request("mail", (), {}), URGENT],))
MAIL = Action(0, "enqueue", ("mail",), made=(JOB,))
CLAIM = Action(0, "claim", (1,), made=(HANDOFF,))
NIGHTLY = Action(0, "replace_scheduled", ("nightly", "mail"), made=(JOB,))


def verb(name: str, *more: object, **options: object) -> Action:
    return Action(0, name, (JOB, HANDOFF, *more), options)


SHOWN = [
    ("CapPlusOne", "C4, C6", [TWO, Action(0, "claim", (5,))]),
    ("ReturnCostsAnAttempt", "M17", [MAIL, CLAIM, verb("return_to_queue")]),
    ("LeaseLeft", "L1, M16", [MAIL, CLAIM, verb("reschedule", delay_ms=1)]),
    ("WorkerLeft", "M16", [MAIL, CLAIM, verb("complete")]),
    ("SlotNotFreedByCompletion", "O1, C4", [TWO, CLAIM, verb("complete")]),
    ("KeyLostAtRetry", "K2", [NIGHTLY, CLAIM, verb("fail", "no")]),
    ("NeverRepeated", "M18", [MAIL, CLAIM, verb("complete"), verb("complete")]),
    ("PriorityIgnored", "O1", [LATE_BUT_URGENT, CLAIM]),
    ("RetryAtOnce", RULES_OF["fail"], [MAIL, CLAIM, verb("fail", "no")]),
]


@pytest.mark.parametrize(("name", "rules", "script"), SHOWN)
def test_a_fault_is_shown_under_its_own_rules(
    name: str, rules: str, script: list[Action]
) -> None:
    (fault,) = [each for each in CATALOGUE if each.name == name]
    setting = Setting(FaultySuite(fault.store).open_store, "n")
    found = play(setting, [Action(0, "open", (None,)), *script])
    assert found is not None
    assert found.rules == rules


def test_what_no_single_rule_is_about_is_shown_under_the_rules_of_the_call() -> None:
    assert rules_of("complete", "jobs[job 1].status") == RULES_OF["complete"]
    assert rules_of("claim", "jobs[job 3].schedule_order") == "K3"
    assert rules_of("claim", "scheduled_job('nightly',).current") == "K2"
    assert rules_of("claim", "[0].job.id") == "O1"
    assert rules_of("get", "job.id") == RULES_OF["get"]
    assert rules_of("enqueue", "the answer", "job 2", "job 1") == "E4-E6"
    assert rules_of("enqueue", "the answer", "KeyError", "job 1") == RULES_OF["enqueue"]


class OrderUsedTwice(Faulty):
    def replace_scheduled(self, *args: Any, **options: Any) -> Any:
        answer = super().replace_scheduled(*args, **options)
        self.edit(answer.job_id, schedule_order=1)
        return answer


def test_a_step_that_changes_nothing_goes_though_it_is_seen_only_after_another() -> (
    None
):
    """The state is looked at after the last of two calls, as one rule may make two."""
    no_op, claim = Action(1, "recover_expired"), Action(1, "claim", (1,))
    script = [Action(0, "open", (None,)), NIGHTLY, no_op, NIGHTLY, claim]
    setting = Setting(FaultySuite(OrderUsedTwice).open_store, "n")
    jobs = Difference("jobs[job 2].schedule_order", "2", "1")
    late = Divergence("M2, M13, O1", [], [jobs], script)
    short = shorten(setting, late)
    assert [call for call, _ in short.steps] == [
        "store1.open(None)",
        "store1.replace_scheduled('nightly', 'mail')",
        "store1.replace_scheduled('nightly', 'mail')",
    ]
    assert short.rules == "K3"
