"""What `doctor` finds: a subject, whether it is well, and what to do if not."""

from __future__ import annotations

import enum

from attrs import frozen


class Result(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


@frozen
class Finding:
    """One line of the diagnosis. `remedy` is empty where nothing is to be done."""

    subject: str
    result: Result
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(subject, Result.OK, text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    return Finding(subject, Result.WARNING, text, remedy)


def bad(subject: str, text: str, remedy: str) -> Finding:
    return Finding(subject, Result.BAD, text, remedy)
