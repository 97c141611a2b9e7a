"""Planted bugs are found: a simulator that overlooks one is too weak."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from log.raft.leader import Leader
from tools.simulator.hunt import hunt, hunt_all
from tools.simulator.mutants.catalog import MUTANTS, SUBJECTS, planted

FOUND_WITHIN = 24
"""Seeds that `make test` tries. A bug of the table below breaks its promise in a third of all seeds, or in more."""
FOUND_SOON_WITHIN = 10
FOUND_TOO_RARELY = (
    "lost-data-votes", "stale-generation-commits", "torn-tail-kept", "truncate-to-leader", "two-controllers",
)  # fmt: skip
"""Bugs that 40 seeds did not find once: a check was missing, or the settings of the bug seldom reached its moment."""
FOUND_WITHIN_LONG = 500
"""Seeds that `make test-long` tries: some bugs need many coincidences."""
MISTAKES = ("TypeError", "AttributeError", "NameError", "KeyError")
"""How a planted bug fails that was written for code that has changed since. That is found too, and proves nothing."""
BREAKS = {
    "a coordinator that answers knows everything committed": "first-offset-replayed",
    "a forged marker is refused": "forged-marker-written",
    "a generation has one assignment": "generation-not-counted",
    "a good append was refused": "sole-voter-is-alone",
    "a kill loses nothing": "cut-without-snapshot",
    "a leader commits something before it changes the membership": "membership-at-once",
    "a leader counts batches of its own epoch alone": "commit-older-term",
    "a leader holds everything committed": "longest-log-wins",
    "a marker is of a transaction that was prepared so": "markers-before-prepare",
    "a move ends when it is done": "earlier-move-ended",
    "a repeated batch is known": "dedupe-last-batch-only",
    "a transaction is complete when all its markers are there": "complete-too-early",
    "a transaction is known to its coordinator": "not-verified",
    "a replica keeps its own invariants": "window-not-freed",
    "a vote is on disk before a leader relies on it": "led-before-saved",
    "a vote is on disk before it is sent": "vote-told-before-saved",
    "a vote that was told is remembered": "vote-forgotten",
    "a watermark covers what is there": "watermark-unverified",
    "aborted read (G1a)": "aborted-before-untold",
    "aborted transactions are known": "aborted-forgotten",
    "acks=all is held by min.insync.replicas": "answered-by-isr-size",
    "an answer is for the member that asked": "statics-not-fenced",
    "an answer tells what is committed": "answered-before-commit",
    "an epoch never goes down": "term-forgotten",
    "an operation is done once": "done-twice",
    "at most one leader per epoch": "two-controllers",
    "every replica knows the same epochs": "restart-without-epochs",
    "every replica knows the same producers": "producers-not-followed",
    "everything goes on once it is healed": "target-kept",
    "offsets of a deleted topic do not count for the next of its name": "old-offsets-count",
    "one owner per partition": "released-too-early",
    "only what is committed is applied": "applied-uncommitted",
    "only what is on the disk is applied": "restart-without-snapshot",
    "the last stable offset is before the first open transaction": "stable-offset-too-far",
    "the membership changes once at a time": "memberships-in-a-row",
    "torn transaction": "aborted-offsets-count",
    "what has ended does not begin again": "parked-outlives-marker",
    "what is below the recovery point is on disk": "recovery-point-ahead",
    "what is committed is the same everywhere": "watermark-unverified",
    "what is committed is whole": "damage-handed-on",
    "what is known of leaders never gets older": "older-epoch-wins",
    "what the survivors had is kept": "survivor-drops-log",
    "what the watermark covers is held by a majority": "commit-without-majority",
    "brokers that applied the same records know the same metadata": "snapshot-without-answers",
    "an eligible replica holds what was committed": "recovered-too-early",
    "a replica that lost acknowledged records is ineligible": "lost-data-votes",
    "zombie": "stale-epoch-commits",
}
"""One planted bug for each promise that some bug breaks in many seeds; `make test-long` hunts all of them."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("promise", BREAKS)
def test_a_planted_bug_breaks_its_promise(promise: str) -> None:
    name = BREAKS[promise]
    catch = hunt(name, range(FOUND_WITHIN), promise=promise)
    assert catch.seed is not None, f"{name} did not break this promise within {catch.seeds_tried} seeds"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FOUND_TOO_RARELY)
def test_a_planted_bug_that_was_found_too_rarely_is_found_soon(name: str) -> None:
    assert_found(name, FOUND_SOON_WITHIN)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    assert_found(name, FOUND_WITHIN_LONG)


def assert_found(name: str, seeds: int) -> None:
    catch = hunt(name, range(seeds), surely=True)
    assert catch.seed is not None, f"{name} was not found within {catch.seeds_tried} seeds"
    assert not any(mistake in catch.text for mistake in MISTAKES), f"{name} does not fit any more: {catch.text}"


def test_a_promise_that_another_bug_breaks_does_not_count() -> None:
    catch = hunt("commit-without-majority", range(2), promise="a vote is on disk before it is sent")
    assert (catch.seed, catch.seeds_tried) == (None, 2)


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
    commit = Leader.commit
    with planted("commit-without-majority"):
        assert Leader.commit is not commit
    assert Leader.commit is commit
    with planted(None):
        assert Leader.commit is commit
