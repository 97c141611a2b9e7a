"""Has a transaction ended since something was asked about it? Offsets that were vouched for before its marker are void.

    guard = guards.now                              when the question goes out
    guards.came(producer_id, next_epoch)            a marker comes
    guards.refusal(guard, producer_id, epoch)       when the answer is here

Markers of all producers are counted together, so that no number comes twice.
"""

from __future__ import annotations

from protocol.error_codes import ErrorCode

PRODUCERS_MAX = 100_000


class MarkerGuards:
    """The markers that came to one partition of __consumer_offsets."""

    __slots__ = ("_forgotten", "_last", "now")

    def __init__(self) -> None:
        self.now = 0
        """How many markers have come."""
        self._last: dict[int, tuple[int, int]] = {}
        """The number of each producer's last marker, and the first epoch that it was not meant for. Oldest first."""
        self._forgotten = 0
        """The number of the last marker that was forgotten."""

    def came(self, producer_id: int, next_epoch: int) -> None:
        self.now += 1
        self._last.pop(producer_id, None)
        self._last[producer_id] = self.now, next_epoch
        if len(self._last) > PRODUCERS_MAX:
            self._forgotten, _ = self._last.pop(next(iter(self._last)))

    def refusal(self, guard: int, producer_id: int, epoch: int) -> ErrorCode:
        """Why an answer to a question with this guard is void, or NONE."""
        number, next_epoch = self._last.get(producer_id, (0, 0))
        if number > guard and epoch < next_epoch:
            return ErrorCode.INVALID_TXN_STATE
        if number == 0 and self._forgotten > guard:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # it is unknown: ask again
        return ErrorCode.NONE
