"""Orders become payments, and payments become shipments, each by a service of its own.

A declined payment ends an order; a payment whose shipment fails is refunded. A message that is no order becomes a dead
letter, and stops nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from tools.examples.envelope import Contract, Envelope, Reason
from tools.examples.poison import pills, with_pills
from tools.examples.service import service
from tools.examples.stage import Events, Sent, Stage, must
from tools.pipeline.letter_headers import REASON

ORDERS, PAYMENTS, SHIPMENTS, DEAD = "orders", "payments", "shipments", "orders.dead"
COUNT = 1_000
OUT_OF_STOCK, EMPTY = "item-13", "empty"
_PAID = {"order": str, "cents": int, "item": str}
ORDERED: Contract = {"order.placed": {"order": str, "cents": int, "card": str, "item": str}}
PAID: Contract = {"payment.taken": _PAID, "payment.declined": _PAID, "payment.refunded": _PAID}
SHIPPED: Contract = {"shipment.sent": _PAID, "shipment.failed": _PAID}
Following = Iterable[tuple[str, Envelope]]


def orders(seed: int, count: int) -> list[Envelope]:
    chance, events = random.Random(seed), Events(seed, "shop")
    return [
        events.event(
            "order.placed",
            f"order-{number:05}",
            order=f"order-{number:05}",
            cents=chance.randrange(1_00, 200_00),
            card=EMPTY if chance.random() < 0.05 else "good",
            item=f"item-{chance.randrange(20):02}",
        )
        for number in range(count)
    ]


def sent_orders(some: Sequence[Envelope]) -> list[Sent]:
    """The orders, with a poison pill of each kind among them."""
    return list(with_pills(some, pills(some[0])))


def fates(some: Iterable[Envelope]) -> dict[str, str]:
    """How each order must end."""
    return {
        one.data["order"]: "payment.declined"
        if one.data["card"] == EMPTY
        else "payment.refunded"
        if one.data["item"] == OUT_OF_STOCK
        else "shipment.sent"
        for one in some
    }


def pay(event: Envelope) -> Following:
    """The service of payments."""
    data = {name: event.data[name] for name in _PAID}
    if event.type == "order.placed":
        type_ = "payment.declined" if event.data["card"] == EMPTY else "payment.taken"
        return [(PAYMENTS, event.follows(type_, "bank", data))]
    if event.type == "shipment.failed":
        return [(PAYMENTS, event.follows("payment.refunded", "bank", data))]
    return []


def ship(event: Envelope) -> Following:
    """The service of shipments."""
    if event.type != "payment.taken":
        return []
    type_ = "shipment.failed" if event.data["item"] == OUT_OF_STOCK else "shipment.sent"
    return [(SHIPMENTS, event.follows(type_, "depot", event.data))]


class Desk:
    """Watches how orders end, and where the money is."""

    def __init__(self) -> None:
        self.ends: dict[str, str] = {}
        self.cents: Counter[str] = Counter()

    def watch(self, event: Envelope) -> Following:
        self.cents[event.type] += event.data["cents"]
        if event.type in ("payment.declined", "payment.refunded", "shipment.sent"):
            order = event.data["order"]
            must(order not in self.ends, f"{order} ended twice: {self.ends.get(order)} and {event.type}")
            self.ends[order] = event.type
        return []


def play(stage: Stage) -> str:
    """Three services in a chain, each a consumer group."""
    some = orders(stage.seed, stage.counted(COUNT))
    wanted, desk = fates(some), Desk()
    stage.make_topics(ORDERS, PAYMENTS, SHIPMENTS, DEAD)
    stage.send(ORDERS, sent_orders(some))
    with (
        service(stage, "bank", [ORDERS, SHIPMENTS], {**ORDERED, **SHIPPED}, pay, DEAD) as bank,
        service(stage, "depot", [PAYMENTS], PAID, ship, DEAD) as depot,
        service(stage, "desk", [PAYMENTS, SHIPMENTS], {**PAID, **SHIPPED}, desk.watch) as watcher,
    ):

        def step() -> None:
            for one in (bank, depot, watcher):
                one.step()
            if len(desk.ends) >= len(wanted) // 2:
                stage.middle(PAYMENTS)

        def is_done() -> bool:
            return len(desk.ends) >= len(wanted) and sum(bank.counts.refused.values()) >= len(Reason)

        stage.until(is_done, step, lambda: f"{len(desk.ends):,} of {len(wanted):,} orders have ended")
        repeated = bank.counts.repeated + depot.counts.repeated + watcher.counts.repeated
    must(desk.ends == wanted, f"orders that end wrongly: {sorted(desk.ends.items() ^ wanted.items())[:4]}")
    kept = desk.cents["payment.taken"] - desk.cents["payment.refunded"]
    must(kept == desk.cents["shipment.sent"], f"{kept} cents are kept for {desk.cents['shipment.sent']} that was sent")
    letters = dead_letters(stage)
    must(letters == {reason.name: reason.name for reason in Reason}, f"the dead letters are {letters}")
    ends = Counter(desk.ends.values())
    return (
        f"{ends['shipment.sent']:,} orders shipped, {ends['payment.declined']} declined, "
        f"{ends['payment.refunded']} refunded, {len(letters)} dead letters, {repeated} messages came again"
    )


def dead_letters(stage: Stage) -> dict[str, str]:
    """The name of the reason, by the key of the message."""
    found = {}
    for letter in stage.client.replay(stage.bootstrap, stage.topic(DEAD)):
        reason = dict(letter.headers)[REASON] or b""
        found[(letter.key or b"").decode()] = reason.decode().partition(":")[0]
    return found
