"""What the parts of a run have in common: names of topics, of files and of nodes, and the addresses of replicas."""

from __future__ import annotations

from functools import lru_cache

from actors.broker.start import VOTES_FILE
from actors.cluster_file.facts import GROUP as METADATA
from actors.messages.replica import replica_address
from actors.runtime import Address

DATA = "/data"
"""The directory of a broker on its disk."""
JOURNAL = f"{DATA}/{VOTES_FILE}"
CLIENT_NODES = (101, 102)
TOPIC = "t"
"""The topic that every run has, with several replicas of each partition."""
PASSING = "y-"
"""The prefix of topics that come and go while transactions write to them (transactions/passing_topics.py)."""


@lru_cache(maxsize=1000)
def address_of(group: str, broker: int) -> Address:
    """The actor that keeps this broker's replica of a Raft group."""
    return Address("controller", "", broker) if group == METADATA else replica_address(group, broker)
