"""DELETE, UPDATE and MERGE: each works out a delta, which `write/` materialises and `commit/` publishes."""
