"""Rules of the state machine: caps, schedule keys, operations, time, reads."""

from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, precondition, rule

from jobfence.conformance.capabilities import Capability
from jobfence.conformance.stateful import drawing as draw
from jobfence.conformance.stateful.base import JOBS, when
from jobfence.conformance.stateful.handing import Handing, Options
from jobfence.conformance.stateful.twins import Ref
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus


class Keeping(Handing):
    """What an operator, a scheduler and the clock do."""

    # Caps

    @rule(
        who=draw.INSTANCES,
        key=st.sampled_from(["k1", "k2", "queue:bulk"]),
        cap=st.integers(0, 3),
    )
    def set_concurrency(self, who: int, key: str, cap: int) -> None:
        self.both(who, "set_concurrency", key, cap)

    @rule(
        who=draw.INSTANCES,
        queues=draw.CONFIGURATIONS,
        release=st.booleans(),
        counters=st.booleans(),
    )
    def reconcile(
        self,
        who: int,
        queues: Mapping[str, QueuePolicy] | None,
        release: bool,
        counters: bool,
    ) -> None:
        if counters:
            self.both(who, "reconcile_active_concurrency")
        else:
            self.both(who, "reconcile_queue_policies", queues, release_others=release)

    # Schedule keys

    @precondition(when(Capability.SCHEDULE_KEYS))
    @rule(
        target=JOBS,
        who=draw.INSTANCES,
        key=draw.SCHEDULE_KEYS,
        name=draw.NAMES,
        args=draw.ARGS,
        options=draw.OWNED_OPTIONS,
    )
    def replace_scheduled(
        self,
        who: int,
        key: str,
        name: str,
        args: tuple[object, ...],
        options: Options,
    ) -> MultipleResults[Ref]:
        return self.new_jobs(
            self.both(
                who, "replace_scheduled", key, name, args, **self.spelled(options)
            )
        )

    @precondition(when(Capability.SCHEDULE_KEYS))
    @rule(who=draw.INSTANCES, key=draw.SCHEDULE_KEYS, wake=st.booleans())
    def touch_scheduled(self, who: int, key: str, wake: bool) -> None:
        self.both(who, "wake_scheduled" if wake else "cancel_scheduled", key)

    # Operations

    @precondition(when(Capability.PAUSE))
    @rule(who=draw.INSTANCES, queue=draw.QUEUES, pause=st.sampled_from([1, 0, 0]))
    def pause_or_resume(self, who: int, queue: str, pause: int) -> None:
        self.both(who, "pause_queue" if pause else "resume_queue", queue)

    @precondition(when(Capability.RETENTION))
    @rule(
        who=draw.INSTANCES,
        completed=draw.TTLS,
        failed=draw.TTLS,
        cancelled=draw.TTLS,
        batch_size=st.sampled_from([1, 2, 1000]),
    )
    def prune_terminal(
        self,
        who: int,
        completed: int | None,
        failed: int | None,
        cancelled: int | None,
        batch_size: int,
    ) -> None:
        self.both(
            who,
            "prune_terminal",
            completed_ttl_ms=completed,
            failed_ttl_ms=failed,
            cancelled_ttl_ms=cancelled,
            batch_size=batch_size,
        )

    # Time, and instances that come and go

    @rule(ms=draw.STEPS_MS)
    def let_time_pass(self, ms: int) -> None:
        """Also backwards, by a little: clocks are set."""
        self.let_pass(ms)

    @rule(who=draw.INSTANCES, queues=draw.CONFIGURATIONS)
    def crash_and_reopen(
        self, who: int, queues: Mapping[str, QueuePolicy] | None
    ) -> None:
        self.reopen(who, queues)

    # Reads with filters; without any they are compared after every step

    @rule(
        who=draw.INSTANCES,
        what=st.sampled_from(
            ["next_available", "next_scheduled", "handoffs_for_worker"]
        ),
        queues=draw.SUBSETS,
        modes=draw.MODES,
        worker=draw.WORKERS,
    )
    def look(
        self, who: int, what: str, queues: object, modes: object, worker: str
    ) -> None:
        if what == "handoffs_for_worker":
            self.both(who, what, worker)
        elif what == "next_scheduled":
            self.both(who, what, queues=queues)
        else:
            self.both(who, what, queues=queues, execution_modes=modes)

    @rule(
        who=draw.INSTANCES,
        status=st.sampled_from([None, None, *JobStatus]),
        queue=st.sampled_from([None, None, "default", "bulk"]),
        name=st.sampled_from([None, "mail"]),
        job=JOBS,
        after=st.booleans(),
        limit=st.sampled_from([1, 2, 100]),
    )
    def list_jobs(
        self,
        who: int,
        status: JobStatus | None,
        queue: str | None,
        name: str | None,
        job: Ref,
        after: bool,
        limit: int,
    ) -> None:
        self.both(
            who,
            "list_jobs",
            status=status,
            queue=queue,
            name=name,
            after=job if after else None,
            limit=limit,
        )
