"""What the runtime takes from pykka 4.5: its private hooks, and its semantics."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, Self

import pykka
import pytest
import trio
from pykka import messages
from pykka._envelope import Envelope

from actors.runtime import Actor, Address, Future, Node, Ref, Scheduler, SystemClock
from actors.runtime.loop.trio_loop import run_scheduler
from actors.runtime.mailbox import Mailbox
from actors.runtime.pykka_hooks import HookedActor
from tests.actors.runtime.probes import PATIENCE_SECONDS
from tests.test_tree import ROOT, ROOTS, named

HOOKS = {
    "_create_actor_inbox": [],
    "_create_future": [],
    "_start_actor_loop": ["self"],
    "_handle_receive": ["self", "message"],
    "_actor_loop_teardown": ["self"],
    "_stop": ["self"],
    "_handle_failure": ["self", "exception_type", "exception_value", "traceback"],
}


# -- the hooks ---------------------------------------------------------------------------------------------------


def test_pykka_is_the_minor_version_whose_private_hooks_are_known() -> None:
    assert version("pykka").startswith("4.5.")


@pytest.mark.parametrize("name", HOOKS)
def test_pykka_has_the_hook_in_the_expected_shape_and_the_actor_replaces_or_inherits_it(name: str) -> None:
    assert list(inspect.signature(getattr(pykka.Actor, name)).parameters) == HOOKS[name]
    assert list(inspect.signature(getattr(Actor, name)).parameters) == HOOKS[name]


@pytest.mark.checkout
def test_one_module_alone_uses_private_names_of_pykka() -> None:
    classes = (pykka.Actor, pykka.ActorRef, pykka.Future)
    private = {name for owner in classes for name in (*dir(owner), *owner.__annotations__) if re.match("_[a-z]", name)}
    private = private - {"_stop"} | {"_actor_weakref", "_ActorStop", "_envelope import"}
    assert {"_actor_ref", "_get_hook", "_start_actor_loop"} <= private
    uses = re.compile(rf"\bpykka\._|\b({'|'.join(private)})\b")
    found = {named(path) for root in ROOTS for path in (ROOT / root).rglob("*.py") if uses.search(path.read_text())}
    assert found == {"actors/runtime/pykka_hooks.py"}


@pytest.mark.checkout
def test_no_actor_but_the_hooked_one_replaces_a_private_hook() -> None:
    """`_stop`, too, which is a name of many things that are no actors."""
    own = [cls for cls in _subclasses(HookedActor) if cls.__module__.partition(".")[0] in ROOTS]
    assert {(cls, name) for cls in own for name in (*HOOKS, "_handle_failure") if name in vars(cls)} == set()


def _subclasses(cls: type[Any]) -> set[type[Any]]:
    return {inner for sub in cls.__subclasses__() for inner in (sub, *_subclasses(sub))}


def test_pykkas_init_makes_the_inbox_the_stop_flag_and_the_ref_that_ours_builds_upon() -> None:
    ref = _Threaded.start([])
    try:
        actor = ref._actor_weakref()
        assert actor is not None
        assert actor._actor_ref is ref
        assert isinstance(actor.actor_stopped, threading.Event)
        assert {"put", "get", "empty"} <= set(dir(actor.actor_inbox))
        assert {"put", "get", "empty"} <= set(dir(Mailbox))
    finally:
        ref.stop()


def test_an_envelope_is_two_slots() -> None:
    assert Envelope.__slots__ == ["message", "reply_to"]
    assert Envelope("x").reply_to is None


def test_the_stop_message_is_an_empty_tuple_of_its_own_class() -> None:
    assert messages._ActorStop() == ()
    assert type(messages._ActorStop()) is messages._ActorStop


def test_a_pykka_future_keeps_its_get_hook_where_ours_expects_it() -> None:
    future = pykka.Future[int]()
    assert vars(future)["_get_hook"] is None
    assert type(vars(future)["_get_hook_result"]).__name__ == "_Unset"
    future.set_get_hook(lambda _timeout: 7)
    assert vars(future)["_get_hook"] is not None
    assert Future[int]().map(lambda x: x)._get_hook is not None


class _Spy:
    """Stands in for an ActorRef and writes down which attributes its methods touch."""

    def __init__(self, ref: pykka.ActorRef[Any]) -> None:
        self.ref = ref
        self.touched: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.touched.add(name)
        value = getattr(self.ref, name)
        return value.__func__.__get__(self) if inspect.ismethod(value) else value


@pytest.mark.parametrize(
    "use",
    [
        lambda spy: pykka.ActorRef.tell(spy, "told"),
        lambda spy: pykka.ActorRef.ask(spy, "asked"),
        pykka.ActorRef.stop,
    ],
    ids=["tell", "ask", "stop"],
)
def test_tell_ask_and_stop_touch_only_what_a_remote_ref_has(use: Callable[[Any], Any]) -> None:
    ref = _Threaded.start([])
    spy = _Spy(ref)
    try:
        use(spy)
    finally:
        ref.stop()
    assert spy.touched <= {"actor_class", "actor_urn", "actor_inbox", "actor_stopped", "is_alive", "ask"}
    assert "actor_inbox" in spy.touched


# -- the semantics, of pykka's own actors and of ours ------------------------------------------------------------------


class _Behaviour:
    """An actor's behaviour that does not know what runs it."""

    def __init__(self, events: list[Any]) -> None:
        super().__init__()
        self.events = events
        self.colour = "red"
        self.failed = threading.Event()

    def on_start(self) -> None:
        self.events.append("start")

    def on_stop(self) -> None:
        self.events.append("stop")

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self.events.append(("failure", exception_type, str(exception_value), traceback is not None))
        self.failed.set()

    def on_receive(self, message: Any) -> Any:
        if callable(message):
            return message()
        self.events.append(message)
        return message

    def paint(self, colour: str) -> str:
        was, self.colour = self.colour, colour
        return was

    def spoil(self) -> None:
        raise ValueError("spoiled")


