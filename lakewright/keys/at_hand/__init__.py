"""Small batches without Spark tasks: their records are brought to this process, their keys found in the key columns of the table's files, and what
becomes of them written here. Spark only computes the records."""
