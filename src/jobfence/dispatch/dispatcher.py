"""The worker's loop: acknowledge, claim, run, sleep (rules D3, D5, D6 and T5)."""

import math
import threading
import time

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobfence.dispatch.acks import Acknowledger, Pair, announce, backoff_s
from jobfence.dispatch.board import LONGEST_WAIT_S, Board
from jobfence.dispatch.events import EventHub, JobLeftRunning
from jobfence.dispatch.left import LEFT_RUNS
from jobfence.dispatch.runs import Run, State, StopReason
from jobfence.dispatch.settings import WorkerSettings
from jobfence.dispatch.timer import Timer
from jobfence.statemachine.values import Handoff, Job, Settlement
from jobfence.store.contract import JobStore

# How long a cancelled task or a killed process gets to end before it is left behind.
LAST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Drain:
    """A stop under way: when to stop waiting, and whether the process ends with it."""

    deadline: float
    process_exits: bool


class Dispatcher:
    """
    One thread's work. Nothing but the heartbeat and the ticks calls the store beside
    it, so that no connection is held while a job runs.

    The order of its calls replaces a common `now` (D3): before it sleeps, it asks which
    job falls due next and *then* claims. A job that falls due between the two is taken
    by the claim; the other way round it would be seen by neither.
    """

    def __init__(
        self,
        store: JobStore,
        settings: WorkerSettings,
        board: Board,
        hub: EventHub,
        *,
        timer: Timer,
        make_run: Callable[[Handoff, Callable[[Run], None]], Run],
        launch: Callable[[Run], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._settings = store, settings
        self._board, self._hub = board, hub
        self._timer, self._monotonic = timer, monotonic
        self._make_run, self._launch = make_run, launch
        self._acks = Acknowledger(store, board, hub, monotonic)
        self._draining = threading.Lock()
        self._drain: Drain | None = None
        self._look_at = 0.0
        self._claim_after = 0.0
        self._claim_failures = 0
        self._claim_in_doubt = False

    @property
    def healthy(self) -> bool:
        """Whether the last claim was answered."""
        return self._claim_failures == 0

    def run(self) -> None:
        """Work until a drain has ended."""
        while True:
            try:
                pause = self.step()
            except Exception as error:  # noqa: BLE001  the loop must outlive any error
                self._hub.error("dispatch", error)
                pause = backoff_s(1)
            if self._drained():
                break
            self._board.wait(pause)
        try:
            self._return_unknown()
        except Exception as error:  # noqa: BLE001  their leases run out instead
            self._hub.error("claim", error)
        self._board.close()

    def drain(self, grace_s: float, *, process_exits: bool) -> None:
        """Claim no more, and stop waiting after the grace; the shortest one counts."""
        deadline = self._monotonic() + grace_s
        with self._draining:
            before = self._drain
            if before is not None and not self._board.stuck:
                deadline = min(deadline, before.deadline)
                process_exits = process_exits or before.process_exits
            self._drain = Drain(deadline, process_exits)
        # Whatever is claimed from now on is given back before it begins.
        for run in self._board.held:
            run.context.mark_stopping()
        self._board.set_stuck(())
        self._board.poke()

    def step(self) -> float:
        """Do one round, and return for how many seconds there is nothing more."""
        drain = self._drain
        last_call = math.inf
        if drain is not None:
            self._end_runs(drain)
            last_call = drain.deadline
        finished = self._board.take_finished()
        if self._acks.retry_due(last_call) or finished:
            self._look_at = 0.0  # there may be work for what they freed
        pairs = self._acks.sift(finished)
        want = self._wanted(len(pairs))
        woken = want != 0 and self._board.take_woken()
        due = self._monotonic() >= self._look_at
        if pairs or (want > 0 and (woken or due)):
            self._settle(pairs, max(want, 0), woken=woken)
        elif woken:
            self._look_at = 0.0  # as soon as claims are tried again
        if drain is not None:
            self._note_stuck(drain)
        return self._pause()

    def _wanted(self, freed: int) -> int:
        """How many jobs to claim; -1 when none may be now, whatever is free."""
        if self._drain is not None or self._monotonic() < self._claim_after:
            return -1
        return self._board.free + freed

    def _settle(self, pairs: Sequence[Pair], want: int, *, woken: bool) -> None:
        """Acknowledge and claim in one call."""
        try:
            upcoming = None if pairs else self._next_scheduled()
            if want:
                self._return_unknown()
                self._claim_in_doubt = True
            acks, handoffs = self._store.settle(
                [settlement for _, settlement in pairs],
                claim=want,
                queues=self._settings.queues,
                worker_id=self._settings.worker_id,
                lease_ms=self._settings.lease_ms,
            )
        except Exception as error:  # noqa: BLE001  told, and tried again
            self._settle_failed(pairs, want, error)
            return
        if want:
            self._claim_in_doubt = False
            self._claim_failures = 0
        self._acks.stored(pairs, acks)
        self._take(handoffs)
        if want:
            again = bool(pairs or handoffs)
            self._look_again(upcoming, again=again, woken=woken)

    def _look_again(self, upcoming: Job | None, *, again: bool, woken: bool) -> None:
        """
        Say when to look next.

        Only a look of its own that found nothing may be the last before a sleep: after
        acknowledgements the next due job was not asked for, and with what it hands off
        the store may leave jobs of counters that others hold to the next claim (C4).
        """
        now = self._monotonic()
        if again:
            self._look_at = now
            return
        self._look_at = now + self._timer.arm(upcoming, woken=woken) / 1000
        self._board.set_quiet()

    def _settle_failed(
        self, pairs: Sequence[Pair], want: int, error: Exception
    ) -> None:
        self._hub.error("acknowledge" if pairs else "claim", error)
        if want:
            self._claim_failed()
        # At fault is one acknowledgement, or the claim, or all: each is tried alone.
        if self._acks.store_singly(pairs) and pairs:
            self._claim_after = 0.0
        self._look_at = 0.0

    def _claim_failed(self) -> None:
        self._claim_failures += 1
        self._claim_after = self._monotonic() + backoff_s(self._claim_failures)

    def _return_unknown(self) -> None:
        """
        Give back what a claim took whose answer was lost (case A157).

        The store may have committed it: those handoffs carry this worker's id, and
        nobody here knows them. Runs that were left are known (D6): they go on.
        """
        if not self._claim_in_doubt:
            return
        left = LEFT_RUNS.ids  # before the question: one may end and be stored meanwhile
        held = self._store.handoffs_for_worker(self._settings.worker_id)
        unknown = [
            each
            for each in held
            if each.handoff_id not in left and not self._board.holds(each.handoff_id)
        ]
        if unknown:
            returns = [Settlement.return_to_queue(each) for each in unknown]
            acks, _ = self._store.settle(returns)
            for handoff, settlement, ack in zip(unknown, returns, acks, strict=True):
                announce(self._hub, handoff, settlement, ack)
        self._claim_in_doubt = False

    def _next_scheduled(self) -> Job | None:
        return self._store.next_scheduled(queues=self._settings.queues)

    def _take(self, handoffs: Sequence[Handoff]) -> None:
        """Give each claimed job its slot, and start it unless a stop came meanwhile."""
        for handoff in handoffs:
            run = self._make_run(handoff, self._done)
            self._board.add(run)
            if self._drain is not None:
                run.withdraw()
                continue
            try:
                self._launch(run)
            except Exception as error:  # noqa: BLE001  no thread could be started, ...
                self._hub.error("launch", error)
                self._claim_failed()
                run.withdraw()

    def _done(self, run: Run) -> None:
        if run.state is State.LEFT:
            try:
                self._acks.late(run)
            finally:
                LEFT_RUNS.discard(run.handoff.handoff_id)
        else:
            self._board.finished(run)

    def _end_runs(self, drain: Drain) -> None:
        """Rule D6: give back what has not begun; after the grace, what can be ended."""
        self._board.take_woken()
        for run in self._board.held:
            run.withdraw()
        late_s = self._monotonic() - drain.deadline
        if late_s < 0:
            return
        for run in self._board.running():
            run.stop(StopReason.SHUTDOWN)
            if run.stopper is None or late_s >= LAST_WAIT_S:
                self._stop_waiting_for(run, drain)

    def _stop_waiting_for(self, run: Run, drain: Drain) -> None:
        """Leave a thread, or give its job back if the process ends with it."""
        if drain.process_exits:
            run.give_back()
            return
        LEFT_RUNS.add(run.handoff.handoff_id)  # before it is left: it may end at once
        if not run.leave():
            LEFT_RUNS.discard(run.handoff.handoff_id)
            return
        try:
            self._hub.emit(
                JobLeftRunning(worker_id=self._hub.worker_id, handoff=run.handoff)
            )
        finally:
            self._board.release(run)

    def _note_stuck(self, drain: Drain) -> None:
        failed = self._acks.failed_since(drain.deadline)
        same = drain is self._drain
        if same and failed and len(failed) == len(self._board.held):
            self._board.set_stuck(failed)

    def _drained(self) -> bool:
        return self._drain is not None and not self._board.held

    def _pause(self) -> float:
        now = self._monotonic()
        moments = [now + LONGEST_WAIT_S]
        kept = self._acks.due_at()
        if kept is not None:
            moments.append(kept)
        if self._drain is None:
            if self._board.free > 0:
                moments.append(max(self._look_at, self._claim_after))
        else:
            deadline = self._drain.deadline
            moments += [at for at in (deadline, deadline + LAST_WAIT_S) if at > now]
        return max(min(moments) - now, 0.0)
