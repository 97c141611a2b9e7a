"""The states of a group, and what must hold in each.

A state is a tuple of numbers: of the replicas' states, of what is under way on each link, of what was used up of the
scenario's budgets, of who led which term, and of what was ever committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tools.explorer.locals import ANSWERS, BrokenInvariant, Facts, Locals
from tools.explorer.scenario import NO_BOUND, Scenario

State = tuple[int, ...]
Event = tuple[Any, ...]
_CRASHES, _FAULTS, _BATCHES, _TIMERS, _LEADERS, _COMMITTED = -6, -5, -4, -3, -2, -1
_OF_TIME = ("timer", "unheard", "resend", "give_up")


class World:
    """The successors of a state."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.locals = Locals(scenario)
        self._brokers = range(scenario.brokers)
        both_ways = sorted({*scenario.links, *((b, a) for a, b in scenario.links)})
        self._channels = {pair: scenario.brokers + at for at, pair in enumerate(both_ways)}
        """Where in a state that stands which goes from one to the other."""
        self._peers = {a: [b for b in self._brokers if (a, b) in self._channels] for a in self._brokers}
        self._directions = [(a, b, at) for (a, b), at in self._channels.items()]
        self._incoming = {a: [self._channels[b, a] for b in self._peers[a]] for a in self._brokers}
        self._has_move = scenario.wanted != scenario.voters
        self._queues: dict[tuple[int, ...], int] = {(): 0}
        self._queued: list[tuple[int, ...]] = [()]
        self._pushed: dict[tuple[int, int], int] = {}
        self._only: dict[tuple[int, bool], bool] = {}
        self._popped: dict[int, int] = {}
        self._kept: dict[tuple[int, int], int] = {}
        self._values: dict[Any, int] = {}
        self._by_value: list[Any] = []
        self._agreed: set[tuple[int, int]] = set()
        self.terms_max = scenario.terms
        self.timers_max = scenario.timers
        self.has_faults = True

    def first(self) -> State:
        state = [self.locals.first(broker) for broker in self._brokers]
        state += [0] * len(self._channels)
        state += [0, 0, 0, 0, self._value(()), self._value(())]
        for a, b in sorted(self.scenario.links):
            for one, other in ((a, b), (b, a)):
                state[one], _ = self.locals.after(state[one], ("up", other))
        return tuple(state)

    # -- successors ----------------------------------------------------------------------------------------------

    def successors(self, state: State) -> list[tuple[Event, State]]:
        """Every event that can happen now, and the state after it."""
        found: list[tuple[Event, State | None]] = []
        facts = self.locals.facts
        for broker in self._brokers:
            events = self._events(state, broker, facts[state[broker]])
            found += [((broker, *event), self._apply(state, broker, event)) for event in events]
        for sender, receiver, at in self._directions:
            if state[at]:
                head = self._queued[state[at]][0]
                found.append(((sender, "to", receiver, head), self._deliver(state, at, receiver)))
                if self.has_faults and state[_FAULTS] < self.scenario.faults:
                    found.append((("lost", sender, receiver, head), self._lose(state, at)))
                    found.append((("repeated", sender, receiver, head), self._repeat(state, at, head)))
        if self.has_faults and state[_CRASHES] < self.scenario.crashes:
            found += self._crashes(state)
        return [(event, after) for event, after in found if after is not None]

    def _events(self, state: State, broker: int, mine: Facts) -> list[Event]:
        if not mine.is_alive:
            return [("start",)]
        events: list[Event] = []
        if mine.is_unsaved:
            events.append(("vote_saved",))
        if self.scenario.flush and mine.flushed < len(mine.log):
            events.append(("synced",))
        if self._has_move and not mine.moved:
            events.append(("want", self.scenario.wanted))
        if mine.follows >= 0 and not self._still_leads(state, broker, mine):
            events.append(("leader_gone",))
        has_time = state[_TIMERS] < self.timers_max
        if has_time and mine.timer and mine.term < self.terms_max and self._may_ask(state, broker):
            events.append(("timer",))
        if mine.leads and not self.scenario.elections_only:
            self._add_events_of_leader(events, state, broker, mine)
        return events

    def _add_events_of_leader(self, events: list[Event], state: State, broker: int, mine: Facts) -> None:
        if not mine.is_handing_over and state[_BATCHES] < self.scenario.batches:
            events.append(("append", state[_BATCHES]))
        for peer in self._peers[broker]:
            other = self.locals.facts[state[peer]]
            if other.is_alive and other.watermark < mine.watermark and self._is_answered(state, broker, peer):
                events.append(("beat", peer))
        if state[_TIMERS] < self.timers_max:
            events.append(("unheard",))
            if mine.is_handing_over:
                events.append(("give_up",))
            if mine.owes_word and self._may_ask(state, broker):
                events.append(("resend",))

    def _may_ask(self, state: State, broker: int) -> bool:
        """Have its earlier questions arrived, and their answers, too? Questions of others may be under way."""
        return all(self._is_answered(state, broker, peer) for peer in self._peers[broker])

    def _is_answered(self, state: State, broker: int, peer: int) -> bool:
        out, back = state[self._channels[broker, peer]], state[self._channels[peer, broker]]
        return (not out or self._is_only(out, answers=True)) and (not back or self._is_only(back, answers=False))

    def _is_only(self, queue: int, *, answers: bool) -> bool:
        """Is nothing but answers in this queue, or nothing but questions?"""
        only = self._only.get((queue, answers))
        if only is None:
            messages = [self.locals.messages[one] for one in self._queued[queue]]
            only = all(isinstance(message, ANSWERS) == answers for message in messages)
            self._only[queue, answers] = only
        return only

    def _still_leads(self, state: State, broker: int, mine: Facts) -> bool:
        """Does the process of the leader say that it leads? Followers hear that beside the group."""
        other = self.locals.facts[state[mine.follows]]
        return other.leads and other.term == mine.term and (broker, mine.follows) in self._channels

    def _apply(self, state: State, broker: int, event: Event) -> State | None:
        """None if that goes beyond the bounds."""
        if event[0] == "start":
            return self._start(state, broker)
        after = list(state)
        if event[0] == "append":
            after[_BATCHES] += 1
        elif event[0] in _OF_TIME and self.scenario.timers < NO_BOUND:
            after[_TIMERS] += 1
        return self._happen(state, after, broker, event)

    def _deliver(self, state: State, at: int, receiver: int) -> State | None:
        head, after = self._queued[state[at]][0], list(state)
        after[at] = self._pop(state[at])
        return self._happen(state, after, receiver, ("step", head))

    def _happen(self, state: State, after: list[int], broker: int, event: Event) -> State | None:
        """`after` is the state before, but for the queue from which a message was taken. None beyond the bounds."""
        facts = self.locals.facts
        after[broker], out = self.locals.after(state[broker], event)
        mine = facts[after[broker]]
        if mine.term > self.terms_max:
            return None
        for to, message in out:
            at = self._channels.get((broker, to))
            if at is not None and facts[after[to]].is_alive and not self.locals.is_void(message, after[to]):
                after[at] = self._push(after[at], message)
        if after[broker] != state[broker]:
            self._check(state, after, broker)
            for at in self._incoming[broker]:
                if after[at]:
                    after[at] = self._without_void(after[at], after[broker])
        return tuple(after)

    def _start(self, state: State, broker: int) -> State:
        after = list(state)
        after[broker], _ = self.locals.after(state[broker], ("start",))
        for peer in self._peers[broker]:
            if self.locals.facts[after[peer]].is_alive:
                for one, other in ((broker, peer), (peer, broker)):
                    step = self._happen(tuple(after), list(after), one, ("up", other))
                    assert step is not None
                    after = list(step)
        return tuple(after)

    def _crashes(self, state: State) -> Iterator[tuple[Event, State]]:
        for broker in self._brokers:
            mine = self.locals.facts[state[broker]]
            if not mine.is_alive:
                continue
            yield (broker, "kill"), self._crash(state, broker, ("kill",))
            for kept in sorted({mine.flushed, len(mine.log)}):
                yield (broker, "lose_power", kept), self._crash(state, broker, ("lose_power", kept))

    def _crash(self, state: State, broker: int, event: Event) -> State:
        after = list(state)
        after[_CRASHES] += 1
        after[broker], _ = self.locals.after(state[broker], event)
        for peer in self._peers[broker]:
            after[self._channels[broker, peer]] = after[self._channels[peer, broker]] = 0
            if self.locals.facts[after[peer]].is_alive:
                step = self._happen(tuple(after), list(after), peer, ("down", broker))
                assert step is not None
                after = list(step)
        return tuple(after)

    def _lose(self, state: State, at: int) -> State:
        after = list(state)
        after[at] = self._pop(state[at])
        after[_FAULTS] += 1
        return tuple(after)

    def _repeat(self, state: State, at: int, message: int) -> State:
        """Once now, and once more behind everything that is under way."""
        after = list(state)
        after[at] = self._push(state[at], message)
        after[_FAULTS] += 1
        return tuple(after)

    # -- numbers -------------------------------------------------------------------------------------------------

    def _queue(self, messages: tuple[int, ...]) -> int:
        number = self._queues.setdefault(messages, len(self._queued))
        if number == len(self._queued):
            self._queued.append(messages)
        return number

    def _push(self, queue: int, message: int) -> int:
        number = self._pushed.get((queue, message))
        if number is None:
            number = self._pushed[queue, message] = self._queue((*self._queued[queue], message))
        return number

    def _pop(self, queue: int) -> int:
        number = self._popped.get(queue)
        if number is None:
            number = self._popped[queue] = self._queue(self._queued[queue][1:])
        return number

    def _without_void(self, queue: int, receiver: int) -> int:
        kept = self._kept.get((queue, receiver))
        if kept is None:
            messages = [one for one in self._queued[queue] if not self.locals.is_void(one, receiver)]
            kept = self._kept[queue, receiver] = self._queue(tuple(messages))
        return kept

    def _value(self, value: Any) -> int:
        number = self._values.setdefault(value, len(self._by_value))
        if number == len(self._by_value):
            self._by_value.append(value)
        return number

    # -- what must hold --------------------------------------------------------------------------------------------

    def _check(self, before: State, after: list[int], broker: int) -> None:
        was, mine = self.locals.facts[before[broker]], self.locals.facts[after[broker]]
        if not mine.is_alive:
            return
        committed: tuple[tuple[int, int], ...] = self._by_value[after[_COMMITTED]]
        if mine.leads and not was.leads:
            self._note_leader(after, broker, mine, committed)
        if mine.watermark > len(committed):
            committed += tuple((batch, mine.term) for batch in mine.log[len(committed) : mine.watermark])
            after[_COMMITTED] = self._value(committed)
        if mine.watermark > was.watermark or mine.log != was.log:
            for offset in range(mine.watermark):
                if mine.log[offset] != committed[offset][0]:
                    raise BrokenInvariant(f"{broker} has another batch at {offset} than was committed there")
        if mine.log != was.log:
            for other in self._brokers:
                self._check_logs(after[broker], after[other])

    def _note_leader(self, after: list[int], broker: int, mine: Facts, committed: tuple[tuple[int, int], ...]) -> None:
        leaders: tuple[tuple[int, int], ...] = self._by_value[after[_LEADERS]]
        for term, leader in leaders:
            if term == mine.term and leader != broker:
                raise BrokenInvariant(f"two leaders in term {term}: {leader} and {broker}")
        after[_LEADERS] = self._value(tuple(sorted({*leaders, (mine.term, broker)})))
        for offset, (batch, committed_in) in enumerate(committed):
            if committed_in < mine.term and mine.log[offset : offset + 1] != (batch,):
                raise BrokenInvariant(f"{broker} leads term {mine.term} without what was committed at {offset}")

    def _check_logs(self, one: int, other: int) -> None:
        """Where two logs have a batch of the same epoch at the same offset, they agree up to there."""
        if (one, other) in self._agreed or one == other:
            return
        mine, others = self.locals.facts[one].log, self.locals.facts[other].log
        epochs = self.locals.epochs
        pairs = enumerate(zip(mine, others, strict=False))
        meet = max((at + 1 for at, (a, b) in pairs if epochs[a] == epochs[b]), default=0)
        if mine[:meet] != others[:meet]:
            raise BrokenInvariant("two logs agree on a batch and not on what comes before it")
        self._agreed.add((one, other))

    # -- liveness --------------------------------------------------------------------------------------------------

    @contextmanager
    def without_bounds(self) -> Iterator[None]:
        """Look further than the scenario, and let nothing fail there."""
        self.terms_max, self.timers_max, self.has_faults = NO_BOUND, NO_BOUND, False
        try:
            yield
        finally:
            self.terms_max, self.timers_max, self.has_faults = self.scenario.terms, self.scenario.timers, True

    def has_leader(self, state: State) -> bool:
        """Does somebody lead the latest term, with everything in its log committed?"""
        facts = [self.locals.facts[state[broker]] for broker in self._brokers]
        if self.scenario.elections_only:
            return any(one.leads for one in facts)
        latest = max(one.term for one in facts)
        return any(one.leads and one.term == latest and one.watermark == len(one.log) for one in facts)

    def electable(self, state: State) -> list[int]:
        """The replicas for which a connected majority of eligible voters may vote."""
        return [broker for broker in self._brokers if self._is_electable(state, broker)]

    def _is_electable(self, state: State, broker: int) -> bool:
        facts = self.locals.facts
        mine = facts[state[broker]]
        if not mine.is_alive or broker not in mine.voters:
            return False
        near = [broker, *self._peers[broker]]
        willing = [
            voter
            for voter in mine.voters
            if voter in near and facts[state[voter]].is_alive and facts[state[voter]].last <= mine.last
        ]
        eligible = [voter for voter in willing if facts[state[voter]].is_eligible]
        return len(eligible) > len(mine.voters) // 2 or len(willing) == len(mine.voters)

    def describe(self, event: Event) -> str:
        if event[1] == "to":
            return f"{event[0]} → {event[2]}: {self.locals.messages[event[3]]}"
        if event[0] in ("lost", "repeated"):
            return f"{event[0]}: {event[1]} → {event[2]}: {self.locals.messages[event[3]]}"
        return " ".join(map(str, event))

    def describe_state(self, state: State) -> str:
        lines = []
        for broker in self._brokers:
            one = self.locals.facts[state[broker]]
            lines.append(f"  {broker}: {one}")
        return "\n".join(lines)
