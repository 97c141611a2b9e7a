"""Errors as Spark 4.2 gives them, shortened, and the line that a user is told."""

from __future__ import annotations

import pytest

from tools.client import errors as client_errors
from tools.spark import errors
from tools.spark.errors import reason, told

ERRORS = {
    "a mistake in SQL inside foreachBatch, whose message begins on the next line": (
        """[STREAM_FAILED] Query x [id = 1] terminated with exception: An exception was raised by the Python Proxy.
Return Message: Traceback (most recent call last):
  File "job_runner.py", line 7, in apply
    return rows.sparkSession.sql(sql)
pyspark.errors.exceptions.captured.ParseException:\x20
[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 1, pos 0)

== SQL ==
SELEC 1
^^^

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
\tat java.base/java.lang.Thread.run(Thread.java:840) SQLSTATE: XXKST""",
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. (line 1, pos 0)",
    ),
    "a mistake in SQL as PySpark raises it": (
        """
[PARSE_EMPTY_STATEMENT] Syntax error, unexpected empty statement. SQLSTATE: 42617 (line 1, pos 0)

== SQL ==

^^^
""",
        "[PARSE_EMPTY_STATEMENT] Syntax error, unexpected empty statement. (line 1, pos 0)",
    ),
    "an unknown column, with its plan": (
        """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nope` cannot be resolved. Did you mean [`id`]. \
SQLSTATE: 42703; line 1 pos 7;
'Project ['nope]
+- Range (0, 3, step=1)
""",
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `nope` cannot be resolved. Did you mean [`id`]. line 1 pos 7",
    ),
    "a mistake in options": (
        """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):
  File "source.py", line 36, in schema
    return record_schema(has_headers=source_options(self.options).has_headers)
                                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
OWN.OptionError: option 'startingofsets' is unknown; did you mean 'startingOffsets'?
 SQLSTATE: 38000""".replace("OWN", errors.__name__),
        "option 'startingofsets' is unknown; did you mean 'startingOffsets'?",
    ),
    "an error with its causes": (
        """Traceback (most recent call last):
  File "cluster.py", line 141, in persist
OWN.ConnectionLost: 127.0.0.1:1: Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "topics.py", line 167, in _asked
OWN.TimedOut: no broker answers at 127.0.0.1:1 within 30 s: 127.0.0.1:1: Connection refused
 SQLSTATE: 38000
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.error(QueryExecutionErrors.scala:1890)
\t... 12 more""".replace("OWN", client_errors.__name__),
        "no broker answers at 127.0.0.1:1 within 30 s: 127.0.0.1:1: Connection refused",
    ),
    "an error of a user's own function": (
        'Traceback (most recent call last):\n  File "mine.py", line 1, in f\nZeroDivisionError: division by zero\n',
        "ZeroDivisionError: division by zero",
    ),
    "an error without a message": (
        'Traceback (most recent call last):\n  File "mine.py", line 1, in f\nmine.Broken\n\tat java.Thread.run(T:1)',
        "mine.Broken",
    ),
    "an error in a task": (
        """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2935)
Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] no! SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:2771)
\t... 30 more""",
        "[USER_RAISED_EXCEPTION] no!",
    ),
    "an error of Java": (
        """An error occurred while calling o35.start.
: java.lang.IllegalArgumentException: a checkpoint needs a scheme: nope:/x
\tat org.apache.hadoop.fs.Path.initialize(Path.java:263)""",
        "a checkpoint needs a scheme: nope:/x",
    ),
    "an error of Java without a message": (
        "\n: java.lang.StackOverflowError\n\tat a.B.c(B.java:1)",
        "java.lang.StackOverflowError",
    ),
}


@pytest.mark.parametrize(("text", "line"), ERRORS.values(), ids=list(ERRORS))
def test_an_error_of_spark_is_told_in_one_line(text: str, line: str) -> None:
    assert told(text) == line


def test_an_error_that_says_nothing_is_told_by_its_name() -> None:
    assert reason(KeyError()) == "KeyError"
    assert reason(RuntimeError("\n \n")) == "RuntimeError"
