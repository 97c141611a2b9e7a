"""Keys go where Kafka's own clients send them."""

from __future__ import annotations

import warnings

import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given
from hypothesis import strategies as st

from protocol.partitioner import murmur2, partition_for_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its own files in an old way
    from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

GOLDEN = {  # what Apache Kafka's own hash gives, as signed numbers
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), GOLDEN.items(), ids=lambda value: str(value)[:20])
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=70))
def test_the_hash_is_that_of_other_clients(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF
    assert murmur2(key) == murmur2_of_aiokafka(key) & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_every_key_has_a_partition(key: bytes, partitions: int) -> None:
    assert partition_for_key(key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions
    assert 0 <= partition_for_key(key, partitions) < partitions


def test_an_empty_key_is_a_key() -> None:
    assert partition_for_key(b"", 7) == (murmur2_of_kafka_python(b"") & 0x7FFFFFFF) % 7
