"""Sites: a replica together with the messages that are under way to it, numbered.

What happens at a site depends on the site alone; it changes the site and adds to the queues of other sites. Both are
computed once: `Move` says what becomes of a site, and `pushed` what becomes of one to which something is sent. A state
of a group has the number of each site at the place of its replica: a move is a difference, and to apply it is to add.
"""

from __future__ import annotations

from typing import Any

from attrs import define

from log.raft.generation import number_of
from tools.explorer.locals import ANSWERS, ExploredFacts, Locals
from tools.explorer.scenario import Scenario

Event = tuple[Any, ...]
BITS = 24
MASK = (1 << BITS) - 1
_NEED_NO_TIME = ("step", "vote_saved", "synced", "start", "leader_gone", "want", "recover")
_FAULTS = ("lost", "repeated", "kill", "lose_power")


def place(broker: int) -> int:
    """By how many bits the number of this replica's site is shifted. The number of the past comes first."""
    return BITS * (broker + 1)


@define(eq=False)
class SiteMove:
    """An event at a site, and what becomes of it."""

    event: Event
    broker: int
    step: int
    """What is added to the state of the group."""
    words: tuple[tuple[int, int], ...]
    """Receivers, and what is sent to each: a sender and its messages, numbered."""
    term: int
    """Of its generation."""
    before: int
    after: int
    """The replica's local states."""
    is_checked: bool
    """Does it lead now, has it committed more, or has its log changed?"""
    needs_no_time: bool
    is_fault: bool


@define(eq=False)
class Site:
    number: int
    broker: int
    local: int
    queues: tuple[tuple[int, ...], ...]
    """The messages under way, by sender."""
    facts: ExploredFacts
    has_answers_only: tuple[bool, ...]
    has_questions_only: tuple[bool, ...]
    """By sender: is nothing else under way from it?"""
    standing: int
    """The number of what matters for liveness."""
    pushed: dict[int, int]
    """What is added to the state of the group when something is sent here."""
    moves: dict[Event, SiteMove]
    choices: Choices | None = None


@define(eq=False)
class Choices:
    """The moves of a site that are possible as far as the site alone can tell."""

    always: list[SiteMove]
    faults: list[SiteMove]
    timed: list[tuple[SiteMove, bool]]
    """Timers that may fire, and whether earlier questions to all others must have been answered."""
    beats: list[tuple[SiteMove, int]]
    gone: SiteMove | None
    may_append: bool


