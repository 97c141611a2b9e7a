"""What can go wrong between actors, one small tree.

`pykka.ActorDeadError` and `pykka.Timeout` keep pykka's meaning and are raised as they are.
"""

from __future__ import annotations

import pykka


class RuntimeFault(Exception):
    """The root of every error of the actor runtime."""


class MailboxFull(RuntimeFault):
    """The receiver (or the link to it) has no room; nothing was delivered, so sending again later is safe."""


class BlockingCall(RuntimeFault):
    """A blocking ask on the loop's own thread: the loop would stand still, and the answer would never come."""


class LinkLost(pykka.ActorDeadError):
    """The link broke before the answer came. Whether the message was handled is unknown."""


class RemoteFailure(RuntimeFault):
    """The handler of an ask failed in another process; the text names the exception and what it said."""


class CodecError(RuntimeFault):
    """A message cannot be encoded, or bytes are not the message they claim to be."""


class FrameError(RuntimeFault):
    """A peer sent bytes that are not a frame of this protocol version. Its link is closed."""


class HandshakeRefused(RuntimeFault):
    """A peer speaks another version, belongs to another cluster, or is not accepted now."""


class AddressError(RuntimeFault, ValueError):
    """A text is not an actor address."""
