"""Every error says what was wrong, with which value, and what to do."""

import copy
import inspect
import pickle
import threading

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace

import pytest

from jobfence.statemachine import errors
from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    HandoffIdInUse,
    IdempotencyConflict,
    IncompatibleSchema,
    InvalidOption,
    JobfenceError,
    MissingDriver,
    RetryableError,
    StoreUnavailable,
    UnknownJobName,
    UnreadableJob,
    UnsupportedCapability,
)

# Made in each test: what was made when this module was imported says nothing of a change
# that is made later.
EVERY: list[tuple[Callable[[], JobfenceError], str, dict[str, object]]] = [
    (
        lambda: InvalidOption("max_retries", -1, "must be an integer from 0 to 5"),
        "max_retries must be an integer from 0 to 5, not -1",
        {
            "option": "max_retries",
            "value": -1,
            "rule": "must be an integer from 0 to 5",
        },
    ),
    (
        lambda: ConcurrencyConflict("account:1", 2, 3),
        (
            "concurrency key 'account:1' is registered with max_concurrency 2, not 3; give "
            "2, or change it for everyone with set_concurrency"
        ),
        {"concurrency_key": "account:1", "registered": 2, "given": 3},
    ),
    (
        lambda: IdempotencyConflict("key", "j1", ["priority", "args"]),
        (
            "idempotency key 'key' belongs to job j1, enqueued with another args, priority; "
            "use a new key for a new request"
        ),
        {"idempotency_key": "key", "job_id": "j1", "differing": ("args", "priority")},
    ),
    (
        lambda: HandoffIdInUse("h1"),
        "handoff id 'h1' was used before; choose a fresh one",
        {"handoff_id": "h1"},
    ),
    (
        lambda: UnknownJobName("mial", ["mail", "build"]),
        (
            "no job is registered as 'mial'; register it first, or use one of those "
            "registered: build, mail"
        ),
        {"name": "mial", "known": ("build", "mail")},
    ),
    (
        lambda: UnknownJobName("mail", []),
        (
            "no job is registered as 'mail'; register it first, or use one of those "
            "registered: none"
        ),
        {"name": "mail", "known": ()},
    ),
    (
        lambda: UnreadableJob("j1", "args", "is not JSON"),
        "job j1 cannot be read: column args is not JSON; mend or delete the row",
        {"job_id": "j1", "column": "args", "problem": "is not JSON"},
    ),
    (
        lambda: IncompatibleSchema("no column x; add it", table="jobs", columns=["x"]),
        "no column x; add it",
        {"table": "jobs", "columns": ("x",)},
    ),
    (lambda: RetryableError("deadlock; run it again"), "deadlock; run it again", {}),
    (
        lambda: StoreUnavailable("lost while committing", in_doubt=True),
        "lost while committing",
        {"in_doubt": True},
    ),
    (lambda: StoreUnavailable("down; start it"), "down; start it", {"in_doubt": False}),
    (
        lambda: MissingDriver("mariadb+pymysql://u@h/db", "PyMySQL", "mariadb"),
        (
            "mariadb+pymysql://u@h/db needs the driver PyMySQL, which is not installed; "
            "pip install 'jobfence[mariadb]'"
        ),
        {
            "url": "mariadb+pymysql://u@h/db",
            "driver": "PyMySQL",
            "extra": "mariadb",
            "msg": "mariadb+pymysql://u@h/db needs the driver PyMySQL, which is not "
            "installed; pip install 'jobfence[mariadb]'",
        },
    ),
    (
        lambda: UnsupportedCapability(
            "MemoryJobStore", "within", "it has no transactions"
        ),
        "MemoryJobStore does not support within: it has no transactions",
        {
            "store": "MemoryJobStore",
            "capability": "within",
            "reason": "it has no transactions",
        },
    ),
]

each_error = pytest.mark.parametrize(
    ("make", "message", "attributes"),
    EVERY,
    ids=[f"{type(make()).__name__}-{n}" for n, (make, *_) in enumerate(EVERY)],
)


def test_every_error_of_the_module_is_covered_here() -> None:
    defined = {
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, Exception)
    }
    assert defined == {JobfenceError, *(type(make()) for make, *_ in EVERY)}


@each_error
def test_an_error_says_what_which_value_and_what_to_do(
    make: Callable[[], JobfenceError], message: str, attributes: dict[str, object]
) -> None:
    error = make()
    assert isinstance(error, JobfenceError)
    assert str(error) == message
    assert {name: getattr(error, name) for name in attributes} == attributes


def pickled(error: JobfenceError) -> object:
    return pickle.loads(pickle.dumps(error))  # noqa: S301


