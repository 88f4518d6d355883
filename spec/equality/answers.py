"""
Acknowledgements: what each handoff hears when it says anything, and where that leads.

Every number is shown for every job. What is accepted is an edge of its own; all the
refusals that one handoff hears are one edge, whose name says them (`names.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from equality.calls import Caller, Move, action, by_job, refused
from equality.names import name_of
from equality.world import LATER, World, handoff_id
from jobfence.statemachine import texts
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Ack, AckResult
from jobfence.store.memory import MemoryJobStore


def acknowledge(caller: Caller, world: World) -> Iterator[Move]:
    """Rules M3 to M7, M12, M15, M18."""
    for job in caller.bounds.ids:
        for number in range(caller.bounds.bound + 1):
            heard: dict[Trigger, set[AckResult]] = {}
            for trigger, ask in _words(caller, job, handoff_id(job, number)):
                answer, then = caller.call(world, ask)
                heard.setdefault(trigger, set()).add(answer.result)
                if answer.result is AckResult.ACCEPTED:
                    yield _accepted(
                        caller, world, then, trigger=trigger, job=job, number=number
                    )
                else:
                    yield from refused(f"Ack_{trigger.value}", world, then)
            name = name_of(job, number, heard)
            if name is not None:
                yield name, world


def _accepted(
    caller: Caller,
    world: World,
    then: World,
    *,
    trigger: Trigger,
    job: int,
    number: int,
) -> Move:
    row, after = world.job(job), then.job(job)
    assert row is not None
    assert after is not None
    spent = texts.handoffs_spent(caller.bounds.max_handoffs)
    writers = by_job(world.writers, job, number)
    return action(row, after, trigger, spent), replace(then, writers=writers)


def _words(
    caller: Caller, job: int, held: str
) -> Iterator[tuple[Trigger, Callable[[MemoryJobStore], Ack]]]:
    """Yield the words of a holder; what a slice leaves out may still be refused."""
    name, on, any_answer = str(job), caller.bounds.on, caller.bounds.on("answers")
    yield Trigger.COMPLETE, lambda store: store.complete(name, held)
    if any_answer or on("fail"):
        yield Trigger.FAIL, lambda store: store.fail(name, held, "failed")
    if any_answer or on("return_to_queue"):
        yield Trigger.RETURN_TO_QUEUE, lambda store: store.return_to_queue(name, held)
    if on("lease"):
        yield Trigger.EXTEND_LEASE, lambda store: store.extend_lease(name, held)
    if any_answer or on("reschedule"):
        for delay_ms in (0, LATER) if on("time") else (0,):
            yield (
                Trigger.RESCHEDULE,
                partial(_reschedule, name, held, delay_ms),
            )


def _reschedule(job: str, held: str, delay_ms: int, store: MemoryJobStore) -> Ack:
    return store.reschedule(job, held, delay_ms=delay_ms)
