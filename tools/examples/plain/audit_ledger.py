"""A ledger is an append-only topic; balances are calculated by reading it from the beginning.

Each transfer has a digest of itself and of the digest before it, so an audit finds a transfer that was changed, lost or
moved. The balances of now, and those as of a transfer in the past, must equal a fold over the transfers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from tools.examples.envelope import Contract, Envelope, Reason, Refused, read
from tools.examples.poison import pills, with_pills
from tools.examples.stage import Events, Stage, must

LEDGER = "ledger"
COUNT, ACCOUNTS = 5_000, 20
CONTRACT: Contract = {"money.moved": {"digest": str, "giver": str, "taker": str, "cents": int}}


def transfers(seed: int, count: int) -> list[Envelope]:
    chance, events = random.Random(seed), Events(seed, "teller")
    accounts = [f"account-{number:02}" for number in range(ACCOUNTS)]
    made, digest = [], ""
    for number in range(count):
        giver, taker = chance.sample(accounts, 2)
        cents = chance.randrange(1, 100_00)
        digest = chained(digest, giver, taker, cents)
        made.append(
            events.event("money.moved", f"transfer-{number:06}", digest=digest, giver=giver, taker=taker, cents=cents)
        )
    return made


def chained(before: str, giver: str, taker: str, cents: int) -> str:
    return sha256(f"{before}/{giver}/{taker}/{cents}".encode()).hexdigest()


def as_of(count: int) -> int:
    """The transfer in the past, of whose balances an audit is made."""
    return count * 3 // 5


def folded(some: Iterable[Envelope]) -> dict[str, int]:
    balances: Counter[str] = Counter()
    for one in some:
        balances[one.data["giver"]] -= one.data["cents"]
        balances[one.data["taker"]] += one.data["cents"]
    return dict(balances)


def play(stage: Stage) -> str:
    """One replay: the balances at the end, and those on the way."""
    some = transfers(stage.seed, stage.counted(COUNT))
    stage.make_topics(LEDGER, partitions=1)  # one partition: a ledger has one order
    stage.send(LEDGER, stage.interrupted(LEDGER, list(with_pills(some, pills(some[0])))))
    replayed: list[Envelope] = []
    refused: Counter[Reason] = Counter()
    digest, past = "", as_of(len(some))
    for message in stage.client.replay(stage.bootstrap, stage.topic(LEDGER)):
        event = read(message.value, CONTRACT)
        if isinstance(event, Refused):
            refused[event.reason] += 1
            continue
        data = event.data
        digest = chained(digest, data["giver"], data["taker"], data["cents"])
        must(data["digest"] == digest, f"the chain breaks at offset {message.offset}, {event.correlation_id}")
        replayed.append(event)
    stage.say(f"{len(replayed):,} transfers are replayed, and their chain is whole")
    must(len(replayed) == len(some), f"{len(replayed)} transfers instead of {len(some)}")
    must(refused == Counter(Reason), f"refused were {dict(refused)}")
    balances = folded(replayed)
    must(balances == folded(some), "the balances are not those of the transfers")
    must(sum(balances.values()) == 0, "money came or went")
    must(folded(replayed[:past]) == folded(some[:past]), f"the balances as of transfer {past} are wrong")
    return (
        f"{len(some):,} transfers in an unbroken chain: {len(balances)} balances, and those as of transfer {past:,}, "
        f"equal the fold; {sum(refused.values())} wrong messages were counted"
    )
