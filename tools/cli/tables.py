"""Tables that fit into a terminal. Without I/O.

Where a table is too wide, its widest column gives way first: lines break between words, and a long word, such as a
member id, loses its middle. Numbers, short words and names that users type are never shortened. If that is not enough,
each row becomes a paragraph with a line for each column.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

SHORT_WORD = 16
"""The length of a word that is never shortened."""
SHORTENED = 10
"""The least that is left of a longer one."""
WHOLE = frozenset({"config", "group", "topic", "transactional id"})
"""The headings of columns whose words are never shortened: names that users type."""
_BETWEEN = "  "
_BOLD, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[33m", "\x1b[0m"
_VISIBLE = {code: 0x2400 + code for code in range(32) if code != 9} | {0x7F: 0x2421}


def visible(text: str) -> str:
    """Text without control characters, which a terminal would execute."""
    return text.translate(_VISIBLE)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], bad: Sequence[bool], width: int, *, colours: bool
) -> Iterator[str]:
    """The lines of a table; those of `bad` rows in another colour."""
    cells = [[visible(text) for text in row] for row in rows]
    bold, yellow, plain = (_BOLD, _YELLOW, _PLAIN) if colours else ("", "", "")
    widths = column_widths([columns, *cells], width - len(_BETWEEN) * (len(columns) - 1))
    if widths is None:
        for at, (row, is_bad) in enumerate(zip(cells, bad, strict=True)):
            yield from [""] if at else []
            for line in _paragraph(columns, row, width):
                yield f"{yellow}{line}{plain}" if is_bad else line
        return
    numeric = [all(_is_number(row[at]) for row in cells) for at in range(len(columns))]
    for line in _lines(columns, widths, numeric):
        yield f"{bold}{line}{plain}"
    yield "─" * (sum(widths) + len(_BETWEEN) * (len(widths) - 1))
    for row, is_bad in zip(cells, bad, strict=True):
        for line in _lines(row, widths, numeric):
            yield f"{yellow}{line}{plain}" if is_bad else line


def column_widths(cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """The width of each column of these rows, the first of which is the heading. None if they cannot fit."""
    columns = [list(column) for column in zip(*cells, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    least = [_least(column) for column in columns]
    of_words = [2 if any(len(text) > SHORT_WORD and " " not in text for text in column) else 1 for column in columns]
    if sum(least) > width:
        return None
    while sum(widths) > width:
        spare = [at for at in range(len(widths)) if widths[at] > least[at]]
        widths[max(spare, key=lambda at: widths[at] * of_words[at])] -= 1
    return widths


def shortened(text: str, width: int) -> str:
    """Text whose words, where they are longer than `width`, have lost their middle."""
    return " ".join(_shortened(word, width) for word in text.split(" "))


def _least(column: list[str]) -> int:
    """The width below which a column cannot be read."""
    lengths = [len(word) for text in column for word in text.split(" ")]
    short = max(length for length in [0, *lengths] if length <= SHORT_WORD)
    longest = max(lengths)
    return longest if longest <= SHORT_WORD or column[0] in WHOLE else max(short, SHORTENED)


def _shortened(word: str, width: int) -> str:
    if len(word) <= width:
        return word
    head = width // 2
    return f"{word[:head]}…{word[len(word) - (width - head - 1) :]}"


def _lines(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> Iterator[str]:
    """A row, of as many lines as its longest cell needs."""
    wrapped = [
        textwrap.wrap(shortened(text, width), max(width, 1), break_on_hyphens=False)  # 0: a column that is empty
        for text, width in zip(row, widths, strict=True)
    ]
    for at in range(max(1, *map(len, wrapped))):
        texts = [lines[at] if at < len(lines) else "" for lines in wrapped]
        yield _BETWEEN.join(
            text.rjust(width) if is_number else text.ljust(width)
            for text, width, is_number in zip(texts, widths, numeric, strict=True)
        ).rstrip()


def _paragraph(columns: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    margin = max(map(len, columns))
    widths = (margin, max(width - margin - len(_BETWEEN), SHORTENED))
    for pair in zip(columns, row, strict=True):
        yield from _lines(pair, widths, (False, False))


def _is_number(text: str) -> bool:
    return text in ("", "-") or text.lstrip("-").isdigit()
