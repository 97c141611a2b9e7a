"""Planted bugs are found: a simulator that overlooks one is too weak."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from log.raft import leading
from tools.simulator.group_mutants import GROUP_MUTANTS
from tools.simulator.hunt import hunt, hunt_all
from tools.simulator.mutants import MUTANTS, SUBJECTS, planted
from tools.simulator.transaction_mutants import TRANSACTION_MUTANTS

SEEDS_MAX = 25
MISTAKES = ("TypeError", "AttributeError", "NameError")
"""What befalls a planted bug that was written for code that has changed since: that is found too, and shows nothing."""
FIRST = {
    "commit-without-majority": 1, "serve-without-quorum": 2, "watermark-unverified": 2, "truncate-to-leader": 63,
    "no-epoch-check": 3, "vote-told-before-saved": 2, "vote-forgotten": 2, "any-directory-votes": 7,
    "lost-data-votes": 17, "recovered-too-early": 3, "verified-across-leaders": 7, "pre-vote-counts": 33,
    "longest-log-wins": 22, "forced-vote-unchecked": 4, "other-vote-saved": 5, "window-too-small": 1,
    "lost-append-not-repeated": 33, "damage-handed-on": 1, "ack-before-followers": 2, "duplicate-answered-early": 3,
    "torn-tail-kept": 10, "waiting-appends-kept": 4, "producers-not-rolled-back": 2, "replay-off-by-one": 12,
    "failed-sync-forgotten": 2, "snapshots-not-rolled-back": 5, "recovery-point-ahead": 2, "flush-of-a-cut-log": 19,
    "two-controllers": 77, "answered-when-written": 5, "planned-uncertain": 11, "restart-untold": 9,
    "membership-at-once": 1, "later-move-undone": 2, "name-used-again": 2, "earlier-move-ended": 4,
    "first-voters-for-ever": 4, "files-removed-too-early": 4, "dedupe-last-batch-only": 1,
    "refused-batch-overtaken": 6,
}  # fmt: skip
"""Which seed finds it soonest, where that is not seed 0; tried first, since any change to the brokers may move it."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in (*GROUP_MUTANTS, *TRANSACTION_MUTANTS)])
def test_a_planted_bug_is_found(name: str) -> None:
    catch = hunt(name, (FIRST.get(name, 0), *range(SEEDS_MAX)))
    assert catch.seed is not None, f"{name} was not found within {catch.seeds_tried} seeds"
    assert not any(mistake in catch.text for mistake in MISTAKES), f"{name} does not fit any more: {catch.text}"


def test_no_planted_bug_hides_another_one_of_its_name() -> None:
    assert len(MUTANTS) == sum(map(len, SUBJECTS))


def replaced(name: str) -> Iterator[tuple[Any, Any]]:
    """Functions of ours, and what this bug puts in their places."""
    for target, attribute, replacement in MUTANTS[name].patches:
        original = inspect.getattr_static(target, attribute)
        if isinstance(original, dict):
            yield from ((original[key], new) for key, new in replacement.items() if original.get(key) is not new)
        elif isinstance(original, property):
            yield original.fget, replacement.fget
        else:
            yield getattr(original, "__func__", original), getattr(replacement, "__func__", replacement)


def names(function: Any, *kinds: Any) -> list[str]:
    return [one.name.lstrip("_") for one in inspect.signature(function).parameters.values() if one.kind in kinds]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_called_as_what_it_replaces(name: str) -> None:
    """Else it is found because it takes one argument for another."""
    kinds = inspect.Parameter
    for original, replacement in replaced(name):
        meant = names(replacement, kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        given = names(original, kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        takes_more = bool(names(replacement, kinds.VAR_POSITIONAL))
        assert meant == (given[: len(meant)] if takes_more else given), replacement
        meant, given = names(replacement, kinds.KEYWORD_ONLY), names(original, kinds.KEYWORD_ONLY)
        takes_more = bool(names(replacement, kinds.VAR_KEYWORD))
        assert meant == [one for one in given if one in meant or not takes_more], replacement


def test_a_hunt_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt_all(range(1), ["commit-without-majority"]) == 0
    told = capsys.readouterr().out
    assert "what the watermark covers is held by a majority" in told
    assert "1 of 1 planted bugs found" in told


def test_a_hunt_fails_if_a_planted_bug_got_away(capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt_all(range(0), ["commit-without-majority"]) == 1
    assert "not found" in capsys.readouterr().out


def test_a_bug_is_planted_for_one_run_only() -> None:
    commit = leading.commit
    with planted("commit-without-majority"):
        assert leading.commit is not commit
    assert leading.commit is commit
    with planted(None):
        assert leading.commit is commit
