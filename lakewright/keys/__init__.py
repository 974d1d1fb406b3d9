"""Keyed tables: upsert and its kin. A batch is combined to one record for each key, and becomes a MERGE, so that a key has one live row."""
