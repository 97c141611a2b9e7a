"""Brokers 1 to N of one cluster, from their start to their end, and what a test does to them.

All brokers run in this process, on a thread of their own. With `processes=True` each has an OS process and `kill` is
`kill -9`; nothing else changes. Works with any test framework, in plain scripts, and under trio (`async with`).
The data directory is a temporary one unless given; on exit every broker is ended and a temporary directory removed.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Self

import trio

from actors.broker.broker import ExtraActor
from actors.broker.instruments import Instruments
from actors.cluster_file.config import BrokerConfig, ClusterConfig, KafkaConfig, TopicConfig
from actors.control.admin import Admin
from actors.harness.calendar_clock import ClusterClock, ShiftedClock
from actors.harness.coordinators import Coordinators
from actors.harness.disks import BrokerDisk, TroubledFilesystem
from actors.harness.errors import HarnessError
from actors.harness.known_clients import KnownClients
from actors.harness.leader_history import LeaderChange, LeaderHistory, WatchedLeadership
from actors.harness.log_lines import LogLines
from actors.harness.options import kafka_config
from actors.harness.pausing import PausableScheduler
from actors.harness.protocol_faults import ProtocolFaults, Undoable
from actors.messages.process import BrokerStatus
from actors.process.hosts import Host, LocalHost, ProcessHost
from actors.process.launcher import Launcher, open_launcher
from actors.runtime import Address, AnyRef, Scheduler
from actors.runtime.loop.low_level import TrioToken, current_trio_token

START_SECONDS = 30.0
LEADER_SECONDS = 10.0
LOOK_SECONDS = 0.01
_NOT_RUNNING = "this cluster does not run; start it, or use it inside `with`"


class Cluster:
    """N brokers, ids 1 to N, on free ports of 127.0.0.1."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        processes: bool = False,
        data_dir: Path | None = None,
        name: str = "harness",
        topics: Iterable[TopicConfig] = (),
        config: KafkaConfig | Mapping[str, object] | None = None,
        actors: Iterable[ExtraActor] = (),
        log_level: str = "warning",
        advertised: Mapping[int, tuple[str, int]] | None = None,
    ) -> None:
        if brokers < 1:
            raise HarnessError(f"a cluster needs at least one broker, not {brokers}")
        self.processes = processes
        self.brokers = tuple(range(1, brokers + 1))
        self._name = name
        self._given_data_dir = data_dir
        self._topics = tuple(topics)
        self._kafka_config = kafka_config(config, brokers)
        self._actors = tuple(actors)
        self._log_level = log_level
        self._advertised = dict(advertised or {})
        self._cut: set[frozenset[int]] = set()
        self._protocol_faults = ProtocolFaults()
        self._clients = KnownClients(self._protocol_faults)
        self._calendar = ShiftedClock()
        self._schedulers: dict[int, PausableScheduler] = {}
        self._disks = {
            broker: BrokerDisk(partial(self._hold, broker), is_temporary=data_dir is None) for broker in self.brokers
        }
        self._paused: set[int] = set()
        self._history = LeaderHistory()
        self._lines = LogLines(log_level)
        self._thread: threading.Thread | None = None
        self._launcher: Launcher | None = None
        self._token: TrioToken | None = None
        self._nursery: trio.Nursery
        self._scope: trio.CancelScope
        self._end: trio.Event
        self._failure: BaseException | None = None

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every broker and wait until all of them serve and are linked."""
        if self._thread is not None:
            raise HarnessError("this cluster runs already")
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._scope, self._end, self._failure = trio.CancelScope(), trio.Event(), None
        self._cut.clear()
        self._paused.clear()
        self._history.begin()
        self._thread = threading.Thread(target=self._run, args=(started,), name="barnabas-cluster", daemon=True)
        self._thread.start()
        try:
            started.result()
        except BaseException:
            if started.cancel():  # this thread was interrupted; the other one does not know
                self._soon(self._scope.cancel)
            self._thread.join()
            self._thread = None
            raise

    def stop(self) -> None:
        """End every broker cleanly and remove what was temporary. A second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._soon(self._end.set)
        thread.join()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await trio.to_thread.run_sync(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self.stop)

    # -- what it is ------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of the brokers that serve."""
        return self._running.bootstrap

    @property
    def pids(self) -> dict[int, int]:
        """The process of each living broker: this one, unless `processes=True`."""
        return self._running.pids

    @property
    def alive(self) -> tuple[int, ...]:
        """The brokers that were not killed or ended; a paused one is among them."""
        return tuple(self._running.pids)

    @property
    def clients(self) -> dict[str, str]:
        """The client id by the client's `host:port`, of the last connections; none if brokers have a process each."""
        return self._clients.ids

    @property
    def _awake(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.alive if broker not in self._paused)

    # -- for the report of a test that failed ------------------------------------------------------------------

    def broker_log(self, broker: int | None = None) -> list[str]:
        """The last lines that a broker, or all brokers and the launcher, logged; `log_level` says from which level on.

        Of brokers with a process each, which write to stderr, only the launcher's lines are here.
        """
        if broker is not None:
            self._must_know(broker)
        return self._lines.of(broker)

    def leader_history(self) -> list[LeaderChange]:
        """Each beginning of a leadership: broker, partition and time. Empty for brokers with a process each."""
        return self._history.changes

    # -- its topics --------------------------------------------------------------------------------------------

    @property
    def admin(self) -> Admin:
        """Creates, changes, moves and deletes topics, and describes the cluster."""
        return Admin(self.ask, lambda: self._awake)

    def group(self, topic: str, partition: int) -> str:
        """The name of a partition's Raft group: its replicas live at `replica/<name>@<broker>`."""
        return self.admin.group(topic, partition)

    def leader(self, topic: str, partition: int) -> int:
        """The living broker that leads this partition. Waits while a leader is being elected."""
        deadline = time.monotonic() + LEADER_SECONDS
        while True:
            partitions = self.admin.topic(topic)["partitions"]
            if not 0 <= partition < len(partitions):
                raise HarnessError(f"topic {topic} has no partition {partition}; it has 0 to {len(partitions) - 1}")
            leader: int | None = partitions[partition]["leader"]
            if leader is not None and leader in self.alive:
                return leader
            if time.monotonic() >= deadline:
                raise HarnessError(f"no living broker leads {topic}-{partition} after {LEADER_SECONDS:g} s")
            time.sleep(LOOK_SECONDS)

    # -- its actors ------------------------------------------------------------------------------------------

    def ref(self, address: Address | str) -> AnyRef:
        """A reference to any actor of the cluster; `tell` and the blocking `ask` work from this thread."""
        return self._running.node.ref(Address.parse(address) if isinstance(address, str) else address)

    def ask(self, address: Address | str, message: Any, *, timeout: float = 5.0) -> Any:
        """Ask an actor and wait for its answer."""
        return self.ref(address).ask(message, timeout=timeout)

    def tell(self, address: Address | str, message: Any) -> None:
        self.ref(address).tell(message)

    # -- faults ----------------------------------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """`kill -9` a broker, and wait until it is dead and its peers know."""
        self._must_know(broker)
        if broker in self.alive:
            self._call(self._lose, broker, self._running.kill)

    def kill_leader(self, topic: str, partition: int) -> int:
        """Kill the broker that leads this partition. Gives its id; another replica is elected."""
        leader = self.leader(topic, partition)
        self.kill(leader)
        return leader

    def end(self, broker: int) -> None:
        """End a broker cleanly, as SIGTERM does: others lead before it goes. `restart` brings it back."""
        self._must_know(broker)
        if broker in self.alive:
            self._call(self._lose, broker, self._running.end)

    def restart(self, broker: int) -> None:
        """Start a dead broker again on its old port and directory, and wait until it is linked."""
        self._must_know(broker)
        if broker in self.alive:
            raise HarnessError(f"broker {broker} is alive; kill it first")
        self._call(self._start_broker, broker)

    def pause(self, broker: int) -> None:
        """Stop a broker as SIGSTOP does: it does nothing until it is resumed, and knows nothing of it."""
        self._must_live(broker)
        self._paused.add(broker)
        if self.processes:
            os.kill(self.pids[broker], signal.SIGSTOP)
        else:
            self._call(self._on_loop, self._schedulers[broker].pause)

    def resume(self, broker: int) -> None:
        """Let a paused broker go on."""
        self._must_live(broker)
        self._paused.discard(broker)
        if self.processes:
            os.kill(self.pids[broker], signal.SIGCONT)
        else:
            self._call(self._on_loop, self._schedulers[broker].resume)

    def fill_disk(self, broker: int) -> Undoable:
        """Let a broker's disk be full: it takes no records, and what it leads goes to others."""
        disk = self._disk_of(broker, "fill_disk")

        def set_room(room: int | None) -> None:
            disk.room = room

        set_room(0)
        return Undoable(partial(set_room, None))

    def slow_disk(self, broker: int, ms: float) -> Undoable:
        """Let each write and each sync of a broker's disk take so many milliseconds longer."""
        disk = self._disk_of(broker, "slow_disk")
        if not 0 <= ms < float("inf"):
            raise HarnessError(f"slow_disk: a disk cannot be slower by {ms:g} ms")

        def set_delay(seconds: float) -> None:
            disk.delay_seconds = seconds

        set_delay(ms / 1000)
        return Undoable(partial(set_delay, 0.0))

    def cut(self, a: int, b: int) -> None:
        """Break the link between two brokers and keep it broken."""
        self._must_know(a)
        self._must_know(b)
        if a == b:
            raise HarnessError(f"broker {a} has no link to itself")
        self._call(self._cut_links, a, b)

    def heal(self) -> None:
        """Mend every link that was cut, and wait until they stand again."""
        self._call(self._heal)

    @property
    def faults(self) -> ProtocolFaults:
        """Faults of Kafka's protocol."""
        self._must_share_process("protocol faults")
        return self._protocol_faults

    @property
    def clock(self) -> ClusterClock:
        """The calendar of the cluster."""
        self._must_share_process("clock")
        return ClusterClock(self._calendar, self._let_time_pass)

    def expire(self, group: str, member: str) -> None:
        """End the session of a member of a consumer group, as if it had been silent for too long.

        `member` is its member id, its group.instance.id, or the client.id that it alone has in the group.
        """
        self._coordinators.end_session(group, member)

    def _let_time_pass(self, seconds: float) -> None:
        self._coordinators.clean(self._awake)  # the silence of producers counts from the first look at them
        self._call(self._move_calendar, seconds)
        self._coordinators.look_at_deadlines(self._awake)
        self._coordinators.clean(self._awake)

    @property
    def _coordinators(self) -> Coordinators:
        return Coordinators(self.admin, self.leader, self.ref)

    # -- on the cluster's thread -------------------------------------------------------------------------------

    def _run(self, started: concurrent.futures.Future[None]) -> None:
        try:
            trio.run(self._main, started)
        except BaseException as error:  # noqa: BLE001  it goes to the thread that waits for the start, or for the end
            if not started.done():
                started.set_exception(error)
            elif not started.cancelled():
                self._failure = error
        finally:
            self._launcher = self._token = None
            self._schedulers.clear()  # they lead to actors, and those to open files

    async def _main(self, started: concurrent.futures.Future[None]) -> None:
        self._token = current_trio_token()
        if started.cancelled():
            return
        data_dir = self._given_data_dir or Path(tempfile.mkdtemp(prefix="barnabas-data-"))
        self._lines.watch()
        try:
            with self._scope:
                async with (
                    open_launcher(
                        self._config(data_dir), self._host, extra_actors=self._actors, log_level=self._log_level
                    ) as self._launcher,
                    trio.open_nursery() as self._nursery,
                ):
                    await self._serve(started)
                    await self._launcher.stop()
                    self._nursery.cancel_scope.cancel()
        finally:
            self._lines.stop()
            if self._given_data_dir is None:
                shutil.rmtree(data_dir)

    async def _serve(self, started: concurrent.futures.Future[None]) -> None:
        """Start every broker, say how that went, and wait for the end."""
        try:
            for broker in self.brokers:
                await self._nursery.start(self._running.live_once, broker)
            await self._until_linked("start", self.brokers)
            await self._until_settled()
        except HarnessError as error:
            if started.set_running_or_notify_cancel():
                started.set_exception(error)
            return
        if started.set_running_or_notify_cancel():
            started.set_result(None)
        await self._end.wait()
        self._mend()

    def _mend(self) -> None:
        """Let every broker be able to stop in time."""
        for disk in self._disks.values():
            disk.room, disk.delay_seconds = None, 0.0
        for broker in self._paused & set(self.alive):
            if self.processes:
                os.kill(self.pids[broker], signal.SIGCONT)
            else:
                self._schedulers[broker].resume()

    def _hold(self, broker: int, seconds: float) -> bool:
        scheduler = self._schedulers.get(broker)
        return scheduler is not None and scheduler.hold(seconds)

    async def _on_loop(self, function: Callable[[], None]) -> None:
        function()

    def _host(self, _scheduler: Scheduler, nursery: trio.Nursery) -> Host:
        return ProcessHost() if self.processes else LocalHost(nursery, self._equip)

    def _equip(self, broker: int) -> tuple[Scheduler, Instruments]:
        """What a broker inside this process is started with."""
        self._schedulers[broker] = scheduler = PausableScheduler()
        disk = TroubledFilesystem(self._disks[broker])
        leadership = partial(WatchedLeadership, self._history)
        return scheduler, Instruments(disk, self._clients, leadership, self._calendar)

    def _config(self, data_dir: Path) -> ClusterConfig:
        brokers = tuple(
            BrokerConfig(broker, 0, data_dir / str(broker), self._advertised.get(broker)) for broker in self.brokers
        )
        return ClusterConfig(self._name, "127.0.0.1", data_dir, self._kafka_config, brokers, self._topics)

    async def _move_calendar(self, seconds: float) -> None:
        """On the cluster's thread: a broker that reads its calendar must not see it move meanwhile."""
        self._calendar.ahead_seconds += seconds

    async def _lose(self, broker: int, end: Callable[[int], None]) -> None:
        end(broker)
        await self._running.until_dead(broker)
        self._paused.discard(broker)
        await self._until_linked(f"lose broker {broker}")

    async def _start_broker(self, broker: int) -> None:
        await self._nursery.start(self._running.live_once, broker)
        await self._until_linked(f"restart broker {broker}", (broker,))

    async def _cut_links(self, a: int, b: int) -> None:
        self._cut.add(frozenset((a, b)))
        self._running.cut(a, b)
        await self._until_linked(f"cut {a} from {b}")

    async def _heal(self) -> None:
        self._cut.clear()
        self._running.heal()
        await self._until_linked("heal")

    async def _until_linked(self, aim: str, starting: tuple[int, ...] = ()) -> None:
        """Wait until every living broker is linked to exactly the other living ones from which it is not cut off.

        A broker of `starting` must not end meanwhile.
        """

        def settled(statuses: dict[int, BrokerStatus]) -> bool:
            for broker in starting:
                if broker not in self.alive:
                    how = self._running.ends[broker]
                    raise HarnessError(f"the cluster did not {aim}: broker {broker} ended: {how}; its log says why")
            return self._all_linked(statuses)

        with trio.move_on_after(START_SECONDS):
            await self._running.until(settled)
            return
        raise HarnessError(f"the cluster did not {aim} within {START_SECONDS:g} s: {self._running.statuses}")

    async def _until_settled(self) -> None:
        """Wait until every broker knows the leaders of all given topics, and preferred leaders lead."""
        with trio.move_on_after(START_SECONDS):
            await self._running.until(
                lambda statuses: all(status.settled and status.balanced for status in statuses.values())
            )
            return
        raise HarnessError(f"the cluster made no topics within {START_SECONDS:g} s; its log says why")

    def _all_linked(self, statuses: dict[int, BrokerStatus]) -> bool:
        awake = self._awake  # what a paused broker is linked to is not told
        if not set(awake) <= set(statuses) <= set(self.alive):
            return False
        wanted = {frozenset(pair) for pair in combinations(awake, 2)} - self._cut
        return all(
            {frozenset((broker, peer)) for peer in statuses[broker].linked if peer not in self._paused}
            == {pair for pair in wanted if broker in pair}
            for broker in awake
        )

    # -- from the user's thread --------------------------------------------------------------------------------

    def _call(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run `function` on the cluster's thread and wait for it."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()

        async def run() -> None:
            try:
                await function(*args)
            except BaseException as error:  # noqa: BLE001  it goes to the caller, where it belongs
                done.set_exception(error)
            else:
                done.set_result(None)

        if self._launcher is None or not self._soon(self._nursery.start_soon, run):
            raise HarnessError(_NOT_RUNNING)
        done.result()

    def _soon(self, function: Callable[..., object], *args: Any) -> bool:
        """Call `function` on the cluster's thread. False if its loop does not run."""
        token = self._token
        if token is None:
            return False
        try:
            token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            return False
        return True

    @property
    def _running(self) -> Launcher:
        if self._launcher is None:
            raise HarnessError(_NOT_RUNNING)
        return self._launcher

    def _disk_of(self, broker: int, what: str) -> BrokerDisk:
        self._must_know(broker)
        self._must_share_process(what)
        return self._disks[broker]

    def _must_live(self, broker: int) -> None:
        self._must_know(broker)
        if broker not in self.alive:
            raise HarnessError(f"broker {broker} is dead")

    def _must_share_process(self, what: str) -> None:
        if self.processes:
            raise HarnessError(f"{what}: only for brokers inside this process; use processes=False")

    def _must_know(self, broker: int) -> None:
        if broker not in self.brokers:
            raise HarnessError(f"there is no broker {broker}; this cluster has {', '.join(map(str, self.brokers))}")
