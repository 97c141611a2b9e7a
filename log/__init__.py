"""The partition log and the state replayed from it: pure, synchronous, no sockets and no loop."""
