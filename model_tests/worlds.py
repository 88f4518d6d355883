"""`SqlJobStore` as the explorer wants it: one engine, a store for each client."""

from functools import partial

from sqlalchemy import Engine

from jobfence.conformance.bench import START_MS, Backdoor
from jobfence.conformance.sql.worlds import named_ids
from jobfence.statemachine.clock import ManualClock
from jobfence.store import SqlJobStore
from jobfence.store.contract import JobStore
from jobfence.store.sql.schema import schema_for
from model_tests.sql_suite import SqlBackdoor


class SqlWorld:
    def __init__(self, engine: Engine, namespace: str) -> None:
        self.engine, self._prefix = engine, f"{namespace}_"
        self._tables = schema_for(self._prefix, None)
        self.backdoor: Backdoor = SqlBackdoor(engine, self._tables)
        self.clock = ManualClock(START_MS)
        # Kept over the runs: opening a store looks at all its tables.
        self._stores: dict[int, JobStore] = {}
        self._ids = {client: named_ids(client) for client in range(-1, 4)}
        self.open(-1).ensure_ready()

    def fresh(self) -> None:
        self.clock.set(START_MS)
        self._ids = {client: named_ids(client) for client in range(-1, 4)}
        with self.engine.begin() as connection:
            for table in (
                "jobs",
                "concurrency",
                "schedule_keys",
                "idempotency",
                "queues",
            ):
                connection.execute(getattr(self._tables, table).delete())

    def open(self, client: int) -> JobStore:
        if client not in self._stores:
            self._stores[client] = SqlJobStore(
                self.engine,
                clock=self.clock,
                table_prefix=self._prefix,
                ids=partial(self._next_id, client),
                handoff_ids=partial(self._next_id, client),
            )
            self._stores[client].ensure_ready()
        return self._stores[client]

    def _next_id(self, client: int) -> str:
        return self._ids[client]()

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)

    def reopen(self) -> None:
        for store in self._stores.values():
            store.close()
        self._stores = {}
        for client in range(-1, 3):
            self.open(client)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()
        with self.engine.begin() as connection:
            self._tables.metadata.drop_all(connection)
