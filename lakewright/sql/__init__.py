"""SQL on lake tables: statements Spark cannot route to us are read here and become the requests of the Python API."""
