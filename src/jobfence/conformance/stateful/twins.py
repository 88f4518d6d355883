"""A store and the model side by side: one call goes to both, the answers must agree."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

from jobfence.conformance.picture import all_jobs
from jobfence.conformance.stateful.comparing import Word
from jobfence.statemachine.canonical import canonical
from jobfence.statemachine.errors import JobfenceError
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.values import Handoff, Settlement
from jobfence.store.contract import JobStore


@dataclass(frozen=True, slots=True)
class Ref:
    """A job or handoff by the order in which it appeared: ids differ per store."""

    kind: str
    number: int

    def __repr__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class Held:
    """Stands in a call for the Handoff value that each side keeps."""

    handoff: Ref

    def renamed(self, refs: Mapping[Ref, Ref]) -> "Held":
        """Return the same of another run."""
        return Held(refs[self.handoff])

    def __repr__(self) -> str:
        return repr(self.handoff)


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Stands in a call for a Settlement, which each side makes from its Handoff."""

    verb: str
    held: Held
    given: tuple[object, ...] = ()

    def renamed(self, refs: Mapping[Ref, Ref]) -> "Acknowledge":
        """Return the same of another run."""
        return replace(self, held=self.held.renamed(refs))

    def __repr__(self) -> str:
        told = ", ".join([repr(self.held), *map(repr, self.given)])
        return f"{self.verb}({told})"


@dataclass(frozen=True, slots=True)
class Request:
    """Stands in a call for a JobRequest."""

    name: str
    args: tuple[object, ...]
    options: Mapping[str, object]

    def __repr__(self) -> str:
        told = [repr(self.name), repr(self.args)]
        told += [f"{key}={value!r}" for key, value in self.options.items()]
        return f"JobRequest({', '.join(told)})"

    def real(self) -> JobRequest:
        """Make the request."""
        make: Callable[..., JobRequest] = JobRequest
        return make(self.name, self.args, **self.options)


Read = tuple[str, tuple[object, ...], dict[str, object]]


class Side:
    """One of the two: its instances, and its own names for jobs and handoffs."""

    def __init__(self) -> None:
        self.instances: dict[int, JobStore] = {}
        self.wakes: dict[int, int] = {}
        self.made: list[Ref] = []
        self._refs: dict[str, Ref] = {}
        self._ids: dict[Ref, str] = {}
        self._held: dict[Ref, Handoff] = {}

    def use(self, who: int, store: JobStore) -> None:
        """Put an instance in its place."""
        self.instances[who] = store
        self.wakes.setdefault(who, 0)

    def listen(self, who: int) -> None:
        """Count the wake-ups of an instance."""

        def woken() -> None:
            self.wakes[who] += 1

        self.instances[who].on_commit_wake(woken)

    def call(
        self,
        who: int,
        method: str,
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        """Call it with this side's ids, and return the answer with refs."""
        run: Callable[..., object] = getattr(self.instances[who], method)
        try:
            answer = run(
                *[self.real(each) for each in args],
                **{key: self.real(each) for key, each in kwargs.items()},
            )
        except JobfenceError as error:
            return self.plain(error)
        return self.plain(answer, as_id=_ANSWERS_AN_ID.get(method, False))

    def real(self, value: object) -> object:
        """Put this side's own ids and handoffs in."""
        if isinstance(value, Ref):
            return self._ids[value]
        if isinstance(value, Held):
            return self._held[value.handoff]
        if isinstance(value, Acknowledge):
            make = getattr(Settlement, value.verb)
            made: object = make(self._held[value.held.handoff], *value.given)
            return made
        if isinstance(value, Request):
            return value.real()
        if isinstance(value, list):
            return [self.real(each) for each in value]
        return value

    def ref(self, kind: str, real_id: str) -> Ref:
        """Return the ref of an id, a new one if it was never seen."""
        if real_id not in self._refs:
            number = sum(each.kind == kind for each in self.made) + 1
            found = Ref(kind, number)
            self.made.append(found)
            self._refs[real_id], self._ids[found] = found, real_id
        return self._refs[real_id]

    def plain(  # noqa: PLR0911  one per kind of value
        self, value: object, *, as_id: bool = False
    ) -> object:
        """Return the value with refs in the place of ids, ready to be compared."""
        if value is None or type(value) is int:
            return value
        if isinstance(value, bool):
            return Word(value)  # else True would equal 1
        if isinstance(value, str):
            return self.ref("job", value) if as_id else str(value)
        if isinstance(value, list | tuple):
            return [self.plain(each, as_id=as_id) for each in value]
        if isinstance(value, Mapping):
            return {str(key): self.plain(value[key]) for key in sorted(value)}
        if isinstance(value, JobfenceError):
            return self._error(value)
        if isinstance(value, Handoff):
            self._held[self.ref("handoff", value.handoff_id)] = value
        return self._fields(value) if is_dataclass(value) else value

    def _fields(self, value: object) -> dict[str, object]:
        found: dict[str, object] = {"is": type(value).__name__}
        for name in _names(type(value)):
            content = getattr(value, name)
            if content is None:
                found[name] = None
            elif name in _ID_KINDS:
                found[name] = self.ref(_ID_KINDS[name], content)
            elif name in _JSON_COLUMNS:
                found[name] = Word(canonical(content, name))  # 1, 1.0, True differ
            else:
                found[name] = self.plain(content)
        return found

    def _error(self, error: JobfenceError) -> dict[str, object]:
        found: dict[str, object] = {"raises": type(error).__name__}
        for name in _COMPARED_OF_ERRORS:
            if (content := getattr(error, name, None)) is not None:
                if name == "differing":
                    content = ", ".join(sorted(content))
                kind = _ERROR_IDS.get(name)
                is_id = kind is not None and isinstance(content, str)
                found[name] = self.ref(kind or "", content) if is_id else content
        return found

    def state(self, who: int, reads: Sequence[Read]) -> dict[str, object]:
        """Return every job, and the answers of these reads."""
        found: dict[str, object] = {"jobs": self.plain(all_jobs(self.instances[who]))}
        for method, args, kwargs in reads:
            found[f"{method}{args or ''}"] = self.call(who, method, args, kwargs)
        return found


_ANSWERS_AN_ID = {"enqueue": True, "enqueue_many": True, "requeue": True}
_COMPARED_OF_ERRORS = (
    "option",
    "concurrency_key",
    "registered",
    "given",
    "idempotency_key",
    "job_id",
    "differing",
    "handoff_id",
)
_ERROR_IDS = {"job_id": "job", "handoff_id": "handoff"}
_ID_KINDS = {
    "id": "job",
    "job_id": "job",
    "origin_id": "job",
    "previous_job_id": "job",
    "handoff_id": "handoff",
    "last_handoff_id": "handoff",
}
_JSON_COLUMNS = ("args", "kwargs")


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; asking the library is slow."""
    if kind not in _NAMES:
        _NAMES[kind] = tuple(each.name for each in fields(kind))
    return _NAMES[kind]


def refs_in(answer: object) -> list[Ref]:
    """Return the refs in an answer, in the order in which they stand there."""
    if isinstance(answer, Ref):
        return [answer]
    parts: Collection[object] = ()
    if isinstance(answer, list):
        parts = answer
    elif isinstance(answer, dict):
        parts = answer.values()
    return [ref for part in parts for ref in refs_in(part)]