class _Threaded(_Behaviour, pykka.ThreadingActor):
    pass


class _Scheduled(_Behaviour, Actor):
    restart = None


def _refuse() -> None:
    raise ValueError("no")


Start = Callable[[list[Any]], "pykka.ActorRef[Any]"]


def _start_threaded(events: list[Any]) -> pykka.ActorRef[Any]:
    return _Threaded.start(events)


class _LoopThread:
    """A trio loop with a node on a thread of its own: the test's thread is a stranger to it, as with pykka's actors."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), daemon=True)
        self._count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    async def _main(self) -> None:
        self.node = Node(1, Scheduler(SystemClock()), incarnation=1)
        self._token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as self._scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(run_scheduler, self.node.scheduler)
                self._ready.set()

    def start(self, events: list[Any]) -> Ref[Any]:
        self._count += 1
        return trio.from_thread.run_sync(self._spawn, events, trio_token=self._token)

    def _spawn(self, events: list[Any]) -> Ref[Any]:
        return self.node.spawn(_Scheduled, events, address=Address("parity", str(self._count), 1))


@pytest.fixture(params=["pykka", "barnabas"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    if request.param == "pykka":
        yield _start_threaded
        pykka.ActorRegistry.stop_all()
    else:
        with _LoopThread() as loop:
            yield loop.start


def _die(ref: pykka.ActorRef[Any]) -> None:
    assert ref.stop(timeout=PATIENCE_SECONDS)


def test_an_ask_brings_what_the_handler_returns(start: Start) -> None:
    assert start([]).ask("hello", timeout=PATIENCE_SECONDS) == "hello"


def test_a_failed_ask_reaches_the_caller_and_the_actor_lives_on(start: Start) -> None:
    events: list[Any] = []
    ref = start(events)
    with pytest.raises(ValueError, match=r"^no$"):
        ref.ask(_refuse, timeout=PATIENCE_SECONDS)
    assert ref.is_alive()
    assert ref.ask("still here", timeout=PATIENCE_SECONDS) == "still here"
    assert events == ["start", "still here"]


def test_a_failed_tell_stops_the_actor_and_calls_on_failure_but_not_on_stop(start: Start) -> None:
    events: list[Any] = []
    ref = start(events)
    actor = ref._actor_weakref()
    assert actor is not None
    ref.tell(_refuse)
    assert actor.failed.wait(PATIENCE_SECONDS)
    assert not ref.is_alive()
    assert events == ["start", ("failure", ValueError, "no", True)]


def test_an_ask_to_a_dead_actor_ends_with_actor_dead_error(start: Start) -> None:
    ref = start([])
    _die(ref)
    with pytest.raises(pykka.ActorDeadError):
        ref.ask("anybody?", timeout=PATIENCE_SECONDS)


def test_an_ask_to_a_dead_actor_that_does_not_block_raises_only_at_get(start: Start) -> None:
    ref = start([])
    _die(ref)
    future = ref.ask("anybody?", block=False)
    with pytest.raises(pykka.ActorDeadError):
        future.get(timeout=PATIENCE_SECONDS)


def test_a_tell_to_a_dead_actor_raises_actor_dead_error(start: Start) -> None:
    ref = start([])
    _die(ref)
    with pytest.raises(pykka.ActorDeadError):
        ref.tell("anybody?")


def test_messages_queued_behind_a_stop_end_with_actor_dead_error_and_those_before_it_are_handled(start: Start) -> None:
    events: list[Any] = []
    ref = start(events)
    gate = threading.Event()
    ref.tell(lambda: gate.wait(PATIENCE_SECONDS))
    before = ref.ask("before", block=False)
    stopped = ref.stop(block=False)
    behind = ref.ask("behind", block=False)
    gate.set()
    assert before.get(timeout=PATIENCE_SECONDS) == "before"
    assert stopped.get(timeout=PATIENCE_SECONDS) is True
    with pytest.raises(pykka.ActorDeadError):
        behind.get(timeout=PATIENCE_SECONDS)
    assert events == ["start", "before", "stop"]


def test_stop_is_true_for_the_living_and_false_for_the_dead(start: Start) -> None:
    ref = start([])
    assert ref.stop(timeout=PATIENCE_SECONDS) is True
    assert ref.stop(timeout=PATIENCE_SECONDS) is False


def test_a_second_stop_that_waits_behind_the_first_is_true(start: Start) -> None:
    ref = start([])
    busy, gate = threading.Event(), threading.Event()

    def wait() -> None:
        busy.set()
        gate.wait(PATIENCE_SECONDS)

    ref.tell(wait)
    assert busy.wait(PATIENCE_SECONDS), "else the first could be through before the second comes"
    both = [ref.stop(block=False), ref.stop(block=False)]
    gate.set()
    assert [stop.get(timeout=PATIENCE_SECONDS) for stop in both] == [True, True]


def test_on_start_comes_before_the_first_message_and_on_stop_after_the_last(start: Start) -> None:
    events: list[Any] = []
    ref = start(events)
    for number in range(3):
        ref.tell(number)
    _die(ref)
    assert events == ["start", 0, 1, 2, "stop"]


def test_a_proxy_reads_and_writes_attributes_and_calls_methods(start: Start) -> None:
    proxy = start([]).proxy()
    assert proxy.colour.get(timeout=PATIENCE_SECONDS) == "red"
    proxy.colour = "green"
    assert proxy.paint("blue").get(timeout=PATIENCE_SECONDS) == "green"
    assert proxy.colour.get(timeout=PATIENCE_SECONDS) == "blue"
    with pytest.raises(ValueError, match="spoiled"):
        proxy.spoil().get(timeout=PATIENCE_SECONDS)


def test_an_answer_that_does_not_come_in_time_raises_timeout_in_the_asking_thread(start: Start) -> None:
    ref = start([])
    gate = threading.Event()
    ref.tell(lambda: gate.wait(PATIENCE_SECONDS))
    try:
        with pytest.raises(pykka.Timeout):
            ref.ask("late", timeout=0.01)
    finally:
        gate.set()


def test_a_future_gives_its_value_as_often_as_it_is_asked(start: Start) -> None:
    future = start([]).ask("again", block=False)
    assert [future.get(timeout=PATIENCE_SECONDS) for _ in range(2)] == ["again", "again"]


def test_futures_map_and_join(start: Start) -> None:
    ref = start([])
    asked = [ref.ask(number, block=False) for number in (1, 2)]
    assert asked[0].map(lambda x: x + 10).get(timeout=PATIENCE_SECONDS) == 11
    assert asked[0].join(asked[1]).get(timeout=PATIENCE_SECONDS) == [1, 2]
