"""What a test that failed can tell: the brokers' last lines, and who led what when."""

from __future__ import annotations

import logging

import pytest

from actors.harness import Cluster, HarnessError
from actors.harness.log_lines import LINES_MAX, LogLines


def told(line: str) -> str:
    """A line without its time and its level."""
    return line.split(maxsplit=2)[2]


def test_the_history_tells_of_elections_and_the_log_of_deaths() -> None:
    with Cluster(log_level="info") as cluster:
        cluster.admin.create_topic("orders.eu-1", 2)
        killed = cluster.kill_leader("orders.eu-1", 1)
        leader = cluster.leader("orders.eu-1", 1)
        history = cluster.leader_history()
        assert [one.leader for one in history if (one.topic, one.partition) == ("orders.eu-1", 1)] == [killed, leader]
        assert any(one.topic == "__cluster_metadata" for one in history)
        assert any(f"broker {leader} leads orders.eu-1-1 in epoch" in str(one) for one in history)
        assert any("leads orders.eu-1-1" in line for line in cluster.broker_log(leader))
        assert any(f"launcher: broker {killed} ended: killed" in line for line in cluster.broker_log())
        assert all(f"broker={leader}" in line for line in cluster.broker_log(leader))
        with pytest.raises(HarnessError, match="there is no broker 7"):
            cluster.broker_log(7)
    assert cluster.leader_history() == history
    assert cluster.broker_log()
    assert logging.getLogger("barnabas").level == logging.NOTSET


def test_a_test_s_own_logging_sees_no_more_than_before(caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(1, log_level="info"):
        pass
    assert [record for record in caplog.records if record.levelno < logging.WARNING] == []


def test_lines_are_bounded_and_of_one_thread() -> None:
    lines = LogLines("info")
    log = logging.getLogger("barnabas")
    lines.watch()
    try:
        for number in range(LINES_MAX + 5):
            log.info("line %d", number, extra={"broker": 1})
        log.debug("too much")
        log.info("another", extra={"broker": 2})
    finally:
        lines.stop()
    log.warning("later", extra={"broker": 1})
    assert len(lines.of(1)) == LINES_MAX
    assert lines.of(1)[0].endswith("line 5")
    assert [told(line) for line in lines.of(None)[-2:]] == [
        f"broker=1 line {LINES_MAX + 4}",
        "broker=2 another",
    ]


def test_two_watchers_leave_the_level_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("barnabas")
    caplog.set_level(logging.ERROR, "barnabas")
    one, other = LogLines("info"), LogLines("debug")
    for lines in (one, other):
        lines.watch()
    log.info("both")
    one.stop()
    log.debug("other")
    other.stop()
    assert [told(line) for line in one.of(None)] == ["launcher both"]
    assert len(other.of(None)) == 2
    assert log.level == logging.ERROR
    assert caplog.records == []


def test_a_level_that_a_test_sets_while_a_cluster_runs_holds(caplog: pytest.LogCaptureFixture) -> None:
    log, lines = logging.getLogger("barnabas"), LogLines("warning")
    lines.watch()
    with caplog.at_level(logging.INFO, "barnabas"):
        log.info("seen")
    log.info("not seen")
    lines.stop()
    assert caplog.messages == ["seen"]
    assert lines.of(None) == []
    assert log.level == logging.NOTSET
