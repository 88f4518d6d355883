"""Faults that are put in on purpose, to see whether the suite finds them."""


class Seeded:
    """
    A fault with a name; a test that has one as a parameter passes if it was found.

    A report of such a run says how many were found, and names those that survived.
    """

    __slots__ = ()

    name: str
