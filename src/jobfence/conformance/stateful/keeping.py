"""Rules of the state machine: schedule keys, caps, operations, time, reads."""

from collections.abc import Mapping
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, precondition, rule

from jobfence.conformance.capabilities import Capability
from jobfence.conformance.stateful import drawing as draw
from jobfence.conformance.stateful.base import HANDOFFS, JOBS, when
from jobfence.conformance.stateful.handing import Handing, Options, Pair
from jobfence.conformance.stateful.twins import Ref
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus


class Keeping(Handing):
    """What a scheduler, an operator and the clock do."""

    # Idempotency keys

    @precondition(when(Capability.IDEMPOTENCY))
    @rule(target=JOBS, who=draw.INSTANCES, args=draw.ARGS, kwargs=draw.KWARGS)
    def enqueue_once(
        self, who: int, args: tuple[object, ...], kwargs: object
    ) -> MultipleResults[Ref]:
        """One key for all: the same request again, and others that it refuses."""
        given = {"idempotency_key": "once"}
        return self.new_jobs(self.both(who, "enqueue", "mail", args, kwargs, **given))

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
    @rule(target=HANDOFFS, who=draw.INSTANCES, key=draw.SCHEDULE_KEYS)
    def begin_scheduled(self, who: int, key: str) -> MultipleResults[Pair]:
        """A new owner, and a claim that takes it if nothing is better."""
        self.both(who, "replace_scheduled", key, "mail", priority=5)
        return self.taken(self.both(1 - who, "claim", 1))

    @precondition(when(Capability.SCHEDULE_KEYS))
    @rule(who=draw.INSTANCES, key=draw.SCHEDULE_KEYS, wake=st.booleans())
    def touch_scheduled(self, who: int, key: str, wake: bool) -> None:
        self.both(who, "wake_scheduled" if wake else "cancel_scheduled", key)

    # What is done seldom is one rule, so that it is drawn seldom

    @rule(who=draw.INSTANCES, seed=st.integers(0, 2**20))
    def operate(self, who: int, seed: int) -> None:
        random = Random(seed)
        choices = ["set_concurrency", "refuse"]
        if self.pair.has(Capability.COUNTER_ROWS):
            choices.append("reconcile_active_concurrency")
        if self.pair.has(Capability.PAUSE):
            choices += ["pause_queue", "resume_queue", "resume_queue"]
        if self.pair.has(Capability.RETENTION):
            choices += ["prune_terminal", "prune_terminal"]
        method = random.choice(choices)
        if method == "set_concurrency":
            self.both(who, method, *draw.some_cap(random))
        elif method in ("pause_queue", "resume_queue"):
            self.both(who, method, draw.some_queue(random))
        elif method == "prune_terminal":
            self.both(who, method, **draw.some_ages(random))
        elif method == "refuse":
            option, value = draw.some_bad_option(random)
            self.both(who, "enqueue", **{"name": "mail", option: value})
        else:
            self.both(who, method)

    @rule(
        who=draw.INSTANCES,
        queues=draw.CONFIGURATIONS,
        release=st.booleans(),
        crash=st.booleans(),
    )
    def configure(
        self,
        who: int,
        queues: Mapping[str, QueuePolicy] | None,
        release: bool,
        crash: bool,
    ) -> None:
        """By a call, or by a process that ends and another that begins."""
        if crash:
            self.reopen(who, queues)
        else:
            self.both(who, "reconcile_queue_policies", queues, release_others=release)

    @rule(ms=draw.STEPS_MS)
    def let_time_pass(self, ms: int) -> None:
        """Also backwards, by a little: clocks are set."""
        self.let_pass(ms)

    # Reads with filters; without any they are compared after the steps

    @rule(who=draw.INSTANCES, job=JOBS, seed=st.integers(0, 2**20))
    def look(self, who: int, job: Ref, seed: int) -> None:
        random = Random(seed)
        method = random.choice(["next_available", "next_scheduled", "list_jobs"])
        filters: Options = {"queues": random.choice([None, ["default"], ["bulk"], []])}
        if method == "next_available":
            filters["execution_modes"] = random.choice([None, ["inline"], []])
        if method == "list_jobs":
            filters = {
                "status": random.choice([None, *JobStatus]),
                "queue": random.choice([None, "default", "bulk"]),
                "name": random.choice([None, "mail"]),
                "after": random.choice([None, job]),
                "limit": random.choice([1, 2, 100]),
            }
        self.both(who, method, **filters)
        self.both(who, "handoffs_for_worker", random.choice(["local", "w1", "w2"]))