class Sites:
    """The sites of each replica by their numbers."""

    def __init__(self, scenario: Scenario, local_states: Locals) -> None:
        self._scenario = scenario
        self._locals = local_states
        self.by_number: list[list[Site]] = [[] for _ in range(scenario.brokers)]
        self._numbers: dict[tuple[int, int, tuple[tuple[int, ...], ...]], Site] = {}
        links = {*scenario.links, *((b, a) for a, b in scenario.links)}
        brokers = range(scenario.brokers)
        self.peers = [[b for b in brokers if (a, b) in links] for a in brokers]
        self._empty: tuple[tuple[int, ...], ...] = ((),) * scenario.brokers
        self._spoken: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[tuple[int, int], ...]] = {}
        self._kept: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        self._kinds: dict[tuple[int, ...], tuple[bool, bool]] = {(): (True, True)}
        self._words: dict[tuple[int, tuple[int, ...]], int] = {}
        self._by_word: list[tuple[int, tuple[int, ...]]] = []
        self._standings: dict[Any, int] = {}
        self.standings: list[ExploredFacts] = []
        """A replica's facts of each standing."""

    def of(self, broker: int, local: int, queues: tuple[tuple[int, ...], ...]) -> Site:
        site = self._numbers.get((broker, local, queues))
        if site is None:
            site = self._numbers[broker, local, queues] = self._make(broker, local, queues)
        return site

    def first(self, broker: int, local: int) -> Site:
        return self.of(broker, local, self._empty)

    def _make(self, broker: int, local: int, queues: tuple[tuple[int, ...], ...]) -> Site:
        facts, sites = self._locals.facts[local], self.by_number[broker]
        assert len(sites) < MASK, "too many sites for a number's bits"
        kinds = [self._kinds.get(queue) or self._kind(queue) for queue in queues]
        site = Site(
            len(sites), broker, local, queues, facts,
            has_answers_only=tuple([answers for answers, _ in kinds]),
            has_questions_only=tuple([questions for _, questions in kinds]),
            standing=self._standing(facts), pushed={}, moves={},
        )  # fmt: skip
        sites.append(site)
        return site

    def _kind(self, queue: tuple[int, ...]) -> tuple[bool, bool]:
        """Is nothing but answers in this queue? Nothing but questions?"""
        answers = [isinstance(self._locals.messages[one], ANSWERS) for one in queue]
        self._kinds[queue] = all(answers), not any(answers)
        return self._kinds[queue]

    def _standing(self, facts: ExploredFacts) -> int:
        is_whole = facts.watermark == len(facts.log)
        key = (facts.is_alive, facts.leads, facts.term, is_whole, facts.voters, facts.last, facts.is_eligible)
        number = self._standings.setdefault(key, len(self.standings))
        if number == len(self.standings):
            self.standings.append(facts)
        return number

    # -- what changes a site -----------------------------------------------------------------------------------

    def move(self, site: Site, event: Event) -> SiteMove:
        """The site after an event at its replica."""
        move = site.moves.get(event)
        if move is None:
            move = site.moves[event] = self._compute(site, event)
        return move

    def _compute(self, site: Site, event: Event) -> SiteMove:
        queues = site.queues
        if event[0] == "step":
            queues = _with(queues, event[1], queues[event[1]][1:])
            local, out = self._locals.after(site.local, ("step", event[2]))
        elif event[0] in ("lost", "repeated"):
            queue = queues[event[1]]
            queues = _with(queues, event[1], queue[1:] if event[0] == "lost" else (*queue, queue[0]))
            local, out = site.local, ()
        elif event[0] == "cut":
            queues, local, out = _with(queues, event[1], ()), site.local, ()
        else:
            local, out = self._locals.after(site.local, event)
        if not self._locals.facts[local].is_alive:
            queues = self._empty
        elif local != site.local:
            queues = tuple([queue and self._without_void(queue, local) for queue in queues])
        return self._as_move(site, event, self.of(site.broker, local, queues), out)

    def _as_move(self, site: Site, event: Event, after: Site, out: tuple[tuple[int, int], ...]) -> SiteMove:
        was, now = site.facts, after.facts
        is_checked = (
            now is not was
            and now.is_alive
            and ((now.leads and not was.leads) or now.watermark > was.watermark or now.log != was.log)
        )
        return SiteMove(
            event, site.broker, (after.number - site.number) << place(site.broker),
            words=self._say(site.broker, out), term=number_of(now.term), before=site.local, after=after.local,
            is_checked=is_checked and event[0] != "start", needs_no_time=event[0] in _NEED_NO_TIME,
            is_fault=event[0] in _FAULTS,
        )  # fmt: skip

    def _without_void(self, queue: tuple[int, ...], receiver: int) -> tuple[int, ...]:
        kept = self._kept.get((queue, receiver))
        if kept is None:
            kept = tuple(one for one in queue if not self._locals.is_void(one, receiver))
            self._kept[queue, receiver] = kept
        return kept

    def _say(self, sender: int, out: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """Receivers, each with the number of what it is sent."""
        if not out:
            return ()
        spoken = self._spoken.get((sender, out))
        if spoken is None:
            said = {to: tuple(message for other, message in out if other == to) for to, _ in out}
            spoken = tuple((to, self._word(sender, said[to])) for to in self.peers[sender] if to in said)
            self._spoken[sender, out] = spoken
        return spoken

    def _word(self, sender: int, messages: tuple[int, ...]) -> int:
        word = self._words.setdefault((sender, messages), len(self._by_word))
        if word == len(self._by_word):
            self._by_word.append((sender, messages))
        return word

    def push(self, site: Site, word: int) -> int:
        """What is added to the state of the group when this is sent to the site."""
        sender, messages = self._by_word[word]
        step = 0
        if site.facts.is_alive:
            queue = site.queues[sender] + self._without_void(messages, site.local)
            after = self.of(site.broker, site.local, _with(site.queues, sender, queue))
            step = (after.number - site.number) << place(site.broker)
        site.pushed[word] = step
        return step

    # -- what may happen at a site -----------------------------------------------------------------------------

    def choices(self, site: Site) -> Choices:
        if site.choices is None:
            site.choices = self._choose(site)
        return site.choices

    def _choose(self, site: Site) -> Choices:
        mine = site.facts
        heads = [(sender, queue[0]) for sender, queue in enumerate(site.queues) if queue]
        always = [self.move(site, event) for event in self._own_events(mine)]
        always += [self.move(site, ("step", sender, head)) for sender, head in heads]
        faults = []
        if self._scenario.faults:
            faults = [self.move(site, (what, *head)) for head in heads for what in ("lost", "repeated")]
        leads = mine.leads and not self._scenario.elections_only
        return Choices(
            always,
            faults,
            timed=self._timers(site, leads=leads),
            beats=self._beats(site) if leads else [],
            gone=self.move(site, ("leader_gone",)) if mine.is_alive and mine.follows >= 0 else None,
            may_append=leads and not mine.is_handing_over,
        )

    def _own_events(self, mine: ExploredFacts) -> list[Event]:
        events: list[Event] = []
        if mine.is_alive and mine.is_unsaved:
            events.append(("vote_saved",))
        if mine.is_alive and (mine.owes_sync or (self._scenario.flush and mine.flushed < len(mine.log))):
            events.append(("synced",))
        if mine.is_alive and self._scenario.wanted != self._scenario.voters and not mine.moved:
            events.append(("want", self._scenario.wanted))
        if mine.is_alive and self._scenario.survivors and not mine.generation:
            events.append(("recover", self._scenario.survivors))
        return events

    def _timers(self, site: Site, *, leads: bool) -> list[tuple[SiteMove, bool]]:
        mine = site.facts
        is_answered = all(site.has_questions_only[peer] for peer in self.peers[site.broker])
        timers = []
        if mine.is_alive and mine.timer and is_answered:
            timers.append((self.move(site, ("timer",)), True))
        if leads:
            timers.append((self.move(site, ("unheard",)), False))
            if mine.is_handing_over:
                timers.append((self.move(site, ("give_up",)), False))
            if mine.owes_word and is_answered:
                timers.append((self.move(site, ("resend",)), True))
            if self._scenario.stalls and mine.may_stall and is_answered:
                timers.append((self.move(site, ("stall",)), True))
        return timers

    def _beats(self, site: Site) -> list[tuple[SiteMove, int]]:
        peers = [peer for peer in self.peers[site.broker] if site.has_questions_only[peer]]
        return [(self.move(site, ("beat", peer)), peer) for peer in peers]


def _with(queues: tuple[tuple[int, ...], ...], at: int, queue: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return (*queues[:at], queue, *queues[at + 1 :])
