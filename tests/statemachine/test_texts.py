"""The error texts that the library writes by itself."""

from jobfence.statemachine import texts


def test_each_text_names_what_it_is_about() -> None:
    assert (
        texts.interrupted("w1") == "interrupted: worker w1 did not finish this handoff"
    )
    assert texts.handoffs_spent(3) == "given up after max_handoffs=3 handoffs"
    assert texts.unreadable("args", "is not JSON") == (
        "unreadable: column args is not JSON"
    )
