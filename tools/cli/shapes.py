"""What each command prints with --json: a sample, which its help shows and tests compare with what is printed.

One value, or JSON lines: then `each` says what each line is. An error is one more value: {"error": {"code": 3, "name":
"UNKNOWN_TOPIC_OR_PARTITION", "message": "…"}}; its code is null if no broker has refused.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any, NamedTuple

WIDTH = 78


class Shape(NamedTuple):
    sample: dict[str, Any]
    each: str = ""
    after_loss: dict[str, Any] | None = None
    """With --accept-loss."""

    def help(self) -> str:
        """The end of a command's help."""
        title = f"with --json, a line for each {self.each}:" if self.each else "with --json:"
        told = _told(title, self.sample)
        return told if self.after_loss is None else f"{told}\n{_told('and with --accept-loss:', self.after_loss)}"


def _told(title: str, sample: dict[str, Any]) -> str:
    text = json.dumps(sample, ensure_ascii=False)
    return "\n  ".join([title, *textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)])


_TOPIC = {
    "name": "orders", "topic_id": "Celh9v4oS32LfYltQ-FoLQ", "configs": {"retention.ms": "60000"},
    "partitions": [
        {"partition": 0, "leader": 1, "leader_epoch": 4, "replicas": [1, 2], "isr": [1, 2], "moved_from": []}
    ],
}  # fmt: skip
_WARNINGS = {"warnings": ["replication factor 1 tolerates no failure"]}
_MADE = {**_WARNINGS, "topic_id": "Celh9v4oS32LfYltQ-FoLQ"}
_RECOVER = Shape(
    {
        "partitions": [
            {
                "topic": "orders", "partition": 0, "missing": [3], "generation": 0,
                "survivors": [
                    {"broker": 1, "leader": -1, "is_complete": True, "last_epoch": 4, "log_start_offset": 0,
                     "end_offset": 17, "high_watermark": 17, "voters": [1, 2, 3], "waits_for": "…", "generation": 0,
                     "latest_generation": 0, "is_voter": True, "leads": False},
                ],
            }
        ]
    },
    after_loss={
        "partitions": [{"topic": "orders", "partition": 0, "survivors": [1, 2], "generation": 1}]
    },
)  # fmt: skip
_TRANSACTION = {"transactional_id": "till-4", "state": "Ongoing"}
SHAPES: dict[str, Shape] = {
    "up": Shape({"bootstrap": "127.0.0.1:9092,127.0.0.1:9093", "data_dir": "barnabas-data"}),
    "down": Shape({"data_dir": "barnabas-data", "pid": 4711}),
    "status": Shape(
        {
            "cluster_id": "rEFw_SR8TCajEFJNQugNRQ", "controller": 1, "brokers_gone": [3], "partitions": 6,
            "without_leader": 0, "under_replicated": 1, "records_per_s": 17.5,
            "brokers": [
                {"broker": 1, "address": "127.0.0.1:9092", "leads": 2, "keeps": 6, "behind": 0, "records_per_s": 17.5,
                 "size_bytes": 4711, "free_bytes": 8388608},
            ],
            "topics": [
                {"topic": "orders", "partitions": 6, "replicas": 3, "records_per_s": 17.5, "size_bytes": 4711,
                 "without_leader": 0, "under_replicated": 1},
            ],
            "groups": [{"group": "billing", "state": "Stable", "lag": 7, "records_per_s": 17.5}],
            "problems": [
                {"topic": "orders", "partition": 0, "leader": 1, "replicas": [1, 3], "in_sync": [1], "problem": "…"},
            ],
            "unknown": {"disks": "…"},
        }
    ),
    "doctor": Shape(
        {"findings": [{"subject": "disk", "result": "bad", "text": "…", "remedy": "…"}], "bad": 1}
    ),
    "topics list": Shape({"topics": [_TOPIC]}),
    "topics describe": Shape(_TOPIC),
    "topics create": Shape({**_MADE, "partitions": 6, "replication_factor": 3}),
    "topics delete": Shape({**_MADE, "name": "orders"}),
    "topics add-partitions": Shape({**_MADE, "first": 6, "partitions": 12}),
    "topics elect": Shape({**_WARNINGS, "elections": 2}),
    "topics recover": _RECOVER,
    "recover": _RECOVER,
    "configs describe": Shape(
        {
            "topic": "orders",
            "configs": [
                {"name": "retention.ms", "value": "60000", "source": "topic", "default": False, "read_only": False,
                 "sensitive": False},
            ],
        }
    ),
    "configs alter": Shape({"topic": "orders", "changed": {"retention.ms": "60000"}, "dry_run": False}),
    "produce": Shape({"topic": "orders", "partition": 0, "offset": 17}, "record"),
    "consume": Shape(
        {"topic": "orders", "partition": 0, "offset": 17, "timestamp": 1769860800000, "key": "table 4",
         "value": {"base64": "/w=="}, "headers": [["trace", "1"]]},
        "record",
    ),
    "groups list": Shape(
        {"groups": [{"group_id": "billing", "protocol_type": "consumer", "state": "Stable", "type": "classic"}]}
    ),
    "groups describe": Shape(
        {
            "group_id": "billing", "type": "classic", "state": "Stable", "assignor": "range", "coordinator": 1,
            "epoch": -1,
            "members": [
                {"member_id": "billing-1-0f3c", "instance_id": None, "client_id": "billing-1", "host": "/127.0.0.1",
                 "partitions": [["orders", 0]]},
            ],
            "partitions": [
                {"topic": "orders", "partition": 0, "committed": 10, "end": 17, "lag": 7, "member": "billing-1-0f3c",
                 "client": "billing-1"},
            ],
        }
    ),
    "groups rebalances": Shape(
        {
            "group": "billing",
            "rebalances": [
                {"began_ms": 1769860800000, "duration_ms": 3, "generation": 2, "members": ["billing-1-0f3c"],
                 "slowest": "billing-1-0f3c", "cause": "member billing-1-0f3c joined"},
            ],
        }
    ),
    "groups reset": Shape(
        {
            "group": "billing", "executed": False,
            "partitions": [{"topic": "orders", "partition": 0, "from": 10, "to": 0, "note": ""}],
        }
    ),
    "groups delete": Shape({"deleted": ["billing"]}),
    "groups delete-offsets": Shape({"group": "billing", "partitions": [["orders", 0]]}),
    "transactions list": Shape({"transactions": [{**_TRANSACTION, "producer_id": 7}]}),
    "transactions describe": Shape(
        {**_TRANSACTION, "producer_id": 7, "epoch": 0, "timeout_ms": 60000, "start_ms": 1769860800000,
         "coordinator": 1, "partitions": [["orders", 0]]}
    ),
    "transactions find-hanging": Shape(
        {
            "hanging": [
                {"topic": "orders", "partition": 0, "start_offset": 17, "producer_id": 7, "epoch": 0,
                 "last_ms": 1769860800000, "coordinator_epoch": -1, "transactional_id": "till-4", "reason": "…"},
            ]
        }
    ),
    "transactions abort": Shape(
        {"transactional_id": "till-4", "topic": None, "partition": None, "start_offset": None, "aborted": True}
    ),
    "brokers": Shape(
        {
            "cluster_id": "rEFw_SR8TCajEFJNQugNRQ", "controller": 1,
            "brokers": [
                {"broker": 1, "host": "127.0.0.1", "port": 9092, "alive": True, "draining": False, "leads": 2,
                 "replicas": 6},
            ],
        }
    ),
    "move": Shape(_WARNINGS),
    "drain": Shape({**_WARNINGS, "moves": 2}),
    "dump-log": Shape({"file": "data/1/orders-0/00000000000000000000.log", "entry": "batch", "baseOffset": 0}, "entry"),
    "recover-metadata": Shape(
        {
            "metadata": [
                {"broker": 1, "directory": "data/1/metadata", "epoch": 4, "log_end": 93, "complete": True,
                 "generation": 0, "voters": [1, 2, 3], "problems": None},
            ]
        },
        after_loss={"generation": 1, "brokers": [1, 2]},
    ),
}  # fmt: skip
"""By the command, as it is called."""


def shape_of(prog: str) -> Shape | None:
    """The shape of the command that a parser's `prog` ends with."""
    words = prog.split(" ")
    return SHAPES.get(" ".join(words[-2:])) or SHAPES.get(words[-1])
