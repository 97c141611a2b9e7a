from __future__ import annotations

import socket

import pytest

from actors.broker.broker import bind


def test_a_found_port_is_none_that_an_outgoing_connection_may_take() -> None:
    with bind("127.0.0.1", 0, kept_port=0) as listener:
        found = listener.getsockname()[1]
        assert 16_384 <= found < 32_768
    with bind("127.0.0.1", 0, kept_port=found) as listener:
        assert listener.getsockname()[1] == found


def test_a_kept_port_that_is_taken_is_replaced_and_a_port_that_was_asked_for_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        taken = busy.getsockname()[1]
        with bind("127.0.0.1", 0, kept_port=taken) as listener:
            assert listener.getsockname()[1] != taken
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{taken}: Address already in use"):
            bind("127.0.0.1", taken, kept_port=0)
