"""The states of a group, and what must hold in each.

A state is one number: that of what has happened so far, and shifted behind it those of the replicas' sites. A site is a
replica with the messages that are under way to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve

from log.raft.generation import number_of
from tools.explorer.locals import BrokenInvariant, ExploredFacts, Locals
from tools.explorer.past import Numbered, Past, Pasts
from tools.explorer.scenario import NO_BOUND, Scenario
from tools.explorer.sites import MASK, Event, Site, SiteMove, Sites, place

State = int
Way = tuple[SiteMove, State]


class GroupStates:
    """The successors of a state."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.locals = Locals(scenario)
        self.sites = Sites(scenario, self.locals)
        self.pasts = Pasts()
        self._places = [(self.sites.by_number[broker], place(broker)) for broker in range(scenario.brokers)]
        self._brokers = range(scenario.brokers)
        self._checked: dict[tuple[SiteMove, int], int] = {}
        self._agreed: set[tuple[int, int]] = set()
        self._stands: dict[tuple[int, ...], tuple[bool, tuple[int, ...]]] = {}
        self.terms_max = scenario.terms
        self.timers_max = scenario.timers
        self.has_faults = True

    def first(self) -> State:
        state = self.pasts.of(Past()).number
        for broker in self._brokers:
            state += self.sites.first(broker, self.locals.first(broker)).number << place(broker)
        for a, b in sorted(self.scenario.links):
            for one, other in ((a, b), (b, a)):
                state = self._happen(state, one, ("up", other))
        return state

    def sites_of(self, state: State) -> list[Site]:
        return [sites[state >> shift & MASK] for sites, shift in self._places]

    def past_of(self, state: State) -> Numbered:
        return self.pasts.by_number[state & MASK]

    # -- successors ----------------------------------------------------------------------------------------------

    def successors(self, state: State) -> list[Way]:
        """Everything that can happen now, and the state after it."""
        found: list[tuple[SiteMove, State | None]] = []
        past, sites = self.past_of(state), self.sites_of(state)
        may_fail = self.has_faults and past.past.faults < self.scenario.faults
        has_time = past.past.timers < self.timers_max
        for site in sites:
            choices = site.choices or self.sites.choices(site)
            found += [(move, self._after(state, move, sites, past)) for move in choices.always]
            if may_fail and choices.faults:
                failed = self.pasts.spent(past, "faults")
                found += [(move, self._after(state, move, sites, failed, past)) for move in choices.faults]
            if choices.gone is not None and not self._still_leads(sites, site):
                found.append((choices.gone, self._after(state, choices.gone, sites, past)))
            if has_time and choices.timed:
                found += self._timed(state, site, choices.timed, sites, past)
            if choices.may_append or choices.beats:
                found += self._of_leader(state, site, sites, past)
            elif not site.facts.is_alive:
                found.append((self.sites.move(site, ("start",)), self._start(state, site.broker)))
        if self.has_faults and past.past.crashes < self.scenario.crashes:
            for site in sites:
                if site.facts.is_alive:
                    found += self._crashes(state, site, past)
        return [(move, after) for move, after in found if after is not None]

    def _timed(
        self, state: State, site: Site, timed: list[tuple[SiteMove, bool]], sites: list[Site], past: Numbered
    ) -> Iterator[tuple[SiteMove, State | None]]:
        spent = past if self.timers_max == NO_BOUND else self.pasts.spent(past, "timers")
        is_answered = all(sites[peer].has_answers_only[site.broker] for peer in self.sites.peers[site.broker])
        for move, is_question in timed:
            if is_question and not is_answered:
                continue
            if move.event[0] != "timer" or number_of(site.facts.term) < self.terms_max:
                yield move, self._after(state, move, sites, spent, past)

    def _of_leader(
        self, state: State, site: Site, sites: list[Site], past: Numbered
    ) -> Iterator[tuple[SiteMove, State | None]]:
        choices = self.sites.choices(site)
        if choices.may_append and past.past.batches < self.scenario.batches:
            move = self.sites.move(site, ("append", past.past.batches))
            yield move, self._after(state, move, sites, self.pasts.spent(past, "batches"), past)
        for move, peer in choices.beats:
            other = sites[peer]
            is_behind = other.facts.is_alive and other.facts.watermark < site.facts.watermark
            # A leader that hands over would repeat TimeoutNow with each answer, and the queue would grow without end.
            if is_behind and other.has_answers_only[site.broker] and not site.facts.is_handing_over:
                yield move, self._after(state, move, sites, past)

    def _still_leads(self, sites: list[Site], site: Site) -> bool:
        """Do heartbeats of the leader's process name it as leader? Followers get those outside of the Raft group."""
        other = sites[site.facts.follows]
        is_linked = other.broker in self.sites.peers[site.broker]
        return other.facts.leads and other.facts.term == site.facts.term and is_linked

    def _after(
        self, state: State, move: SiteMove, sites: list[Site], past: Numbered, before: Numbered | None = None
    ) -> State | None:
        """None if that goes beyond the bounds. `past` is what `before` has become by the event."""
        if move.term > self.terms_max:
            return None
        after = state + move.step
        for receiver, word in move.words:
            step = sites[receiver].pushed.get(word)
            after += self.sites.push(sites[receiver], word) if step is None else step
        if before is not None:
            after += past.number - before.number
        if move.is_checked:
            after += self._check(move, sites, past)
        return after

    def _happen(self, state: State, broker: int, event: Event) -> State:
        sites = self.sites_of(state)
        after = self._after(state, self.sites.move(sites[broker], event), sites, self.past_of(state))
        assert after is not None, f"{event} leads to another term"
        return after

    def _start(self, state: State, broker: int) -> State:
        state = self._happen(state, broker, ("start",))
        for peer in self.sites.peers[broker]:
            if self._is_alive(state, peer):
                for one, other in ((broker, peer), (peer, broker)):
                    state = self._happen(state, one, ("up", other))
        return state

    def _crashes(self, state: State, site: Site, past: Numbered) -> Iterator[Way]:
        mine = site.facts
        crashed = state + self.pasts.spent(past, "crashes").number - past.number
        yield self.sites.move(site, ("kill",)), self._crash(crashed, site.broker, ("kill",))
        for kept in sorted({mine.flushed, len(mine.log)}):
            event = ("lose_power", kept)
            yield self.sites.move(site, event), self._crash(crashed, site.broker, event)

    def _crash(self, state: State, broker: int, event: Event) -> State:
        state = self._happen(state, broker, event)
        for peer in self.sites.peers[broker]:
            if self._is_alive(state, peer):
                state = self._happen(state, peer, ("cut", broker))
                state = self._happen(state, peer, ("down", broker))
        return state

    def _is_alive(self, state: State, broker: int) -> bool:
        sites, shift = self._places[broker]
        return sites[state >> shift & MASK].facts.is_alive

    # -- what must hold --------------------------------------------------------------------------------------------

    def _check(self, move: SiteMove, sites: list[Site], past: Numbered) -> int:
        """What is added to the state for what has happened. Raises BrokenInvariant."""
        step = self._checked.get((move, past.number))
        if step is None:
            step = self._checked[move, past.number] = self._note(move, past).number - past.number
        if self.locals.facts[move.before].log != self.locals.facts[move.after].log:
            for other in sites:
                self._check_logs(move.after, other.local)
        return step

    def _note(self, move: SiteMove, past: Numbered) -> Numbered:
        broker, was, mine = move.broker, self.locals.facts[move.before], self.locals.facts[move.after]
        if mine.leads and not was.leads:
            past = self.pasts.of(past.past.with_leader(broker, mine))
        return self.pasts.of(past.past.with_watermark(broker, mine))

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

    def forget_budgets(self, state: State) -> State:
        """The same state with unused budgets of faults and time: they do not matter without bounds."""
        past = self.past_of(state)
        fresh = self.pasts.of(evolve(past.past, crashes=0, faults=0, timers=0))
        return state + fresh.number - past.number

    def has_leader(self, state: State) -> bool:
        """Does a replica lead the latest term, with everything in its log committed?"""
        return self._standing(state)[0]

    def electable(self, state: State) -> tuple[int, ...]:
        """The replicas for which a connected majority of eligible voters may vote."""
        return self._standing(state)[1]

    def _standing(self, state: State) -> tuple[bool, tuple[int, ...]]:
        key = tuple([sites[state >> shift & MASK].standing for sites, shift in self._places])
        known = self._stands.get(key)
        if known is None:
            facts = [self.sites.standings[one] for one in key]
            electable = tuple(broker for broker in self._brokers if self._is_electable(facts, broker))
            known = self._stands[key] = (self._is_led(facts), electable)
        return known

    def _is_led(self, facts: list[ExploredFacts]) -> bool:
        if self.scenario.elections_only:
            return any(one.leads for one in facts)
        latest = max(one.term for one in facts)
        return any(one.leads and one.term == latest and one.watermark == len(one.log) for one in facts)

    def _is_electable(self, facts: list[ExploredFacts], broker: int) -> bool:
        mine = facts[broker]
        alive = [one for one in self._brokers if facts[one].is_alive]
        if not mine.is_alive or broker not in mine.voters:
            return False
        near = {broker, *self.sites.peers[broker]}.intersection(alive)
        willing = [
            voter
            for voter in mine.voters
            if voter in near and facts[voter].generation == mine.generation and facts[voter].last <= mine.last
        ]
        eligible = [voter for voter in willing if facts[voter].is_eligible]
        return len(eligible) > len(mine.voters) // 2 or len(willing) == len(mine.voters)

    # -- descriptions ------------------------------------------------------------------------------------------------

    def describe(self, move: SiteMove) -> str:
        event = move.event
        if event[0] in ("step", "lost", "repeated"):
            what = "" if event[0] == "step" else f"{event[0]}: "
            return f"{what}{event[1]} → {move.broker}: {self.locals.messages[event[2]]}"
        return " ".join(map(str, (move.broker, *event)))

    def describe_state(self, state: State) -> str:
        return "\n".join(f"  {site.broker}: {site.facts}" for site in self.sites_of(state))
