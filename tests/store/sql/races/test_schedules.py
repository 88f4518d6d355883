"""Schedule keys when a claim, an end or another replacement comes at once (K1, K2)."""

from collections import Counter
from functools import partial

import pytest

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import CancelOutcome, Handoff, WakeOutcome
from tests.store.sql.races.crew import Running, in_rounds, together
from tests.store.sql.races.place import Place
from tests.store.sql.races.watch import interrupting

ROUNDS = 20
servers = pytest.mark.on("postgresql", "mariadb")
ends = pytest.mark.parametrize("end", ["commit", "rollback"])


def owner_of(place: Place, key: str) -> str | None:
    owners = {
        row["schedule_key"]: row["job_id"]
        for row in place.rows(place.tables.schedule_keys)
    }
    owner: str | None = owners[key]
    return owner


@servers
@ends
def test_K1_a_replacement_waits_for_a_claim_and_reports_it_truthfully(
    place: Place, end: str
) -> None:
    store = place.store()
    old = store.replace_scheduled("s", "old").job_id
    with place.looking.connect() as connection:
        (claimed,) = store.within(connection).claim(1)
        assert claimed.job.id == old
        replacing = Running(partial(store.replace_scheduled, "s", "new"))
        place.until_waiting(replacing)
        getattr(connection, end)()
    made = replacing.result()
    assert made.previous_job_id == old
    if end == "commit":
        assert made.previous_status is JobStatus.HANDED_OFF
        assert store.complete(old, claimed.handoff_id).accepted
    else:
        assert made.previous_status is JobStatus.QUEUED
        assert place.jobs()[old]["status"] == JobStatus.CANCELLED
    assert owner_of(place, "s") == made.job_id
    assert place.count(JobStatus.QUEUED) == 1


@servers
@ends
def test_K1_a_cancellation_waits_for_a_claim_and_reports_it_truthfully(
    place: Place, end: str
) -> None:
    store = place.store()
    old = store.replace_scheduled("s", "old").job_id
    with place.looking.connect() as connection:
        store.within(connection).claim(1)
        cancelling = Running(partial(store.cancel_scheduled, "s"))
        place.until_waiting(cancelling)
        getattr(connection, end)()
    outcome = cancelling.result().outcome
    row = place.jobs()[old]
    assert owner_of(place, "s") is None
    if end == "commit":
        assert outcome is CancelOutcome.HANDED_OFF
        assert (row["status"], row["cancel_requested"]) == ("handed_off", True)
    else:
        assert outcome is CancelOutcome.CANCELLED
        assert row["status"] == "cancelled"


@servers
@ends
def test_K1_a_wake_waits_for_a_cancellation_of_the_owner(
    place: Place, end: str
) -> None:
    store = place.store()
    far = 2**41
    old = store.replace_scheduled("s", "old", scheduled_at=far).job_id
    with place.looking.connect() as connection:
        store.within(connection).cancel(old)
        waking = Running(partial(store.wake_scheduled, "s"))
        place.until_waiting(waking)
        getattr(connection, end)()
    outcome = waking.result().outcome
    assert outcome is (WakeOutcome.NOT_FOUND if end == "commit" else WakeOutcome.WOKEN)
    woken = place.jobs()[old]["scheduled_at_ms"] < far
    assert woken == (end == "rollback")


@servers
@ends
def test_K2_a_replacement_waits_for_its_owners_end(place: Place, end: str) -> None:
    """The end takes the ownership away before, and never from the successor."""
    store = place.store()
    old = store.replace_scheduled("s", "old").job_id
    (held,) = store.claim(1)
    with place.looking.connect() as connection:
        assert store.within(connection).complete(old, held.handoff_id).accepted
        replacing = Running(partial(store.replace_scheduled, "s", "new"))
        place.until_waiting(replacing)
        getattr(connection, end)()
    made = replacing.result()
    if end == "commit":
        assert (made.previous_job_id, made.previous_status) == (None, None)
    else:
        assert made.previous_job_id == old
        assert made.previous_status is JobStatus.HANDED_OFF
        assert store.complete(old, held.handoff_id).accepted
    assert owner_of(place, "s") == made.job_id


def test_F41_a_replacement_and_a_claim_at_once_leave_one_queued_job(
    place: Place,
) -> None:
    """Case F41: the old one runs and the new one waits, or the new one is alone."""
    store, other = place.store(), place.store()
    claimed: list[Handoff] = []
    won: Counter[JobStatus | None] = Counter()
    made = [store.replace_scheduled("s", "job")]

    def replace(_: int) -> None:
        made.append(store.replace_scheduled("s", "job"))

    def claim(_: int) -> None:
        claimed[:] = other.claim(1)

    def after(_: int) -> None:
        old, new = made[-2:]
        won[new.previous_status] += 1
        ran = {each.job.id for each in claimed}
        queued = [
            row["id"] for row in place.jobs().values() if row["status"] == "queued"
        ]
        if new.previous_status is JobStatus.HANDED_OFF:
            assert ran == {old.job_id}
            assert queued == [new.job_id]
        elif ran:
            assert ran == {new.job_id}
            assert queued == []
        else:
            assert queued == [new.job_id]
        for each in claimed:
            assert store.complete(each.job.id, each.handoff_id).accepted

    in_rounds(ROUNDS, replace, claim, after=after)
    assert won.total() == ROUNDS


def test_A124_two_stores_replace_one_key_at_once(place: Place) -> None:
    """Case A124: one of the two is cancelled by the other, and the orders follow."""
    store, other = place.store(), place.store()
    for number in range(ROUNDS):
        key = f"s{number}"
        first, second = together(
            partial(store.replace_scheduled, key, "one"),
            partial(other.replace_scheduled, key, "other"),
        )
        early, late = sorted(
            (first, second), key=lambda made: bool(made.previous_job_id)
        )
        assert early.previous_job_id is None
        assert late.previous_job_id == early.job_id
        assert late.previous_status is JobStatus.QUEUED
        jobs = place.jobs()
        assert jobs[early.job_id]["status"] == JobStatus.CANCELLED
        assert [jobs[each.job_id]["schedule_order"] for each in (early, late)] == [1, 2]
        assert other.cancel_scheduled(key).job_id == late.job_id


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("latest", [False, True])
def test_a_key_that_is_replaced_while_it_is_looked_up_never_seems_without_owner(
    place: Place, *, latest: bool, nth: int
) -> None:
    """The owner and the last one that ended are of one moment, before or after."""
    store, other = place.store(), place.store()
    old = store.replace_scheduled("s", "old").job_id
    with interrupting(
        store.engine,
        place.tables.jobs,
        lambda: other.replace_scheduled("s", "new"),
        nth=nth,
    ):
        found = store.scheduled_job("s", include_latest_terminal=latest)
    assert found.current is not None
    assert found.current.name in ("old", "new")
    replaced = latest and found.current.name == "new"
    ended = None if found.latest_terminal is None else found.latest_terminal.id
    assert ended == (old if replaced else None)
