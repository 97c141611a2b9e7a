"""The errors of a Spark job, and the reason for an error of Spark, as one line.

Spark puts the reason below a Java stack, a Python traceback, or an empty line. An error that comes through Java is a
text. The last traceback in it is the outermost one, and its last part is the exception, whose message may begin on the
line after its name.
"""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last)"
_OWN = __name__.partition("spark.")[0]
"""The package in whose errors the name says nothing that the message does not say."""
_JAVA_FRAME = re.compile(r"\s*(at [\w.$]+[(/]|\.\.\. \d+ more)")
_CAUSE = re.compile(r"(?:Caused by|): (?P<told>.+)")
_JAVA_NAME = re.compile(r"(?:[a-z]\w*\.)+[A-Z][\w$]*(?:: |$)")
_QUERY = re.compile(r"\[STREAM_FAILED\] Query .*? terminated with exception: ")
_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?$")
_STATE = re.compile(r"\s*SQLSTATE: \w{5};?")


class OptionError(ValueError):
    """Options are missing, unknown, malformed or contradictory. `mistakes` has each of them."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(mistakes))


class DataLoss(Exception):
    """Records that a query has not read do not exist any more. With failOnDataLoss=false this is a warning."""


def reason(error: BaseException) -> str:
    """The reason in an error; its name, if it has no message."""
    return told(str(error)) or type(error).__name__


def told(text: str) -> str:
    """The reason in the text of an error."""
    lines = [line for line in text.splitlines() if line.strip() and not _JAVA_FRAME.match(line)]
    tracebacks = [at for at, line in enumerate(lines) if _TRACEBACK in line]
    if tracebacks:
        lines = lines[tracebacks[-1] + 1 :]
        at = next((at for at, line in enumerate(lines) if not line[0].isspace()), len(lines))
        line = _of_python(lines[at:])
    else:
        line = _of_java(lines)
    return _STATE.sub("", line).strip().rstrip(";")


def _of_python(lines: list[str]) -> str:
    if not lines or (found := _EXCEPTION.match(lines[0])) is None:
        return lines[0] if lines else ""
    name, message = found["name"], (found["message"] or "").strip()
    is_plain = name.startswith((_OWN, "pyspark."))
    if name.startswith("py4j."):
        return _of_java(lines[1:]) or lines[0]
    if not message and is_plain and len(lines) > 1:
        return lines[1]
    return message if message and is_plain else lines[0]


def _of_java(lines: list[str]) -> str:
    """The innermost cause, else the first line."""
    causes = [found["told"] for line in lines if (found := _CAUSE.match(line))]
    line = causes[-1] if causes else (lines[0] if lines else "")
    line = _QUERY.sub("", line)
    bare = _JAVA_NAME.sub("", line, count=1)
    return bare or line
