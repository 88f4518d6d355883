"""Rules of the state machine: enqueue, claim, acknowledge, settle, recover."""

from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, multiple, precondition, rule

from jobfence.conformance.capabilities import Capability
from jobfence.conformance.stateful import drawing as draw
from jobfence.conformance.stateful.base import HANDOFFS, JOBS, TwinMachine, when
from jobfence.conformance.stateful.twins import Acknowledge, Held, Ref, Request

Pair = tuple[Ref, Ref]
Options = dict[str, object]
UNKNOWN = "no-such-id"


class Handing(TwinMachine):
    """What a worker and those who give it work do."""

    def spelled(self, options: Options) -> Options:
        """Spell the machine's own words as options of the contract."""
        found = dict(options)
        if isinstance(offset := found.pop("offset", None), int):
            found["scheduled_at"] = self.pair.clock.now_ms() + offset
        pair = found.pop("concurrency", None)
        if isinstance(pair, tuple):
            found["concurrency_key"], found["max_concurrency"] = pair
        if not self.pair.has(Capability.IDEMPOTENCY):
            found.pop("idempotency_key", None)
        return found

    def taken(self, answer: object) -> MultipleResults[Pair]:
        """Return the handoffs in an answer of a claim."""
        found = answer if isinstance(answer, list) else [answer]
        return multiple(
            *[
                (each["job"]["id"], each["handoff_id"])
                for each in found
                if isinstance(each, dict) and each.get("is") == "Handoff"
            ]
        )

    # Enqueue

    @rule(
        target=JOBS,
        who=draw.INSTANCES,
        name=draw.NAMES,
        args=draw.ARGS,
        kwargs=draw.KWARGS,
        options=draw.OPTIONS,
    )
    def enqueue(
        self,
        who: int,
        name: str,
        args: tuple[object, ...],
        kwargs: object,
        options: Options,
    ) -> MultipleResults[Ref]:
        return self.new_jobs(
            self.both(who, "enqueue", name, args, kwargs, **self.spelled(options))
        )

    @rule(target=JOBS, who=draw.INSTANCES, batch=draw.BATCHES)
    def enqueue_many(
        self, who: int, batch: list[tuple[str, tuple[object, ...], Options]]
    ) -> MultipleResults[Ref]:
        requests = [
            Request(name, args, self.spelled(more)) for name, args, more in batch
        ]
        return self.new_jobs(self.both(who, "enqueue_many", requests))

    @rule(target=JOBS, who=draw.INSTANCES, number=st.integers(1, 3), key=draw.WORK_KEYS)
    def enqueue_work(
        self, who: int, number: int, key: tuple[str, int] | None
    ) -> MultipleResults[Ref]:
        """Jobs that are due now: without them there is little to hand off."""
        return self.new_jobs(self.both(who, "enqueue_many", self._work(number, key)))

    def _work(self, number: int, key: tuple[str, int] | None) -> list[Request]:
        more = self.spelled({"concurrency": key})
        more["max_retries"] = number - 1  # few, else no failure is the last one
        return [Request("mail", (each,), more) for each in range(number)]

    # Claim

    @rule(
        target=HANDOFFS,
        who=draw.INSTANCES,
        limit=st.integers(0, 4),
        options=draw.CLAIMS,
    )
    def claim(self, who: int, limit: int, options: Options) -> MultipleResults[Pair]:
        return self.taken(self.both(who, "claim", limit, **options))

    @rule(
        target=HANDOFFS,
        who=draw.INSTANCES,
        number=st.integers(1, 3),
        key=draw.WORK_KEYS,
    )
    def begin_work(
        self, who: int, number: int, key: tuple[str, int] | None
    ) -> MultipleResults[Pair]:
        """Enqueue and claim at once: what is held is what most rules are about."""
        self.both(who, "enqueue_many", self._work(number, key))
        return self.taken(self.both(1 - who, "claim", number))

    @rule(target=HANDOFFS, who=draw.INSTANCES, limit=st.integers(1, 5))
    def take(self, who: int, limit: int) -> MultipleResults[Pair]:
        """Claim without any filter."""
        return self.taken(self.both(who, "claim", limit))

    @rule(
        target=HANDOFFS,
        who=draw.INSTANCES,
        job=JOBS,
        handoff_id=st.sampled_from([None, None, "own-1", "own-2", "own-3"]),
        worker=draw.WORKERS,
        lease=draw.LEASES,
    )
    def claim_job(
        self, who: int, job: Ref, handoff_id: str | None, worker: str, lease: object
    ) -> MultipleResults[Pair]:
        answer = self.both(
            who,
            "claim_job",
            job,
            worker_id=worker,
            handoff_id=handoff_id,
            lease_ms=lease,
        )
        return self.taken(answer)

    @rule(who=draw.INSTANCES, job=JOBS, held=HANDOFFS, again=st.booleans())
    def claim_job_with_a_known_id(
        self, who: int, job: Ref, held: Pair, again: bool
    ) -> None:
        """The same job again, after an answer was lost; or another one."""
        self.both(who, "claim_job", held[0] if again else job, handoff_id=held[1])

    # Acknowledge

    def acknowledge(self, who: int, verb: str, job: object, handoff: object) -> None:
        given = {"reschedule": {"delay_ms": 1_000}}.get(verb, {})
        error = ("boom",) if verb == "fail" else ()
        self.both(who, verb, job, handoff, *error, **given)

    @rule(who=draw.INSTANCES, held=HANDOFFS)
    def complete(self, who: int, held: Pair) -> None:
        self.acknowledge(who, "complete", *held)

    @rule(who=draw.INSTANCES, held=HANDOFFS, error=draw.ERRORS)
    def fail(self, who: int, held: Pair, error: object) -> None:
        self.both(who, "fail", *held, error)

    @rule(who=draw.INSTANCES, held=HANDOFFS, delay_ms=draw.DELAYS)
    def reschedule(self, who: int, held: Pair, delay_ms: int) -> None:
        self.both(who, "reschedule", *held, delay_ms=delay_ms)

    @rule(who=draw.INSTANCES, held=HANDOFFS)
    def return_to_queue(self, who: int, held: Pair) -> None:
        self.acknowledge(who, "return_to_queue", *held)

    @rule(who=draw.INSTANCES, held=HANDOFFS, verb=draw.VERBS)
    def lose_the_answer(self, who: int, held: Pair, verb: str) -> None:
        """The change was made, the answer lost: the caller asks again elsewhere."""
        self.acknowledge(who, verb, *held)
        self.acknowledge(1 - who, verb, *held)

    @rule(target=HANDOFFS, who=draw.INSTANCES, verb=draw.VERBS, key=draw.WORK_KEYS)
    def come_too_late(
        self, who: int, verb: str, key: tuple[str, int] | None
    ) -> MultipleResults[Pair]:
        """The job runs elsewhere by now, and the first to have had it speaks up."""
        self.both(who, "enqueue_many", self._work(2, key))
        first = self.taken(self.both(who, "claim", 1))
        seen = list(first.values)
        for job, handoff in first.values:
            self.acknowledge(who, "return_to_queue", job, handoff)
            seen += self.taken(self.both(1 - who, "claim_job", job)).values
            self.acknowledge(who, verb, job, handoff)
        return multiple(*seen)

    @rule(
        who=draw.INSTANCES,
        other=HANDOFFS,
        held=HANDOFFS,
        verb=draw.VERBS,
        stray=st.sampled_from([None, None, "", UNKNOWN, "job"]),
    )
    def misdirect(
        self, who: int, other: Pair, held: Pair, verb: str, stray: str | None
    ) -> None:
        """A handoff id that is another job's, empty, or nobody's; or no such job."""
        if stray == "job":
            self.acknowledge(who, verb, UNKNOWN, held[1])
        else:
            handoff = held[1] if stray is None else stray
            self.acknowledge(who, verb, other[0], handoff)

    @rule(
        who=draw.INSTANCES,
        one=HANDOFFS,
        other=HANDOFFS,
        many=st.booleans(),
        lease_ms=st.sampled_from([None, 1, 90_000]),
    )
    def extend_leases(
        self, who: int, one: Pair, other: Pair, many: bool, lease_ms: int | None
    ) -> None:
        if many:
            both = [Held(one[1]), Held(other[1])]
            self.both(who, "extend_leases", both, lease_ms=lease_ms)
        else:
            self.both(who, "extend_lease", *one, lease_ms=lease_ms)

    @rule(
        target=HANDOFFS,
        who=draw.INSTANCES,
        one=HANDOFFS,
        two=HANDOFFS,
        three=HANDOFFS,
        verbs=st.lists(draw.VERBS, max_size=3),
        claim=st.integers(0, 3),
        options=draw.CLAIMS,
    )
    def settle(
        self,
        who: int,
        one: Pair,
        two: Pair,
        three: Pair,
        verbs: list[str],
        claim: int,
        options: Options,
    ) -> MultipleResults[Pair]:
        given: dict[str, tuple[object, ...]] = {"fail": ("boom",), "reschedule": (500,)}
        acks = [
            Acknowledge(verb, Held(handoff), given.get(verb, ()))
            for verb, (_, handoff) in zip(verbs, (one, two, three), strict=False)
        ]
        answer = self.both(who, "settle", acks, claim=claim, **options)
        return self.taken(answer[1] if isinstance(answer, list) else None)

    # Recover

    @rule(
        who=draw.INSTANCES,
        wait_ms=st.sampled_from([0, 0, 5_000, 90_000]),
        limit=st.sampled_from([1, 2, 100, None]),
    )
    def recover(self, who: int, wait_ms: int, limit: int | None) -> None:
        if wait_ms:
            self.let_pass(wait_ms)
        if limit is None:
            self.both(who, "recover_handed_off")
        else:
            self.both(who, "recover_expired", limit=limit)

    # Cancel and run again

    @rule(who=draw.INSTANCES, job=JOBS)
    def cancel(self, who: int, job: Ref) -> None:
        self.both(who, "cancel", job)

    @precondition(when(Capability.REQUEUE))
    @rule(target=JOBS, who=draw.INSTANCES, job=JOBS)
    def requeue(self, who: int, job: Ref) -> MultipleResults[Ref]:
        return self.new_jobs(self.both(who, "requeue", job))
