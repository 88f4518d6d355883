"""What may be asked for in a batch of acknowledgements (T5)."""

from dataclasses import replace

from jobfence.statemachine import checks
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Settlement

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
    if not isinstance(ack, Settlement):
        raise InvalidOption("acks", ack, "must be Settlement values")
    # By identity: a plain "complete" is equal to the trigger, but is none.
    if all(ack.trigger is not each for each in SETTLED):
        raise InvalidOption("acks", ack.trigger, f"must be of {', '.join(SETTLED)}")
    if ack.trigger is Trigger.RESCHEDULE:
        checks.delay_ms(ack.delay_ms)
    if ack.trigger is Trigger.FAIL:
        return replace(ack, error=error_text(ack.error))
    return ack
