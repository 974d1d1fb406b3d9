"""The record index: hashes of keys and the files they are in, kept below the table. It is derived from the table's files and can be lost without harm."""
