"""A call that ends in time, though librdkafka may exceed the timeout that it was given.

`send_offsets_to_transaction` waits for ever where librdkafka remembers a group's coordinator at a broker that it has
dropped meanwhile (librdkafka, issues 5456 and 5511). The caller then gives up the producer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException


def within(seconds: float, call: Callable[[], object]) -> None:
    """Raises what the call raises, or that it took too long. It is made on a thread of its own, which may never end."""
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def make() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  it is raised where it was called from
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=make, name="punctual", daemon=True).start()
    try:
        error = ended.get(timeout=seconds)
    except queue.Empty:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"it did not end within {seconds:g} s")) from None
    if error is not None:
        raise error
