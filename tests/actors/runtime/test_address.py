from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime import Address
from actors.runtime.address import in_order
from actors.runtime.errors import AddressError
from tests.actors.runtime.probes import PATIENT

kinds = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
names = st.just("") | st.text(min_size=1).filter(lambda text: re.search(r"[@\s]", text) is None)
brokers = st.integers(-1, 2**31 - 1)


@PATIENT
@given(kinds, names, brokers)
def test_an_address_survives_its_text(kind: str, name: str, broker: int) -> None:
    address = Address(kind, name, broker)
    assert Address.parse(str(address)) == address
    assert Address.parse(address.encoded.decode()) == address


@PATIENT
@given(st.text())
def test_any_text_is_an_address_or_is_refused_by_name(text: str) -> None:
    try:
        address = Address.parse(text)
    except AddressError as error:
        assert repr(text[:300]) in str(error)  # noqa: PT017  any text may also be an address
    else:
        assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["", "replica", "@1", "replica@", "Replica@1", "replica/@1", "replica/a b@1", "replica/a@b@1", "replica@1\n",
     "replica@one", "replica@--1", "9lives@1", "replica/\ud800@1", "replica@99999999999"],
)  # fmt: skip
def test_a_bad_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(AddressError, match="is no actor address; write kind@broker") as raised:
        Address.parse(text)
    assert repr(text) in str(raised.value)


def test_the_parts_are_checked_as_the_text_is() -> None:
    with pytest.raises(AddressError):
        Address("replica", "with space", 1)
    with pytest.raises(AddressError):
        Address("", "", 1)


@pytest.mark.parametrize("letter", ["a", "é", "漢"])
def test_an_address_that_would_not_fit_into_a_frame_is_refused(letter: str) -> None:
    size = len(letter.encode())
    Address("a", letter * ((0xFFFF - 4) // size), 1)
    with pytest.raises(AddressError):
        Address("a", letter * ((0xFFFF - 4) // size + 1), 1)


def test_addresses_sort_by_kind_then_name_then_broker() -> None:
    texts = ["a@2", "a/x@1", "a/y@0", "b@0"]
    assert [str(a) for a in in_order(Address.parse(t) for t in reversed(texts))] == texts
