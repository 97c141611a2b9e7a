"""A terminal that shows the same page again and again, each time as it is then."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_PAGE = "\x1b[H", "\x1b[K", "\x1b[J"


class _Page(io.StringIO):
    """Takes what is printed for a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def pages(*, over: bool) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Gives a function that calls another one and shows what it prints, below the page before or over it.

    A page over another one is written at once, as far as the terminal is high, so that nothing flickers. The last page
    stays when all is over.
    """
    if not over:

        def print_next(prints: Callable[[], object]) -> None:
            prints()
            sys.stdout.flush()

        yield print_next
        return
    last = ""
    sys.stdout.write(_ENTER)

    def show(prints: Callable[[], object]) -> None:
        nonlocal last
        with redirect_stdout(_Page()) as page:
            prints()
        last = page.getvalue()
        lines = last.splitlines()[: shutil.get_terminal_size().lines - 1]
        sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\n" for line in lines) + _REST_OF_PAGE)
        sys.stdout.flush()

    try:
        yield show
    finally:
        sys.stdout.write(_LEAVE + last)
        sys.stdout.flush()
