"""Regular expressions over names: RE2's meaning, in bounded time."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.machines.names import pattern as name_pattern
from log.machines.names.pattern import PROGRAM_SIZE_MAX, InvalidPattern, NamePattern

LETTERS = "abAB.-_19"

atoms = st.one_of(
    st.sampled_from(["a", "b", "A", "1", r"\.", "-", "_", ".", r"\d", r"\w", r"\D", r"\W", r"\s", r"\S", "^", "$"]),
    st.sampled_from(["[ab]", "[^ab]", "[a-z.]", "[^A-Z]", "[-a]", r"[\d_]", r"[^\w]", "[]a]", "[.]", "[0-9a]"]),
)


def combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(parts, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?"])).map(
            lambda one: f"(?:{one[0]}){one[1]}"
        ),
    )


expressions = st.recursive(atoms, combined, max_leaves=8)


@given(expressions, st.lists(st.text(LETTERS, max_size=6), max_size=8))
@settings(max_examples=300, deadline=None)
def test_what_both_know_means_the_same_as_in_python(expression: str, names: list[str]) -> None:
    pattern = NamePattern(expression)
    peer = re.compile(expression, re.ASCII)
    for name in names:
        assert pattern.matches(name) == bool(peer.fullmatch(name)), name


@given(st.text(st.sampled_from("ab(|)[]{}*+?^$\\.-:,1QExPi<>="), max_size=20))
@settings(max_examples=300, deadline=None)
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(InvalidPattern):
        NamePattern(text).matches("a.b-1")


@pytest.mark.parametrize(
    ("expression", "name", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders-eu", False),
        ("orders.*", "orders-eu", True),
        ("^orders-[0-9]+$", "orders-12", True),
        ("(?i)ORDERS", "orders", True),
        ("(?i:ORD)ers", "ordERS", False),
        ("a(?i)b|C", "aB", True),
        ("(?P<what>a)b", "ab", True),
        ("(?<what>a)b", "ab", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"\Qa.b\E+", "a.bb", True),
        (r"\x61\x{62}", "ab", True),
        (r"\Aa\z", "a", True),
        ("[[:alpha:]]+", "ab", True),
        ("[[:^alpha:]]+", "a1", False),
        ("a{", "a", False),
        ("", "a", False),
        ("é|a", "a", True),
        ("[^é]", "a", True),
        ("é", "é", True),
        (".", "é", True),
        ("[a-é]+", "aé~", True),
        ("[à-é]", "ê", False),
        ("[à-é]", "a", False),
        ("[^a-z]", "é", True),
        ("[^a-é]", "â", False),
        (r"[\D]", "é", True),
        (r"\D/\S", "é/ß", True),
        ("[[:^alpha:]]", "é", True),
        (r"[\x{0}-\x{10FFFF}]*", "a 🦉", True),
    ],
)
def test_the_syntax_is_that_of_re2(expression: str, name: str, matches: bool) -> None:
    assert NamePattern(expression).matches(name) == matches


@pytest.mark.parametrize(
    "expression",
    [
        "(", ")", "[", "a**", "*", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", r"(a)\1", "a++", "a{3,2}", "a{1001}", r"\b",
        r"\p{L}", "[b-a]", "[[:letter:]]", "\\", "(?P<a", "(?z)", r"\xzz", "(" * 60 + ")" * 60, "a" * 1001,
        "((a{100}){100}){100}",
    ],
)  # fmt: skip
def test_what_is_not_served_is_refused(expression: str) -> None:
    with pytest.raises(InvalidPattern):
        NamePattern(expression)


@pytest.mark.parametrize("expression", ["(a*)*b", "(a|aa)+b", "(a|a?)+b", "(.*)*" * 10 + "b", ".*.*.*.*.*.*.*.*b"])
def test_expressions_that_explode_elsewhere_take_no_time(expression: str) -> None:
    pattern = NamePattern(expression)
    assert not pattern.matches("a" * 249)
    assert pattern.matches("a" * 248 + "b")


def test_what_is_remembered_is_bounded() -> None:
    pattern = NamePattern("(a|b)*a(a|b){100}")
    text = "abbabaaabbab" * 20
    assert len(text) < PROGRAM_SIZE_MAX
    for shift in range(100):
        pattern.matches(text[shift:])
    assert pattern.steps_known <= 10_000


def test_the_name_of_a_capture_is_an_identifier() -> None:
    assert NamePattern("(?P<one>a)(?<two>b)").matches("ab")
    with pytest.raises(InvalidPattern, match="invalid named capture: `1x`"):
        NamePattern("(?P<1x>a)")


def test_flags_for_lines_and_captures_mean_nothing_in_a_name() -> None:
    assert NamePattern("(?sm-U)a.b").matches("a.b")


def test_what_is_remembered_of_a_pattern_is_bounded_and_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_pattern, "STEPS_KEPT_MAX", 3)
    pattern = NamePattern("[a-c]*d")
    for name in ("abcd", "dab", "ccccd", "bad", "d"):
        assert pattern.matches(name) == (re.fullmatch("[a-c]*d", name) is not None)
        assert pattern.steps_known <= 3