@pytest.mark.parametrize("sent", [pickled, copy.copy, copy.deepcopy])
@each_error
def test_an_error_survives_pickling_and_copying_whole(
    make: Callable[[], JobfenceError],
    message: str,
    attributes: dict[str, object],
    sent: Callable[[JobfenceError], JobfenceError],
) -> None:
    error = make()
    error.add_note("seen in the import")
    found = sent(error)
    assert type(found) is type(error)
    assert found is not error
    assert str(found) == message
    assert found.args == error.args
    assert {name: getattr(found, name) for name in attributes} == attributes
    assert found.__notes__ == error.__notes__
    assert str(sent(found)) == message


class OutOfStock(JobfenceError):
    """An error of a package above ours, with a constructor of its own."""

    def __init__(self, *, part: str) -> None:
        super().__init__(f"no {part} left; order some")
        self.part = part


def test_an_error_made_elsewhere_survives_it_too() -> None:
    found = pickled(OutOfStock(part="bolt"))
    assert isinstance(found, OutOfStock)
    assert (str(found), found.part) == ("no bolt left; order some", "bolt")
    assert str(pickled(JobfenceError("plain"))) == "plain"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Surrogate:
    def __repr__(self) -> str:
        return "\ud800"


class LiarText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("no length")


class Liar:
    def __repr__(self) -> str:
        return LiarText("odd")


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), lambda: 1, (n for n in [1]), Unprintable()],
    ids=lambda v: type(v).__name__,
)
def test_a_value_that_cannot_be_sent_is_sent_as_it_is_shown(value: object) -> None:
    error = InvalidOption("args[0]", value, "must be a JSON value")
    found = pickled(error)
    assert isinstance(found, InvalidOption)
    assert str(found) == str(error)
    assert (found.option, found.rule) == (error.option, error.rule)
    assert error.value is value
    if not isinstance(value, Unprintable):
        assert found.value == repr(value)


def test_a_value_that_can_be_sent_is_sent_as_it_is() -> None:
    value = {"a": [1, (2, b"3")]}
    found = pickled(InvalidOption("args", value, "must be smaller"))
    assert isinstance(found, InvalidOption)
    assert found.value == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 10**6, "'" + "x" * 79 + "…"),
        (10**5000, "<int>"),
        (Unprintable(), "<Unprintable>"),
        (Surrogate(), r"\ud800"),
        (Liar(), "odd"),
        ("a\nb\0\ud800", r"'a\nb\x00\ud800'"),
        (SimpleNamespace(a=1), "namespace(a=1)"),
    ],
    ids=["long", "number", "unprintable", "surrogate", "liar", "controls", "object"],
)
def test_a_message_shows_any_value_shortly_and_in_text_every_log_takes(
    value: object, shown: str
) -> None:
    assert str(InvalidOption("o", value, "must fit")) == f"o must fit, not {shown}"
    assert errors.shown(value).encode()


def test_long_keys_and_names_do_not_make_long_messages() -> None:
    long = "k" * 10**6
    for error in (
        ConcurrencyConflict(long, 1, 2),
        IdempotencyConflict(long, "j", ["args"]),
        HandoffIdInUse(long),
        UnknownJobName(long, []),
    ):
        assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:s3cret@host/db", "postgresql://me:***@host/db"),
        (
            "postgresql+psycopg://me:p@ss:w@host:5/db",
            "postgresql+psycopg://me:***@host:5/db",
        ),
        ("mariadb://:s3cret@host/db", "mariadb://:***@host/db"),
        ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("postgresql://ann@srv:s3cret@host/db", "postgresql://ann@srv:***@host/db"),
        ("postgresql://me:s3 cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host/db?password=s3", "postgresql://me@host/db?password=***"),
    ],
)
def test_a_password_in_a_url_is_not_shown(url: str, shown: str) -> None:
    error = MissingDriver(url, "psycopg", "postgresql")
    assert str(error).startswith(f"{shown} needs the driver psycopg")
    assert error.url == shown


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (InvalidOption("o", 1, "r"), ValueError),
        (UnknownJobName("n", []), LookupError),
        (MissingDriver("u", "d", "e"), ImportError),
        (UnsupportedCapability("s", "c", "r"), NotImplementedError),
    ],
)
def test_an_error_is_also_the_builtin_one_that_callers_expect(
    error: JobfenceError, builtin: type[Exception]
) -> None:
    assert isinstance(error, builtin)


def refuse() -> None:
    raise InvalidOption("args[0]", iter([1]), "must be a JSON value")


def test_a_process_pool_brings_the_error_to_the_caller() -> None:
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(
            InvalidOption, match=r"^args\[0\] must be a JSON value, not <list_it"
        ),
    ):
        pool.submit(refuse).result(timeout=60)
