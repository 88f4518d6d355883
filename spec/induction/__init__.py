"""Induction over the rows of the table, without bounds, by z3 (see spec/README.md)."""
