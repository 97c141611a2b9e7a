"""Tables in a terminal: they fit, long words lose their middle, and numbers stay whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.cli.tables import shortened, table

MEMBER = "consumer-billing-1-0f3c9a52-94d4-4b8c-9d58-5a1f2cbe8a3e"
COLUMNS = ("began", "took ms", "generation", "members", "slowest", "cause")
ROW = ("2026-11-19 12:00:00.123", "1234", "7", "3", MEMBER, f"member {MEMBER} left: its session expired after 45000 ms")
NARROW = """\
began               took ms  generation  members  slowest     cause
────────────────────────────────────────────────────────────────────────────────
2026-11-19             1234           7        3  consu…8a3e  member
12:00:00.123                                                  consumer-…2cbe8a3e
                                                              left: its session
                                                              expired after
                                                              45000 ms"""
TOO_NARROW = """\
began       2026-11-19
            12:00
took ms     1234
generation  7

began       2026-11-19
            12:01
took ms     1
generation  8"""


def printed(columns: tuple[str, ...], *rows: tuple[str, ...], width: int) -> str:
    return "\n".join(table(columns, rows, [False] * len(rows), width, colours=False))


def test_a_narrow_table_breaks_text_and_shortens_words() -> None:
    assert printed(COLUMNS, ROW, width=80) == NARROW


def test_a_wide_table_has_a_line_per_row() -> None:
    heading, _, row = printed(COLUMNS, ROW, width=240).splitlines()
    assert row.split("  ")[0] == ROW[0]
    assert MEMBER in row
    assert heading.index("slowest") == row.index(MEMBER)


def test_a_table_that_cannot_fit_has_a_paragraph_per_row() -> None:
    rows = [("2026-11-19 12:00", "1234", "7"), ("2026-11-19 12:01", "1", "8")]
    assert printed(COLUMNS[:3], *rows, width=27) == TOO_NARROW


def test_names_that_users_type_stay_whole() -> None:
    row = ("group.consumer.heartbeat.interval.ms", "PLAINTEXT://127.0.0.1:28540", "the broker's file")
    (line,) = printed(("config", "value", "from"), row, width=80).splitlines()[2:]
    assert line.startswith(f"{row[0]}  PLAINTEXT:")
    assert printed(("config", "value", "from"), row, width=50).startswith(f"config  {row[0]}\n"), "a paragraph"


def test_bad_rows_have_a_colour_and_no_cell_commands_the_terminal() -> None:
    heading, _, good, bad = table(("name",), [("a\x1b[2Jb",), ("c",)], [False, True], 80, colours=True)
    assert (heading, good, bad) == ("\x1b[1mname\x1b[0m", "a␛[2Jb", "\x1b[33mc\x1b[0m")


def test_a_table_without_rows_has_its_heading() -> None:
    assert printed(("a", "b"), width=80) == "a  b\n────"


def test_a_column_without_heading_may_be_empty() -> None:
    assert printed(("a", ""), ("b", ""), width=80) == "a\n───\nb"


@pytest.mark.parametrize(("width", "text"), [(7, "abc…hij x"), (10, "abcdefghij x"), (6, "abc…ij x")])
def test_the_middle_of_a_word_goes(width: int, text: str) -> None:
    assert shortened("abcdefghij x", width) == text


words = st.text("ab-", max_size=60) | st.integers().map(str)
rows = st.lists(st.lists(st.lists(words, max_size=5).map(" ".join), min_size=3, max_size=3).map(tuple), max_size=4)


@settings(max_examples=50)
@given(rows, st.integers(40, 200))
def test_every_table_fits(rows: list[tuple[str, ...]], width: int) -> None:
    assert all(len(line) <= width for line in table(("x", "y", "z"), rows, [False] * len(rows), width, colours=False))
