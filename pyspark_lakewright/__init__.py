"""Spark looks for Data Sources in packages named `pyspark_*`: this one makes `format("lakewright")` known without registration."""

from lakewright.source import DefaultSource

__all__ = ["DefaultSource"]
