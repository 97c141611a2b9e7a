"""What the pages say is what happens: every command and program of every page is run, and prints what is shown.

`tests/docs/page.py` has the rules of a page, `terminal.py` what is different here: other ports and another home.
`--rewrite-pages` writes what was printed into the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from actors.cluster_file.config import load
from actors.harness import Cluster
from tests.actors.json_lines import wait_until_registered
from tests.docs.page import Page, PageError, Step, read
from tests.docs.shown import is_shown, plain
from tests.docs.terminal import ROOT, PageFailed, Terminal, free_ports, ports_of

pytestmark = pytest.mark.checkout
PATHS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {path.relative_to(ROOT).as_posix(): read(path) for path in PATHS if path.parent.name != "design"}
NOT_RUN = {
    "README.md": 1,
    "docs/how-to/clients.md": 1,
    "docs/how-to/operations.md": 3,
    "docs/how-to/pytest.md": 1,
    "docs/how-to/spark.md": 3,
}
"""How many fences of which page are `not run`. Each has its reason in the page."""


@contextmanager
def terminal(page: Page, directory: Path, *, long: bool) -> Iterator[Terminal]:
    with ExitStack() as stack:
        ports = ports_of(stack.enter_context(cluster())) if page.needs_cluster else free_ports()
        yield stack.enter_context(closing(Terminal(directory, ports, long=long)))


@contextmanager
def cluster() -> Iterator[Cluster]:
    """The cluster of cluster.toml, in this process."""
    config = load(ROOT / "cluster.toml")
    with Cluster(3, config=config.config, topics=config.topics, log_level="error") as cluster:
        wait_until_registered(cluster)
        yield cluster


def run(page: Page, directory: Path, *, long: bool, rewrite: bool) -> None:
    found: list[tuple[Step, list[str]]] = []
    try:
        with terminal(page, directory, long=long) as shell:
            for step in page.steps(long=long):
                printed = shell.do(step)
                if not isinstance(step, Step) or not step.shows:
                    continue
                if rewrite:
                    found.append((step, printed))
                elif step.printed and not is_shown(printed, step.printed):
                    told = "\n".join(printed)
                    pytest.fail(f"line {step.line}: {step.command or 'the program'} printed\n{told}")
    finally:
        rewritten(page, found)


def rewritten(page: Page, found: list[tuple[Step, list[str]]]) -> None:
    """Write what was printed into the page, where it says something else."""
    if not found:
        return
    lines = page.path.read_text(encoding="utf-8").split("\n")
    for step, printed in reversed(found):
        if not is_shown(printed, step.printed):
            lines[step.printed_at - 1 : step.printed_at - 1 + len(step.printed)] = printed
    page.path.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.is_run])
def test_what_a_page_shows_is_what_happens(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    run(PAGES[name], tmp_path, long=False, rewrite=request.config.getoption("--rewrite-pages"))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.is_long])
def test_what_a_page_shows_is_what_happens_to_its_long_parts_too(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run(PAGES[name], tmp_path, long=True, rewrite=request.config.getoption("--rewrite-pages"))


def test_what_is_not_run_is_counted_and_has_a_reason() -> None:
    assert {name: len(page.not_run) for name, page in PAGES.items() if page.not_run} == NOT_RUN


def test_a_cluster_is_started_as_make_cluster_does_it() -> None:
    """Pages say `make cluster`, and the terminal types what that does."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^cluster: .*\n\t@\$\(BIN\)/python -m actors\.cluster cluster\.toml$", makefile, re.MULTILINE)


def test_links_lead_somewhere() -> None:
    broken = []
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        links: list[str] = re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text)
        broken += [f"{path}: {link}" for link in links if not (path.parent / link).exists()]
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = PAGES["docs/README.md"]
    linked = {(index.path.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s:]+)", index.text)}
    assert {page.path for page in PAGES.values()} - linked - {index.path, ROOT / "README.md"} == set()


def page_of(text: str, tmp_path: Path) -> Page:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return read(path)


def test_the_rules_of_a_page(tmp_path: Path) -> None:
    page = page_of(
        "```console\n$ a\none\n$ b \\\n  c\n$ d\n```\n```python\nprint(1)\n```\n```text\n1\n```\n"
        "<!-- not run: it would burn -->\n```sh\nfire\n```\n```toml\n# x.toml\nx = 1\n```\n"
        "<!-- long: it is -->\n```console\n$ e\n```\n",
        tmp_path,
    )
    steps = list(page.steps(long=False))
    assert [(step.command, step.printed) for step in steps if isinstance(step, Step)] == [
        ("a", ["one"]),
        ("b \\\n  c", []),
        ("d", []),
        ("", ["1"]),
    ]
    assert [step.file for step in steps if not isinstance(step, Step)] == ["x.toml"]
    assert [fence.not_run for fence in page.not_run] == ["it would burn"]
    assert page.is_long
    assert not page.needs_cluster


def test_a_fence_that_is_neither_run_nor_marked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="neither run"):
        page_of("```sh\nfire\n```\n", tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "printed\none"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "the program printed\n1"),
        ("```python\nraise SystemExit('no cups')\n```\n", "no cups"),
        ("```console\n$ echo hello | nc localhost 9092  # exit code 1\nhello\n```\n", "type nc -N HOST PORT"),
    ],
)
def test_a_page_that_says_something_else_fails(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises((PageFailed, pytest.fail.Exception), match=told):
        run(page_of(text, tmp_path), tmp_path, long=False, rewrite=False)


def test_a_page_that_is_right(tmp_path: Path) -> None:
    """With a file, what stays from command to command, an exit code, a job and an interrupt."""
    text = (
        "```toml\n# cups.toml\na = 9092\n```\n```console\n$ export CUPS=two\n$ echo $CUPS; false  # exit code 1\ntwo\n"
        "$ cat cups.toml\n# cups.toml\na = 9092\n$ tail -f cups.toml\n…\na = 9092\n^C\n$ sleep 600 &\n```\n"
    )
    run(page_of(text, tmp_path), tmp_path, long=False, rewrite=False)


def test_what_was_printed_is_written_into_a_page(tmp_path: Path) -> None:
    page = page_of("```console\n$ echo one; echo two\n1\n$ echo three\n```\nmore\n", tmp_path)
    run(page, tmp_path, long=False, rewrite=True)
    assert page.path.read_text() == "```console\n$ echo one; echo two\none\ntwo\n$ echo three\nthree\n```\nmore\n"


@pytest.mark.parametrize(
    ("page", "printed", "same"),
    [
        ("took 12 ms", "took 7 ms", True),
        ("a   b", "a b", True),
        ("at 2026-01-31 12:00:00.123", "at 2027-02-28 01:02:03.999", True),
        ("… leads", "broker 3 leads", True),
        ("a\n…\nz", "a\nb\nc\nz", True),
        ("a\n…\nz", "a\nz", True),
        ("5 records", "6 records", False),
        ("a", "a\nb", False),
    ],
)
def test_what_counts_as_the_same(page: str, printed: str, *, same: bool) -> None:
    assert is_shown(plain(printed), page.split("\n")) is same
