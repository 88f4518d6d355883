"""Rule D1: unique, non-empty names; what a registry knows of a function."""

import functools

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from jobfence.dispatch import DuplicateJobName, Registry
from jobfence.statemachine.errors import InvalidOption, UnknownJobName


def send(to: str, *, subject: str = "") -> None: ...


async def fetch(url: str) -> None: ...


class AsyncObject:
    async def __call__(self) -> None: ...


def test_A14_a_name_resolves_to_its_function() -> None:
    registry = Registry()
    assert registry.job("send")(send) is send
    assert registry.resolve("send").function is send
    assert registry.resolve(send).name == "send"
    assert registry.names == ("send",)


def test_A16_a_second_function_of_one_name_is_refused_and_the_first_stays() -> None:
    registry = Registry()
    registry.job("send")(send)
    with pytest.raises(DuplicateJobName, match="'send' is already registered") as e:
        registry.job("send")(fetch)
    assert e.value.name == "send"
    assert registry.resolve("send").function is send
    with pytest.raises(UnknownJobName):
        registry.resolve(fetch)


def test_a_function_has_one_name_so_that_enqueuing_it_is_not_ambiguous() -> None:
    registry = Registry()
    registry.job("send")(send)
    with pytest.raises(DuplicateJobName, match="register each function once"):
        registry.job("send again")(send)
    assert registry.names == ("send",)


@pytest.mark.parametrize("name", ["", "x" * 256, None, 7, "a\0b"])
def test_a_bad_name_is_refused(name: object) -> None:
    registry = Registry()
    with pytest.raises(InvalidOption, match="name"):
        registry.job(name)  # type: ignore[arg-type]
    assert registry.names == ()


def steps() -> Iterator[int]:
    yield 1


async def asteps() -> AsyncIterator[int]:
    yield 1


class Steps:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    "function", [steps, asteps, Steps(), Steps().__call__, functools.partial(steps)]
)
def test_a_generator_function_is_refused_for_nobody_would_run_it(
    function: Callable[[], object],
) -> None:
    registry = Registry()
    with pytest.raises(InvalidOption, match="must be a function without `yield`"):
        registry.job("steps")(function)
    assert registry.names == ()


def test_a_name_nobody_registered_is_refused_with_those_that_were() -> None:
    registry = Registry()
    registry.job("send")(send)
    with pytest.raises(UnknownJobName, match="'sned'") as e:
        registry.resolve("sned")
    assert e.value.known == ("send",)
    with pytest.raises(UnknownJobName, match=r"test_registry\.fetch"):
        registry.resolve(fetch)
    with pytest.raises(UnknownJobName, match=r"partial"):
        registry.resolve(functools.partial(send))


def test_options_of_a_registered_job_are_checked_when_it_is_registered() -> None:
    registry = Registry()
    with pytest.raises(InvalidOption, match="max_retries"):
        registry.job("send", max_retries=-1)
    with pytest.raises(InvalidOption, match="must be paired"):
        registry.job("send", concurrency_key="k")
    with pytest.raises(TypeError, match=r"scheduled_at; there are .*, queue"):
        registry.job("send", scheduled_at=0)  # type: ignore[call-arg]
    assert registry.names == ()


@pytest.mark.parametrize("job", [[], 3, None])
def test_what_cannot_be_called_is_no_job(job: object) -> None:
    registry = Registry()
    with pytest.raises(InvalidOption, match="must be a function"):
        registry.job("n")(job)  # type: ignore[type-var]
    with pytest.raises(InvalidOption, match="must be a function"):
        registry.resolve(job)  # type: ignore[arg-type]


def test_a_function_that_cannot_be_looked_up_is_refused() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> None: ...

    with pytest.raises(InvalidOption, match="must be hashable"):
        Registry().job("n")(Unhashable())


def test_async_functions_are_told_from_others() -> None:
    registry = Registry()
    registry.job("send")(send)
    registry.job("fetch")(fetch)
    registry.job("object")(AsyncObject())
    registry.job("partial")(functools.partial(fetch, "u"))
    found = [registry.resolve(each).is_async for each in registry.names]
    assert dict(zip(registry.names, found, strict=True)) == {
        "fetch": True,
        "object": True,
        "partial": True,
        "send": False,
    }


def test_arguments_that_a_function_does_not_take_are_refused() -> None:
    registry = Registry()
    registry.job("send")(send)
    job = registry.resolve("send")
    job.check_arguments(("a",), {"subject": "s"})
    with pytest.raises(InvalidOption, match=r"must fit job 'send' .*subjekt"):
        job.check_arguments(("a",), {"subjekt": "s"})


def test_a_function_without_a_signature_takes_what_it_is_given() -> None:
    registry = Registry()
    registry.job("max")(max)
    job = registry.resolve("max")
    assert job.signature is None
    job.check_arguments((1, 2, 3), {})


def test_a_process_job_must_be_a_function_that_its_module_names() -> None:
    registry = Registry()

    def local() -> None: ...

    with pytest.raises(InvalidOption, match="execution_mode"):
        registry.job("local", execution_mode="process")(local)
    with pytest.raises(InvalidOption, match="execution_mode"):
        registry.job("bound", execution_mode="process")(AsyncObject().__call__)
    assert registry.names == ()
    registry.job("send", execution_mode="process")(send)
