"""The settings of a topic, by Kafka's names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.config import CleanupPolicy, LogConfig, TimestampType
from log.settings.kinds import InvalidConfig
from log.settings.unclean import CONFIG, REMEDY
from log.topic_configs import (
    TOPIC_CONFIGS,
    TopicSettings,
    check,
    defaults,
    settings_of,
)
from protocol.records.compression import Codec

INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
RANGES = {
    "segment.bytes": (14, INT_MAX),
    "segment.ms": (1, LONG_MAX),
    "segment.index.bytes": (12, INT_MAX),
    "index.interval.bytes": (0, INT_MAX),
    "flush.messages": (1, LONG_MAX),
    "flush.ms": (0, LONG_MAX),
    "retention.ms": (-1, LONG_MAX),
    "retention.bytes": (-1, LONG_MAX),
    "delete.retention.ms": (0, LONG_MAX),
    "min.compaction.lag.ms": (0, LONG_MAX),
    "max.compaction.lag.ms": (1, LONG_MAX),
    "max.message.bytes": (0, INT_MAX),
    "message.timestamp.before.max.ms": (0, LONG_MAX),
    "message.timestamp.after.max.ms": (0, LONG_MAX),
    "min.insync.replicas": (1, INT_MAX),
}
WORDS: dict[str, dict[str, object]] = {
    "message.timestamp.type": {
        "CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME,
    },
    "compression.type": {
        "producer": None, "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4,
        "zstd": Codec.ZSTD,
    },
}  # fmt: skip


def value_of(name: str, text: str) -> object:
    """What a topic with only this config has."""
    check(name, text)
    settings = settings_of({name: text}, min_insync_replicas=1)
    if name == "min.insync.replicas":
        return settings.min_insync_replicas
    return getattr(settings.log, name.replace(".", "_"))


def complaint(name: str, text: str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        check(name, text)
    return str(caught.value)


def test_every_setting_is_tried_here() -> None:
    assert {*RANGES, *WORDS, "cleanup.policy", "min.cleanable.dirty.ratio", CONFIG} == set(TOPIC_CONFIGS)


def test_unclean_elections_may_be_switched_off_and_not_on() -> None:
    assert check(CONFIG, " FALSE ") == "false"
    assert defaults(min_insync_replicas=1)[CONFIG] == "false"
    for text in ("true", " True"):
        assert complaint(CONFIG, text) == (
            f"{CONFIG}: true is refused: a replica that leads without a majority of the replicas could lose "
            f"acknowledged records; leave it false, and {REMEDY}"
        )
    assert complaint(CONFIG, "yes") == f"{CONFIG}: 'yes' is neither true nor false"


@pytest.mark.parametrize("name", WORDS)
def test_a_word_is_one_of_those_that_there_are(name: str) -> None:
    for word, value in WORDS[name].items():
        assert value_of(name, f" {word} ") is value
        assert word in complaint(name, "dance")
        assert complaint(name, word.upper() if word != word.upper() else word.lower()).startswith(f"{name}: ")
    assert defaults(min_insync_replicas=1)[name] == next(iter(WORDS[name]))


@given(st.data(), st.sampled_from(["", " ", "\t", "\x1f"]))
def test_a_whole_number_in_range_is_taken_as_it_is(data: st.DataObject, spaces: str) -> None:
    for name, (low, high) in RANGES.items():
        for value in (low, high, data.draw(st.integers(low, high))):
            assert value_of(name, f"{spaces}{value}{spaces}") == value


@pytest.mark.parametrize("name", RANGES)
def test_a_number_out_of_range_is_refused_with_the_range(name: str) -> None:
    low, high = RANGES[name]
    for value in (low - 1, high + 1, -(1 << 64), 1 << 64, 10**50):
        assert complaint(name, str(value)) == (
            f"{name}: {value} is out of range; give a whole number from {low} to {high}"
        )


@pytest.mark.parametrize("name", RANGES)
def test_what_is_no_whole_number_is_refused(name: str) -> None:
    for text in ("", " ", "x", "1.5", "1e3", "1_000", "٣", "0x10", "1 0", "1,0", "--1", "True", "\ud800"):
        assert complaint(name, text) == f"{name}: {text!r} is no whole number"


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("1", 1.0), ("0.5", 0.5), (".25", 0.25), (" 1e-1 ", 0.1)])
def test_the_dirty_ratio_is_a_number_from_0_to_1(text: str, value: float) -> None:
    assert value_of("min.cleanable.dirty.ratio", text) == value


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "0_0.5", "½", "0,5", "."])
def test_a_dirty_ratio_that_is_no_number_is_refused(text: str) -> None:
    assert complaint("min.cleanable.dirty.ratio", text) == f"min.cleanable.dirty.ratio: {text!r} is no number"


@pytest.mark.parametrize(("text", "shown"), [("-0.1", "-0.1"), ("1.0001", "1.0001"), ("1e999", "inf"), ("50", "50.0")])
def test_a_dirty_ratio_out_of_range_is_refused(text: str, shown: str) -> None:
    assert complaint("min.cleanable.dirty.ratio", text) == (
        f"min.cleanable.dirty.ratio: {shown} is out of range; give a number from 0 to 1"
    )


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("delete", CleanupPolicy.DELETE),
        ("compact", CleanupPolicy.COMPACT),
        ("delete,compact", CleanupPolicy.DELETE | CleanupPolicy.COMPACT),
        (" compact , delete ", CleanupPolicy.DELETE | CleanupPolicy.COMPACT),
        ("", CleanupPolicy(0)),
        ("  ", CleanupPolicy(0)),
    ],
)
def test_cleanup_policies(text: str, policy: CleanupPolicy) -> None:
    assert value_of("cleanup.policy", text) == policy


@pytest.mark.parametrize("text", ["keep", "Delete", "delete,", ",", "delete;compact", "delete,keep"])
def test_what_is_no_cleanup_policy_is_refused(text: str) -> None:
    assert complaint("cleanup.policy", text) == (
        f"cleanup.policy: {text!r} is no cleanup policy; give delete, compact, delete,compact, or an empty text to "
        "keep everything"
    )


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_a_near_miss_is_told_the_right_name(name: str) -> None:
    misses = {name.replace(".", "_"), name.replace(".", "-"), name.upper(), f"log.{name}"}
    misses |= {name[:at] + name[at + 1 :] for at in range(len(name))}
    misses |= {name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :] for at in range(len(name))}
    for miss in misses - {name}:
        assert complaint(miss, "1") == f"there is no topic config {miss!r}; did you mean {name}?"


@pytest.mark.parametrize("name", ["", "zookeeper", "x" * 300])
def test_a_name_like_no_other_is_told_all_names(name: str) -> None:
    assert complaint(name, "1") == f"there is no topic config {name!r}; known are {', '.join(TOPIC_CONFIGS)}"


@given(st.sampled_from(TOPIC_CONFIGS), st.text(), st.integers(0, 100_000))
def test_any_text_is_taken_or_refused_in_few_words_that_name_the_setting(name: str, text: str, more: int) -> None:
    for given_text in (text, text + "7" * more):
        said = ""
        try:
            check(name, given_text)
            settings_of({name: given_text}, min_insync_replicas=1)
        except InvalidConfig as error:
            said = str(error)
        assert not said or said.startswith(f"{name}: ")
        assert len(said) < 4000


def test_an_endless_name_is_refused_in_few_words() -> None:
    assert len(complaint("retention.ms" * 10_000, "1")) < 1000


def test_a_topic_without_configs_has_the_defaults() -> None:
    assert settings_of({}, min_insync_replicas=2) == TopicSettings(LogConfig(), 2)
    shown = defaults(min_insync_replicas=2)
    assert set(shown) == set(TOPIC_CONFIGS)
    for name, text in shown.items():
        check(name, text)
    assert settings_of(shown, min_insync_replicas=1) == TopicSettings(LogConfig(), 2)
    assert (shown["cleanup.policy"], shown["retention.bytes"]) == ("delete", "-1")


def test_a_topics_own_minimum_of_insync_replicas_goes_before_the_clusters() -> None:
    assert settings_of({"min.insync.replicas": "3"}, min_insync_replicas=2).min_insync_replicas == 3


def test_settings_do_not_touch_each_other() -> None:
    settings = settings_of({"retention.ms": "-1", "cleanup.policy": "compact"}, min_insync_replicas=1)
    assert settings.log == LogConfig(retention_ms=-1, cleanup_policy=CleanupPolicy.COMPACT)


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("retention.ms", " \t+0005" + " " * 100_000, "5"),
        ("retention.bytes", " -1 ", "-1"),
        ("min.insync.replicas", f"{'0' * 98}2", "2"),
        ("min.cleanable.dirty.ratio", f" 0.5{'0' * 100_000}", "0.5"),
        ("min.cleanable.dirty.ratio", " 1 ", "1"),
        ("cleanup.policy", ",".join([" compact ", "delete"] * 10_000), "compact,delete"),
        ("cleanup.policy", "delete, compact", "delete,compact"),
        ("compression.type", f"zstd{' ' * 100_000}", "zstd"),
        ("message.timestamp.type", " LogAppendTime ", "LogAppendTime"),
    ],
)
def test_a_value_is_kept_without_what_it_is_padded_with(name: str, text: str, kept: str) -> None:
    assert check(name, text) == kept
    assert value_of(name, kept) == value_of(name, text)


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_a_default_is_kept_as_it_is_shown(name: str) -> None:
    shown = defaults(min_insync_replicas=2)[name]
    assert check(name, shown) == shown
