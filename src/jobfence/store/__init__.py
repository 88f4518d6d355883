"""
Stores: the contract, the SQL store and the in-memory one.

Names are looked up when first used, so that importing the contract or the in-memory
store does not import SQLAlchemy.
"""
