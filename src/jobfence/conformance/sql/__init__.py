"""
Layers (e) and (f), for stores on SQLAlchemy: interleavings of statements, and faults.

The only part of the suite that imports SQLAlchemy; nothing else imports it.
"""
