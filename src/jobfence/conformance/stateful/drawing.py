"""What the stateful machine may draw: few values, so that they meet often."""

from random import Random

from hypothesis import strategies as st

from jobfence.statemachine.policy import QueuePolicy

START_MS = 1_000_000

INSTANCES = st.sampled_from([0, 1])
NAMES = st.sampled_from(["mail", "scan"])
QUEUES = st.sampled_from(["default", "bulk", "narrow"])
CONCURRENCY = st.sampled_from([None, ("k1", 1), ("k2", 2), ("k2", 2), ("k1", 3)])
KEYS = ("nightly", "hourly")
WORK_KEYS = st.sampled_from([None, None, ("k1", 1), ("k2", 2)])
SCHEDULE_KEYS = st.sampled_from(KEYS)
WORKERS = st.sampled_from(["w1", "w2"])
ARGS = st.sampled_from([(), (1,), ("a", {"b": [None, 2.5]})])
KWARGS = st.sampled_from([None, {"x": 1, "y": "é"}])
OFFSETS = st.sampled_from([-500, 0, 1, 1_000, 60_000])
LEASES = st.sampled_from([..., ..., None, 1, 5_000])
DELAYS = st.sampled_from([0, 1, 1_000, 60_000])
STEPS_MS = st.sampled_from([1, 999, 5_000, 10_000, 60_000, 3_600_000, -700])
SUBSETS = st.sampled_from([None] * 5 + [["default"], ["bulk", "narrow"], []])
MODES = st.sampled_from([None] * 5 + [["inline"], ["process"], []])
CLAIMS = st.fixed_dictionaries(
    {
        "queues": SUBSETS,
        "execution_modes": MODES,
        "worker_id": WORKERS,
        "lease_ms": LEASES,
    }
)
ERRORS = st.sampled_from(["boom", "nul \0 and \ud800", {"code": 7}, None, "é" * 40_000])
VERBS = st.sampled_from(["complete", "fail", "reschedule", "return_to_queue"])
POLICIES = st.sampled_from(
    [
        QueuePolicy(),
        QueuePolicy(max_concurrent=1),
        QueuePolicy(max_concurrent=2, priority=3),
        QueuePolicy(priority=-1),
    ]
)
CONFIGURATIONS = st.one_of(
    st.none(), st.dictionaries(st.sampled_from(["bulk", "narrow"]), POLICIES)
)
_BAD: list[tuple[str, object]] = [
    ("name", ""),
    ("name", "a\0b"),
    ("queue", "  "),
    ("priority", 2**31),
    ("max_retries", -1),
    ("max_retries", True),
    ("scheduled_at", -1),
    ("scheduled_at", 1.5),
    ("timeout_ms", 2**31),
    ("execution_mode", "elsewhere"),
    ("concurrency_key", "alone"),
    ("max_concurrency", 3),
    ("idempotency_key", ""),
    ("deduplicate_while_queued", 1),
]


Options = dict[str, object]
_OPTIONAL: dict[str, list[object]] = {
    "queue": ["default", "bulk", "narrow"],
    "priority": [-1, 0, 5],
    "max_retries": [0, 0, 1, 10],
    "offset": [-500, 0, 1, 1_000, 60_000],
    "concurrency": [("k1", 1), ("k2", 2), ("k2", 2), ("k1", 3)],
    "timeout_ms": [-5, 0, 5_000],
    "execution_mode": ["inline", "process"],
    "deduplicate_while_queued": [True],
    "idempotency_key": ["i1", "i2"],
}
_NOT_FOR_OWNERS = ("deduplicate_while_queued", "idempotency_key")


def _some_options(random: Random, *, owned: bool) -> Options:
    share = random.choice([0.0, 0.2, 0.4])
    return {
        name: random.choice(values)
        for name, values in _OPTIONAL.items()
        if random.random() < share and not (owned and name in _NOT_FOR_OWNERS)
    }


def _some_batch(random: Random) -> list[tuple[str, tuple[object, ...], Options]]:
    return [
        (
            random.choice(["mail", "scan"]),
            random.choice([(), (1,)]),
            _some_options(random, owned=False),
        )
        for _ in range(random.randint(0, 3))
    ]


# One number each: an example may draw so much and no more, and would end after a few
# steps if every option of every job were a choice of its own. Nothing is lost: what
# is shortened is the script of actions, not the choices.
_SEEDS = st.integers(0, 2**20)
OPTIONS = _SEEDS.map(lambda seed: _some_options(Random(seed), owned=False))
OWNED_OPTIONS = _SEEDS.map(lambda seed: _some_options(Random(seed), owned=True))
BATCHES = _SEEDS.map(lambda seed: _some_batch(Random(seed)))


def some_cap(random: Random) -> tuple[str, int]:
    """Return a key, a refused one now and then, and a cap, also a refused one."""
    return random.choice(["k1", "k2", "k2", "queue:bulk"]), random.randint(0, 3)


def some_queue(random: Random) -> str:
    """Return the name of a queue."""
    return random.choice(["default", "bulk", "narrow"])


def some_ages(random: Random) -> Options:
    """Return the options of a pruning."""
    ages = ("completed_ttl_ms", "failed_ttl_ms", "cancelled_ttl_ms")
    found: Options = {name: random.choice([None, 0, 0, 1_000, 60_000]) for name in ages}
    return {**found, "batch_size": random.choice([1, 2, 1000])}


def some_bad_option(random: Random) -> tuple[str, object]:
    """Return an option of enqueue with a value that must be refused."""
    return random.choice(_BAD)
