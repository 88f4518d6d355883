"""What may be asked for in a batch of acknowledgements (T5)."""

from dataclasses import replace

from jobfence.statemachine import checks
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Handoff, Settlement

SETTLED = (
    Trigger.COMPLETE,
    Trigger.FAIL,
    Trigger.RESCHEDULE,
    Trigger.RETURN_TO_QUEUE,
)


def settled(ack: object) -> Settlement:
    """
    Return an acknowledgement as a store takes it, its error as it is recorded (B3).

    `InvalidOption` if it is none, of another trigger, or waits for no good time: a
    `Settlement` itself checks nothing, and a batch is refused before it is begun.
    """
    (given,) = checks.each_of("acks", [ack], Settlement)
    # By identity: a plain "complete" is equal to the trigger, but is none.
    if all(given.trigger is not each for each in SETTLED):
        raise InvalidOption("acks", given.trigger, f"must be of {', '.join(SETTLED)}")
    checks.storable("job_id", given.job_id)
    checks.storable("handoff_id", given.handoff_id)
    if given.trigger is Trigger.RESCHEDULE:
        checks.delay_ms(given.delay_ms)
    if given.trigger is Trigger.FAIL:
        return replace(given, error=error_text(given.error))
    return given


def settlements(acks: object) -> list[Settlement]:
    """Return a batch of them, as `settled` does each."""
    return [settled(each) for each in checks.each_of("acks", acks, Settlement)]


def extensions(handoffs: object) -> list[tuple[str, str]]:
    """Return the ids of the jobs and handoffs whose leases are to be renewed."""
    held = checks.each_of("handoffs", handoffs, Handoff)
    return [extension(each.job.id, each.handoff_id) for each in held]


def extension(job_id: object, handoff_id: object) -> tuple[str, str]:
    """Return the ids of one of them."""
    return checks.storable("job_id", job_id), checks.storable("handoff_id", handoff_id)
