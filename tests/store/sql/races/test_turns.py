"""Writers of one SQLite file take turns (decision 0014)."""

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from sqlalchemy import create_engine

from jobfence.statemachine.errors import RetryableError
from jobfence.statemachine.options import JobRequest
from jobfence.store.dialects import turns
from jobfence.store.dialects.turns import Asking, Turn, turn_for
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races import tasks
from tests.store.sql.races.conftest import Note
from tests.store.sql.races.crew import Running, in_one_that_dies, in_processes, together
from tests.store.sql.races.place import Place
from tests.store.sql.races.watch import wait_until

# Other processes write, with stores of their own.
pytestmark = pytest.mark.unnoted


class FakeTime:
    """A monotonic clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr(turns, "time", fake)
    return fake


@pytest.fixture
def turn(tmp_path: Path) -> Turn:
    return turn_for(str(tmp_path / "jobs.db"))


def has_it(turn: Turn) -> Asking:
    asking = turn.ask()
    assert asking.over()
    return asking


def test_one_at_a_time_has_the_turn(turn: Turn, clock: FakeTime) -> None:
    first, second = has_it(turn), turn.ask()
    assert not second.over()
    first.end()
    assert second.over()
    assert not turn.ask().over()
    second.end()
    has_it(turn).end()


def test_all_stores_of_a_process_share_the_turn_of_a_file(tmp_path: Path) -> None:
    linked = tmp_path / "linked.db"
    linked.symlink_to(tmp_path / "jobs.db")
    one = turn_for(str(tmp_path / "jobs.db"))
    assert turn_for(str(linked)) is one
    assert turn_for(str(tmp_path / "other.db")) is not one


def test_behind_somebody_urgent_all_others_stand_back(
    turn: Turn, clock: FakeTime
) -> None:
    writer, patient = has_it(turn), turn.ask()
    assert not patient.over()
    clock.now += turns.URGENT_AFTER_S + 0.001
    assert not patient.over()
    newcomer = turn.ask()
    writer.end()
    assert not newcomer.over()
    assert patient.over()
    patient.end()
    assert newcomer.over()
    newcomer.end()


def test_one_is_urgent_at_a_time_and_the_next_follows(
    turn: Turn, clock: FakeTime
) -> None:
    writer, first, second = has_it(turn), turn.ask(), turn.ask()
    clock.now += turns.URGENT_AFTER_S + 0.001
    assert not first.over()
    assert not second.over()
    writer.end()
    assert not second.over()
    assert first.over()
    assert not second.over()
    first.end()
    assert second.over()
    second.end()


def test_patience_ends_and_leaves_the_turn_to_its_owner(
    turn: Turn, clock: FakeTime
) -> None:
    writer, impatient = has_it(turn), turn.ask()
    clock.now += turns.PATIENCE_S + 0.001
    assert impatient.over()
    impatient.end()
    assert not turn.ask().over()
    writer.end()
    has_it(turn).end()


def test_a_turn_asked_for_in_vain_leaves_nothing_behind(
    turn: Turn, clock: FakeTime
) -> None:
    """As when the waiting thread is interrupted."""
    writer, waiting = has_it(turn), turn.ask()
    clock.now += turns.URGENT_AFTER_S + 0.001
    assert not waiting.over()
    waiting.end()
    writer.end()
    has_it(turn).end()


def test_the_turn_of_another_process_ends_with_it(turn: Turn, tmp_path: Path) -> None:
    """Also when it is killed, and the file stays."""
    database = str(tmp_path / "jobs.db")
    holder = Running(partial(in_one_that_dies, tasks.die_in_turn, database))
    wait_until((tmp_path / "jobs.db-held").exists, "the turn to be held")
    asking = turn.ask()
    assert not asking.over()
    (tmp_path / "jobs.db-die").touch()
    assert holder.result() is None
    assert asking.over()
    asking.end()


def test_a_forked_child_neither_has_nor_frees_its_parents_turn(tmp_path: Path) -> None:
    task = (tasks.fork_in_turn, (str(tmp_path / "jobs.db"),))
    (seen,) = in_processes([task])
    assert seen == {
        "in the child while the parent has it": False,
        "in the child afterwards": True,
        "in the parent while the child has it": False,
    }


def test_without_its_file_threads_take_turns_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "jobs.db-turn").mkdir()
    turn = turn_for(str(tmp_path / "jobs.db"))
    assert turn.file is None
    first = has_it(turn)
    assert not turn.ask().over()
    first.end()
    with closing(SqlJobStore(f"sqlite:///{tmp_path / 'jobs.db'}")) as store:
        assert store.claim_job(store.enqueue("job")) is not None


def test_a_store_that_only_reads_makes_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(SqlJobStore(url)) as store:
        job_id = store.enqueue("job")
    (tmp_path / "jobs.db-turn").unlink()
    with closing(SqlJobStore(url)) as store:
        assert store.get(job_id) is not None
        assert store.next_available() is not None
    assert not (tmp_path / "jobs.db-turn").exists()


def test_a_callers_transaction_takes_no_turn_and_waits_for_none(
    tmp_path: Path,
) -> None:
    with closing(SqlJobStore(f"sqlite:///{tmp_path / 'jobs.db'}")) as store:
        store.ensure_ready()
        holder = has_it(turn_for(str(tmp_path / "jobs.db")))
        with store.engine.begin() as connection:
            job_id = Running(lambda: store.within(connection).enqueue("job")).result()
        holder.end()
        assert store.get(job_id) is not None


def test_a_write_of_the_stores_own_inside_a_callers_transaction_is_refused(
    tmp_path: Path,
) -> None:
    """It can only wait for its own thread; it does not wait for ever, nor do others."""
    engine = create_engine(
        f"sqlite:///{tmp_path / 'jobs.db'}", connect_args={"timeout": 0.01}
    )
    store = SqlJobStore(engine)
    store.ensure_ready()
    with engine.begin() as connection:
        inside = store.within(connection).enqueue("inside")
        with pytest.raises(RetryableError):
            store.enqueue("outside")
        assert store.get(inside) is None
    assert [job.id for job in store.list_jobs()] == [inside]
    has_it(turn_for(str(tmp_path / "jobs.db"))).end()
    engine.dispose()


@pytest.mark.on("sqlite")
def test_no_writer_of_eight_processes_is_left_out(place: Place, note: Note) -> None:
    """Without turns one writes a hundred times while another writes once."""
    place.store().enqueue_many([JobRequest("job", [n]) for n in range(3000)])
    task = (tasks.write_for, (place.url, place.prefix, 2.0))
    waits = in_processes([task] * 8)
    written = [len(each) for each in waits]
    longest = max(max(each) for each in waits)
    note(writes=sum(written), fewest=min(written), longest_ms=round(longest * 1000))
    assert min(written) * 10 > max(written)


@pytest.mark.on("sqlite")
def test_no_writer_of_eight_threads_is_left_out(place: Place, note: Note) -> None:
    store = place.store()
    store.enqueue_many([JobRequest("job", [n]) for n in range(3000)])
    waits = together(*[lambda: tasks.write_with(store, 2.0)] * 8)
    written = [len(each) for each in waits]
    note(writes=sum(written), fewest=min(written))
    assert min(written) * 10 > max(written)
    assert place.troubles.busy == 0


@pytest.mark.on("sqlite")
@pytest.mark.parametrize("seconds", [2, pytest.param(20, marks=pytest.mark.deep)])
def test_F65_a_process_that_claims_beside_one_that_enqueues_is_never_locked_out(
    place: Place, note: Note, seconds: int
) -> None:
    """Case F65, in WAL: no "database is locked", not even one that is got over."""
    arguments = (place.url, place.prefix, float(seconds))
    claims, enqueues = in_processes(
        [(tasks.claim_for, arguments), (tasks.enqueue_for, arguments)]
    )
    (claimed, claim_troubles), (enqueued, enqueue_troubles) = claims, enqueues
    note(claimed=claimed, enqueued=enqueued)
    assert claim_troubles == enqueue_troubles == {}
    assert claimed > 0
    assert len(place.jobs()) == enqueued
