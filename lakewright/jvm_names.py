"""Names of the JVM that PySpark asks for each time it makes a column, told once.

Py4J does not remember what a name stands for: for each `functions.col` the JVM searches Spark's 250 jars, package by package, and is
then asked whether the class has such a member. That took 7% of a MERGE, and a third of the time of a user's own `select`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT = ("org.apache.spark.sql.functions", "org.apache.spark.api.python.PythonUtils", "org.apache.spark.api.python.SimplePythonFunction", "org.apache.spark.sql.api.python.PythonSQLUtils")
FULL = ("org.apache.spark.sql.functions", "org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.execution.python.UserDefinedPythonFunction")
NAMES = {**{name.rpartition(".")[2]: name for name in SHORT}, **{name: name for name in FULL}}


def remember_names(spark: SparkSession) -> None:
    """For all sessions on the JVM of this one; a Connect session has none at hand."""
    context: Any = getattr(spark, "_sc", None)
    view = getattr(context, "_jvm", None)
    if view is not None:
        for name in NAMES.keys() - view.__dict__.keys():
            view.__dict__[name] = _known(NAMES[name], view._gateway_client)


def _known(name: str, client: Any) -> Any:
    from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]

    class Known(JavaClass):  # type: ignore[misc]
        def __getattr__(self, member: str) -> Any:
            found = super().__getattr__(member)
            if isinstance(found, JavaMember):
                self.__dict__[member] = found
            return found

    return Known(name, client)
