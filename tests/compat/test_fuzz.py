"""A short run of the fuzzer; `python -m tools.fuzz --seconds 300` makes long ones. And what it stands on."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from actors.serving.kafka.handlers import SERVED
from protocol.apis import Api
from protocol.framing import KafkaRequest, ServerConnection
from tools.fuzz.mutations import mutated, mutated_line
from tools.fuzz.requests import Requests
from tools.fuzz.run import leaked, run
from tools.fuzz.victim import SOCKETS, Victim


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_garbage_harms_nobody_else() -> None:
    outcome = run("1", seconds=5)
    assert not outcome.problems, str(outcome)
    assert outcome.sent["damaged"] > 100
    assert outcome.sent["large"] > 5
    assert outcome.good > 10


def test_what_is_left_open_is_told_from_logs_that_were_made_meanwhile() -> None:
    before = Counter({SOCKETS: 5, "orders-0/0.log": 1})
    assert not leaked(before, Counter({SOCKETS: 6, "orders-0/0.log": 1, "__consumer_offsets-0/0.log": 1}))
    assert leaked(before, Counter({SOCKETS: 7})) == {SOCKETS: 7}
    assert leaked(before, Counter({"orders-0/0.log": 2, "__consumer_offsets-0/0.log": 2})).keys() == {
        "orders-0/0.log", "__consumer_offsets-0/0.log",
    }  # fmt: skip


def test_what_a_broker_logs_is_told_from_what_it_should_not_log(tmp_path: Path) -> None:
    def held(wall_ms: int, processor_ms: int) -> str:
        text = f"held the loop for {wall_ms} ms, {processor_ms} of processor time; 1 such turns since the last line"
        return f"2026-07-01T10:00:00.000Z WARNING broker-1 scheduler: connection/7@1 {text}"

    log, victim = tmp_path / "log", Victim(tmp_path)
    log.write_text(f"{held(400, 390)}\n")
    victim.begin()
    computes, waits = held(60, 51), held(3012, 2)
    fine = [held(50, 50), held(999, 50), "2026-07-01T10:00:00.000Z INFO broker-1 broker: is ready"]
    wrong = ["ERROR broker-1 actor: replica/orders-0@1 failed", "Traceback (most recent call last):"]
    with log.open("a") as lines:
        lines.writelines(f"{line}\n" for line in (fine[0], computes, *fine[1:], waits, *wrong))
    assert [told.splitlines()[0] for told in victim.complaints] == [*wrong, computes, waits]


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_requests_are_whole_before_they_are_damaged(api: Api) -> None:
    requests, server = Requests(random.Random(api.name)), ServerConnection(SERVED)
    for version in api.versions:
        if version in api.advertised:
            for _ in range(20):
                server.receive_data(requests.of(api, version))
                event = server.next_event()
                assert isinstance(event, KafkaRequest)
                assert (event.api, event.version) == (api, version)
                event.read(event.api.request)


def test_large_requests_are_whole_too() -> None:
    requests, server = Requests(random.Random(3)), ServerConnection(SERVED)
    sizes = []
    for _ in range(30):
        frame = requests.large()
        sizes.append(len(frame))
        server.receive_data(frame)
        event = server.next_event()
        assert isinstance(event, KafkaRequest)
        event.read(event.api.request)
    assert max(sizes) > 20_000


def test_a_seed_makes_the_same_garbage_again() -> None:
    def garbage() -> list[bytes]:
        rng = random.Random(7)
        requests = Requests(rng)
        return [
            damaged
            for _ in range(50)
            for damaged in (mutated(rng, requests.frame()), mutated_line(rng, requests.line()))
        ]

    assert garbage() == garbage()
