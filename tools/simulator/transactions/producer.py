"""Producers of transactions: over several partitions, committed or aborted, now and then left alone, or held too long.

Some do what no client should, as a network that delays and repeats would make it look: they end a transaction once
more when the next has begun, send an old batch again, or write to a partition that is in no transaction.
"""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from tools.simulator.transactions.client import Rest, Script
from tools.simulator.transactions.transactor import SentBatch, TransactionSteps

_COMMIT_SHARE = 0.65
_HOLD_SHARE = 0.07
_ATTEMPTS = (1, 3, 10)
_ATTEMPTS_IN_THE_END = 100


class TransactionalProducer(TransactionSteps):
    """See the module's docstring."""

    def live(self) -> Script:
        yield from self.initialise()
        while not self.finishing:
            clean = yield from self._transact()
            yield Rest(self.rng.expovariate(1 / self.services.settings.think_s))
            if not clean:
                yield Rest(self.rng.choice((0.0, 0.0, 0.3)))
                if not self.finishing:
                    yield from self.initialise()
        self.finished = True

    def _transact(self) -> Script:
        """One transaction. May the next go on from there?"""
        settings, count = self.services.settings, self.services.settings.partitions
        name = self.begin()
        partitions = sorted(self.rng.sample(range(count), self.rng.randint(1, count)))
        clean = True
        if not self.member.is_new:
            clean = yield from self.add(partitions)
        misbehaves = self.rng.random() < settings.mischief
        if clean and misbehaves:
            yield from self._repeat(partitions)
        for _ in range(self.rng.choice((1, 1, 2))):
            if clean:
                batches = [self._next_batch(name, at) for at in partitions for _ in range(self.rng.choice((1, 1, 2)))]
                clean = yield from self.produce(batches, attempts_max=self._attempts())
            if self.rng.random() < settings.vanish:
                self.vanish()
        if clean and misbehaves:
            clean = yield from self._misbehave(name, partitions)
        if self.rng.random() < _HOLD_SHARE and not self.finishing:
            yield Rest(self.rng.choice((0.9, 1.5)) * self.member.timeout_ms / 1000)
        commit = clean and self.rng.random() < _COMMIT_SHARE
        ended = yield from self.end(name, commit=commit)
        return ended and (clean or self.member.is_new)

    def _attempts(self) -> int:
        return _ATTEMPTS_IN_THE_END if self.finishing else self.rng.choice(_ATTEMPTS)

    def _next_batch(self, name: str, partition: int) -> SentBatch:
        first = self._sequences[partition]
        values = tuple(f"{name}|{partition}|{first + at}" for at in range(self.rng.choice((1, 1, 2, 3))))
        return self.batch(name, partition, values)

    # -- what it should not do -------------------------------------------------------------------------------------

    def _repeat(self, partitions: list[int]) -> Script:
        """Send once more what was acknowledged in an earlier transaction."""
        known = [self._last_batches[at] for at in partitions if at in self._last_batches]
        if known:
            one = self.rng.choice(known)
            (leader,) = yield from self.leaders(self.services.topic, [one.partition])
            yield self.asking(one, leader)

    def _misbehave(self, name: str, partitions: list[int]) -> Script:
        if self.member.is_new:
            last = self._last_end
            if last is not None:
                yield from self.end_once(last.transaction, last.request, last.producer)
            return True
        outside = [at for at in range(self.services.settings.partitions) if at not in partitions]
        if not outside:
            return True
        batch = self._next_batch(f"{name}!", self.rng.choice(outside))
        yield from self.produce([batch], attempts_max=1)
        if batch.error == ErrorCode.NONE:
            self.view.violate(
                "what is in no transaction is refused", f"{batch.values} in partition {batch.partition} of {name}"
            )
        return False
