"""
What must have happened at least once in a run for it to mean something.

A suite that never saw a stale acknowledgement has not tested that one is refused. Each
layer notes what it met; whoever runs them all asks what is missing.
"""

from collections import Counter

SEQUENCES = (
    "an acknowledgement accepted",
    "a stale acknowledgement refused",
    "an acknowledgement repeated",
    "a lease extended",
    "a job recovered",
    "a job aborted after it was asked to end",
    "a job given up after too many handoffs",
    "a job exhausted",
    "a cap refused inside a batch",
    "a handoff id refused",
    "a cap conflict refused",
    "an idempotency conflict refused",
    "a bad option refused",
    "a queued owner replaced",
    "a running owner replaced",
    "a running owner cancelled by key",
    "an owner woken",
    "old jobs pruned",
    "an instance lost and opened again",
    "the clock set back",
)
RACES = (
    "a client waited for a lock",
    "a client found nothing in a race",
    "a recovery raced an acknowledgement",
    "a replacement raced a claim",
    "a client died in the middle",
)

seen: Counter[str] = Counter()


def met(event: str) -> None:
    """Note that it happened."""
    seen[event] += 1


def missing(expected: tuple[str, ...] = SEQUENCES + RACES) -> list[str]:
    """Return what never happened."""
    return [event for event in expected if not seen[event]]


def note_call(method: str, answer: object) -> None:
    """Note what an answer of the stateful layer shows."""
    if isinstance(answer, list):
        for each in answer:
            note_call(method, each)
    if not isinstance(answer, dict):
        if method == "prune_terminal" and answer:
            met("old jobs pruned")
        return
    _note_error(answer.get("raises"))
    _note_ack(method, answer)
    outcome = answer.get("outcome"), method
    if outcome == ("woken", "wake_scheduled"):
        met("an owner woken")
    if outcome == ("handed_off", "cancel_scheduled"):
        met("a running owner cancelled by key")
    if answer.get("previous_status") == "queued":
        met("a queued owner replaced")
    if answer.get("previous_status") == "handed_off":
        met("a running owner replaced")
    if method.startswith("recover") and answer.get("is") == "Job":
        met("a job recovered")
        _note_end(answer)


def _note_error(name: object) -> None:
    told = {
        "HandoffIdInUse": "a handoff id refused",
        "ConcurrencyConflict": "a cap conflict refused",
        "IdempotencyConflict": "an idempotency conflict refused",
        "InvalidOption": "a bad option refused",
    }
    if name in told:
        met(told[str(name)])


def _note_ack(method: str, answer: dict[str, object]) -> None:
    if answer.get("is") != "Ack":
        return
    told = {
        "accepted": "an acknowledgement accepted",
        "stale": "a stale acknowledgement refused",
        "repeated": "an acknowledgement repeated",
    }
    met(told[str(answer["result"])])
    if method.startswith("extend") and answer["result"] == "accepted":
        met("a lease extended")
    if isinstance(job := answer.get("job"), dict):
        _note_end(job)


def _note_end(job: dict[str, object]) -> None:
    if job["status"] == "cancelled":
        met("a job aborted after it was asked to end")
    elif job["status"] == "failed":
        spent = "max_handoffs" in str(job["last_error"])
        met("a job given up after too many handoffs" if spent else "a job exhausted")
