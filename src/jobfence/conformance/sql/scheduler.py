"""
Runs clients one statement at a time, in an order that is chosen.

Each client is a thread with connections of its own. It parks before every statement and
every COMMIT; the scheduler lets one go on and waits until it parks again, ends, or waits
for a lock of the database. Only one client runs at any time, so a run can be repeated.
"""

import threading
import time

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, event

from jobfence.conformance.sometimes import met
from jobfence.conformance.sql.waits import waits_for_lock

POLL_S = 0.002
PATIENCE_S = 10.0


class ClientDied(BaseException):
    """The client's process ends here: not an error that a store may handle."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Who could go on at a point of the run, who went on before, and who did now."""

    enabled: tuple[int, ...]
    before: int | None
    chosen: int
    dies: bool = False
    at: str = ""


@dataclass(slots=True)
class Client:
    """One thread: what it does, where it is, and how it ended."""

    number: int
    work: Callable[[], object]
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    state: str = "running"  # running, parked, waiting (for a lock) or done
    at: str = "begin"
    session: int | None = None  # the server's name for its connection
    dying: bool = False
    answer: object = None
    problem: BaseException | None = None


class Scheduler:
    """Bound to one engine; runs many schedules."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changed = threading.Condition()
        self._by_thread: dict[int, Client] = {}

    @contextmanager
    def attached(self) -> Iterator[Connection]:
        """Listen to the engine, and give a connection that watches for locks."""
        event.listen(self._engine, "before_cursor_execute", self._statement)
        event.listen(self._engine, "commit", self._commit)
        try:
            # By the engine's pool, but not in a transaction: it only looks.
            with self._engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            ) as monitor:
                yield monitor
        finally:
            event.remove(self._engine, "before_cursor_execute", self._statement)
            event.remove(self._engine, "commit", self._commit)

    def _statement(
        self, connection: Connection, _c: object, sql: str, *_: object
    ) -> None:
        self._park(connection, sql)

    def _commit(self, connection: Connection) -> None:
        self._park(connection, "COMMIT")

    def _park(self, connection: Connection, at: str) -> None:
        client = self._by_thread.get(threading.get_ident())
        if client is None or client.dying:
            return
        client.session = session_of(connection)
        with self._changed:
            client.state, client.at = "parked", at
            self._changed.notify_all()
        client.go.acquire()
        if client.dying:
            raise ClientDied

    def _body(self, client: Client) -> None:
        self._by_thread[threading.get_ident()] = client
        try:
            client.answer = client.work()
        except BaseException as problem:  # noqa: BLE001  it is the run's result
            client.problem = problem
        finally:
            del self._by_thread[threading.get_ident()]
            with self._changed:
                client.state = "done"
                self._changed.notify_all()

    def run(
        self,
        monitor: Connection,
        works: Sequence[Callable[[], object]],
        plan: Sequence[tuple[int, bool]],
    ) -> tuple[list[Client], list[Choice]]:
        """
        Run all clients to their ends: by the plan first, then without switching.

        A step of the plan is a client and whether it dies there.
        """
        clients = [Client(number, work) for number, work in enumerate(works)]
        threads = [
            threading.Thread(target=self._body, args=(client,)) for client in clients
        ]
        for client, thread in zip(clients, threads, strict=True):
            thread.start()
            self._settle(monitor, [client], clients)
        choices: list[Choice] = []
        try:
            self._play(monitor, clients, plan, choices)
        finally:
            # After a time-out they are still parked, with locks held.
            for client in clients:
                if client.state != "done":
                    client.dying = True
                    client.go.release()
            for thread in threads:
                thread.join()
        return clients, choices

    def _play(
        self,
        monitor: Connection,
        clients: Sequence[Client],
        plan: Sequence[tuple[int, bool]],
        choices: list[Choice],
    ) -> None:
        last: int | None = None
        while any(client.state != "done" for client in clients):
            enabled = tuple(c.number for c in clients if c.state == "parked")
            if not enabled:
                self._settle(
                    monitor, [c for c in clients if c.state != "done"], clients
                )
                continue
            planned = plan[len(choices)] if len(choices) < len(plan) else None
            chosen, dies = planned or (last if last in enabled else enabled[0], False)
            assert chosen is not None
            client = clients[chosen]
            choices.append(Choice(enabled, last, chosen, dies, client.at))
            client.dying, client.state, last = dies, "running", chosen
            client.go.release()
            self._settle(monitor, [client], clients)

    def _settle(
        self, monitor: Connection, moving: Sequence[Client], clients: Sequence[Client]
    ) -> None:
        """Wait until the clients that were let go have parked, ended or got stuck."""
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while any(client.state == "running" for client in moving) or (
                # All wait: the database ends it, by a victim or a lock let go.
                not any(c.state == "parked" for c in clients)
                and any(c.state == "waiting" for c in clients)
            ):
                self._changed.wait(POLL_S)
                for client in clients:
                    if client.state == "running" and self._is_blocked(monitor, client):
                        client.state = "waiting"
                        met("a client waited for a lock")
                if time.monotonic() > end:
                    raise TimeoutError([(c.number, c.state, c.at) for c in clients])

    def _is_blocked(self, monitor: Connection, client: Client) -> bool:
        if client.session is None:
            return False
        return waits_for_lock(monitor, client.session)


def session_of(connection: Connection) -> int:
    """Return the server's number for a connection."""
    raw = connection.connection.dbapi_connection
    info = getattr(raw, "info", None)
    if info is not None:
        return int(info.backend_pid)
    thread_id = getattr(raw, "thread_id")  # noqa: B009  PyMySQL's connection
    return int(thread_id())
