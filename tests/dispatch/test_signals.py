"""Rule D6: what rings a doorbell, and what a forked child is left with."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from jobfence.dispatch.signals import HANDLED, Doorbell
from tests.dispatch.support import PATIENCE_S


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in HANDLED]


def output(program: str) -> str:
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.stderr == ""
    return told.stdout


def test_a_ring_wakes_the_sleeper_and_is_no_signal() -> None:
    bell = Doorbell()
    bell.ring()
    bell.sleep()
    assert bell.signals == 0
    bell.close()
    bell.ring()  # nobody sleeps any more


def test_each_handled_signal_counts_once_and_wakes_the_sleeper() -> None:
    bell = Doorbell()
    called: list[int] = []
    with bell.rung_by_signals(lambda: called.append(bell.signals)):
        for count, number in enumerate(HANDLED, 1):
            os.kill(os.getpid(), number)
            bell.sleep()
            assert bell.signals == count
    assert called == [1, 2]
    bell.close()


def test_another_signal_only_wakes_the_sleeper() -> None:
    bell = Doorbell()
    old = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    try:
        with bell.rung_by_signals(lambda: None):
            os.kill(os.getpid(), signal.SIGUSR1)
            bell.sleep()
        assert bell.signals == 0
    finally:
        signal.signal(signal.SIGUSR1, old)
        bell.close()


def test_the_handlers_and_the_wakeup_of_before_are_put_back() -> None:
    before = handlers()
    bell, other = Doorbell(), Doorbell()
    with bell.rung_by_signals(lambda: None):
        outer = handlers()
        with other.rung_by_signals(lambda: None):
            assert handlers() != outer
        assert handlers() == outer
        os.kill(os.getpid(), signal.SIGTERM)
        bell.sleep()
    assert (bell.signals, other.signals) == (1, 0)
    assert handlers() == before
    bell.close()
    other.close()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@needs_fork
def test_a_signal_before_a_forked_child_lets_go_of_the_handlers_still_ends_it() -> None:
    # Registered before ours, so it runs in the child while that still has them.
    told = output(
        """
        import os, signal
        os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
        from jobfence.dispatch.signals import Doorbell
        bell = Doorbell()
        with bell.rung_by_signals(lambda: None):
            child = os.fork()
            if child == 0:
                os._exit(0)
            _, status = os.waitpid(child, 0)
            ended = os.waitstatus_to_exitcode(status)
            print(ended, bell.signals, signal.pthread_sigmask(signal.SIG_BLOCK, []))
        """
    )
    assert told == f"{-signal.SIGTERM} 0 set()\n"


@needs_fork
def test_a_forked_child_that_goes_on_has_what_was_there_before_and_no_wakeup() -> None:
    told = output(
        """
        import os, signal, socket
        from jobfence.dispatch.signals import Doorbell
        def outer(number, frame): ...
        signal.signal(signal.SIGTERM, outer)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _, application = socket.socketpair()
        application.setblocking(False)
        signal.set_wakeup_fd(application.fileno())
        bell = Doorbell()
        with bell.rung_by_signals(lambda: None):
            child = os.fork()
            if child == 0:
                assert signal.getsignal(signal.SIGTERM) is outer
                assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
                assert signal.set_wakeup_fd(-1) == -1
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its own from here on
            else:
                _, status = os.waitpid(child, 0)
                assert signal.getsignal(signal.SIGTERM) is not outer
        if child == 0:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            assert signal.set_wakeup_fd(-1) == -1
            os._exit(0)
        assert signal.getsignal(signal.SIGTERM) is outer
        assert signal.set_wakeup_fd(-1) == application.fileno()
        print(os.waitstatus_to_exitcode(status))
        """
    )
    assert told == "0\n"


@needs_fork
def test_a_fork_while_nobody_listens_changes_nothing() -> None:
    told = output(
        """
        import os, signal
        import jobfence.dispatch.signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        child = os.fork()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        if child == 0:
            os._exit(mask != {signal.SIGUSR1})
        _, status = os.waitpid(child, 0)
        print(mask == {signal.SIGUSR1}, os.waitstatus_to_exitcode(status))
        """
    )
    assert told == "True 0\n"
