"""What a crash may leave of a `MemoryFilesystem`, and how its faults strike.

The contract it shares with the real disk is in `test_filesystem.py`.
"""

import errno
import itertools
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.disk.memory_filesystem import CrashMode, Fault, MemoryFilesystem, Operation, SimulatedCrash
from log.disk.memory_nodes import SECTOR_SIZE

SEEDS = range(200)


@pytest.fixture
def fs() -> MemoryFilesystem:
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/d")
    return filesystem


def put(fs: MemoryFilesystem, path: str, data: bytes) -> None:
    """A file, durable in all respects."""
    file = fs.create(path)
    file.pwrite(data, 0)
    file.sync()
    fs.sync_directory("/d")


def after_crashes(fs: MemoryFilesystem) -> Iterator[MemoryFilesystem]:
    """The state after losing everything that is pending, and after many seeded crashes."""
    for seed in (None, *SEEDS):
        crashed = fs.copy()
        crashed.crash(None if seed is None else random.Random(seed))
        yield crashed


def contents(fs: MemoryFilesystem, path: str) -> set[bytes | None]:
    """All that may be left of a file."""
    return {crashed.read(path) if crashed.exists(path) else None for crashed in after_crashes(fs)}


def listings(fs: MemoryFilesystem, directory: str) -> set[tuple[str, ...]]:
    return {tuple(crashed.list(directory)) for crashed in after_crashes(fs)}


# Bytes


def test_synced_bytes_survive_and_others_may_not(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"old")
    file = fs.open("/d/a")
    file.pwrite(b"new", 3)
    assert fs.read("/d/a") == b"oldnew"
    assert contents(fs, "/d/a") == {b"old", b"oldnew", b"old\0\0\0"}
    file.sync()
    assert contents(fs, "/d/a") == {b"oldnew"}


def test_a_sector_is_written_whole_or_not_at_all(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"o" * 2048)
    fs.open("/d/a").pwrite(b"n" * 1000, 500)  # touches three sectors
    old, new = fs.copy(), fs.copy()
    old.crash()
    new.crash(mode="keep_all")
    for crashed in after_crashes(fs):
        for start in range(0, 2048, SECTOR_SIZE):
            sector = slice(start, start + SECTOR_SIZE)
            assert crashed.read("/d/a")[sector] in (old.read("/d/a")[sector], new.read("/d/a")[sector])
    assert len(contents(fs, "/d/a")) == 8


def test_a_long_append_may_be_torn_at_sectors_have_holes_or_end_in_garbage(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"")
    fs.open("/d/a").pwrite(b"n" * 1400, 0)
    states = {content for content in contents(fs, "/d/a") if content is not None}
    assert {len(state) for state in states} == {0, 512, 1024, 1400}
    assert b"n" * 512 in states  # torn
    assert b"n" * 512 + bytes(888) in states  # the size made it, and the rest reads as zeros
    assert any(state[:512] == bytes(512) and state[512:1024] == b"n" * 512 for state in states)  # reordered
    assert any(set(state) - set(b"n\0") for state in states)  # what the disk held before


def test_a_truncation_may_be_undone_until_it_is_synced(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"0123456789")
    file = fs.open("/d/a")
    file.truncate(4)
    assert contents(fs, "/d/a") >= {b"0123456789", b"0123"}
    file.sync()
    assert contents(fs, "/d/a") == {b"0123"}


def test_bytes_that_were_cut_do_not_come_back_under_later_ones(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"o" * 100)
    file = fs.open("/d/a")
    file.truncate(10)
    file.pwrite(b"n" * 10, 90)
    sector = {b"o" * 100, b"o" * 10 + bytes(90), b"o" * 10 + bytes(80) + b"n" * 10}
    for content in contents(fs, "/d/a"):
        assert content in {state[:size] for state in sector for size in (10, 100)}


def test_a_killed_process_loses_nothing_but_makes_nothing_durable(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"old")
    fs.open("/d/a").pwrite(b"new", 0)
    fs.create("/d/b")
    fs.crash(mode="keep_all")
    assert (fs.read("/d/a"), fs.list("/d")) == (b"new", ["a", "b"])
    fs.open("/d/a").sync()
    fs.crash()
    assert (fs.read("/d/a"), fs.list("/d")) == (b"new", ["a"])


@pytest.mark.parametrize("mode", ["keep_all", "lose_all"])
def test_files_opened_before_a_crash_are_invalid(fs: MemoryFilesystem, mode: CrashMode) -> None:
    put(fs, "/d/a", b"abc")
    file = fs.open("/d/a")
    fs.crash(mode=mode)
    for operation in (
        file.size,
        file.sync,
        lambda: file.pread(1, 0),
        lambda: file.pwrite(b"x", 0),
        lambda: file.truncate(0),
    ):
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            operation()
        assert caught.value.errno == errno.EBADF
    assert fs.open("/d/a").pread(3, 0) == b"abc"


def test_a_map_keeps_a_file_from_being_cut_but_not_from_growing(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"0123456789")
    file, mapped = fs.open("/d/a"), fs.map("/d/a")
    piece = mapped.view[2:4]
    with pytest.raises(AssertionError, match="live map"):
        file.truncate(3)
    file.truncate(12)
    file.pwrite(b"x", 12)
    assert (bytes(mapped.view), file.pread(99, 0)) == (b"0123456789", b"0123456789\0\0x")
    mapped.close()
    again = fs.map("/d/a")
    file.pwrite(b"yz", 12)
    assert (bytes(again.view), file.pread(99, 12)) == (b"0123456789\0\0x", b"yz")
    again.close()
    del piece
    file.truncate(3)
    assert contents(fs, "/d/a") >= {b"012", b"0123456789"}


Change = tuple[str, int, bytes]
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 2000), st.integers(0, 1500).map(bytes)),
        st.tuples(st.just("truncate"), st.integers(0, 2500), st.just(b"")),
        st.tuples(st.just("sync"), st.just(0), st.just(b"")),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(changes=CHANGES, seed=st.integers(0, 2**32))
def test_every_sector_holds_what_it_held_at_some_moment_since_the_last_sync(changes: list[Change], seed: int) -> None:
    fs = MemoryFilesystem()
    file = fs.create("a")
    fs.sync_directory("/")
    moments = [b""]  # the content since the last sync
    for number, (kind, at, data) in enumerate(changes):
        if kind == "write":
            file.pwrite(bytes([number + 1]) * len(data), at)
        elif kind == "truncate":
            file.truncate(at)
        else:
            file.sync()
            moments.clear()
        moments.append(fs.read("a"))
    fs.crash(random.Random(seed))
    content = fs.read("a")
    durable = moments[0]

    sizes = {len(moment) for moment in moments}
    between = any(a < len(content) < b for a, b in itertools.pairwise(len(moment) for moment in moments))
    assert len(content) in sizes or (between and len(content) % SECTOR_SIZE == 0)
    for start in range(0, len(content), SECTOR_SIZE):
        sector = content[start : start + SECTOR_SIZE]
        held = {moment[start : start + SECTOR_SIZE].ljust(SECTOR_SIZE, b"\0")[: len(sector)] for moment in moments}
        never_written = start >= len(durable)
        assert sector in held or (never_written and any(start < len(moment) for moment in moments))
    assert file_is_settled(fs, content)


def file_is_settled(fs: MemoryFilesystem, content: bytes) -> bool:
    """A second crash changes nothing."""
    fs.crash(random.Random(0))
    return fs.read("a") == content


@settings(max_examples=100, deadline=None)
@given(changes=CHANGES, extra=st.binary(max_size=2000), seed=st.integers(0, 2**32))
def test_what_was_synced_and_not_touched_since_is_always_there(changes: list[Change], extra: bytes, seed: int) -> None:
    fs = MemoryFilesystem()
    file = fs.create("a")
    fs.sync_directory("/")
    for kind, at, data in changes:
        if kind == "write":
            file.pwrite(data, at)
        elif kind == "truncate":
            file.truncate(at)
    file.sync()
    synced = fs.read("a")
    file.pwrite(extra, len(synced))
    fs.crash(random.Random(seed))
    assert fs.read("a")[: len(synced)] == synced


# Names


def test_a_synced_file_whose_name_was_not_may_be_gone(fs: MemoryFilesystem) -> None:
    file = fs.create("/d/a")
    file.pwrite(b"abc", 0)
    file.sync()
    assert contents(fs, "/d/a") == {None, b"abc"}
    fs.sync_directory("/d")
    assert contents(fs, "/d/a") == {b"abc"}


def test_a_name_may_survive_its_bytes(fs: MemoryFilesystem) -> None:
    fs.create("/d/a").pwrite(b"abc", 0)
    fs.sync_directory("/d")
    states = contents(fs, "/d/a")
    assert states >= {b"", b"abc", bytes(3)}
    assert {len(state) for state in states if state is not None} == {0, 3}
    assert None not in states


def test_a_removed_file_may_come_back_until_its_directory_is_synced(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"abc")
    fs.remove("/d/a")
    assert contents(fs, "/d/a") == {None, b"abc"}
    fs.sync_directory("/d")
    assert contents(fs, "/d/a") == {None}


def test_a_rename_is_done_or_undone_but_never_half(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"abc")
    fs.rename("/d/a", "/d/b")
    assert listings(fs, "/d") == {("a",), ("b",)}
    fs.rename("/d/b", "/d/c")
    assert listings(fs, "/d") == {("a",), ("b",), ("c",)}
    fs.sync_directory("/d")
    assert listings(fs, "/d") == {("c",)}


@pytest.mark.parametrize("synced", ["/d/x", "/d/y"])
def test_a_rename_between_directories_is_done_or_undone_but_never_half(fs: MemoryFilesystem, synced: str) -> None:
    fs.make_directory("/d/x")
    fs.make_directory("/d/y")
    put(fs, "/d/x/a", b"abc")
    fs.sync_directory("/d/x")
    fs.rename("/d/x/a", "/d/y/b")
    states = {(tuple(crashed.list("/d/x")), tuple(crashed.list("/d/y"))) for crashed in after_crashes(fs)}
    assert states == {(("a",), ()), ((), ("b",))}
    fs.sync_directory(synced)
    assert listings(fs, "/d/x") == {()}
    assert listings(fs, "/d/y") == {("b",)}


def test_syncing_one_end_of_a_rename_also_settles_what_came_before_it_at_the_other(fs: MemoryFilesystem) -> None:
    fs.make_directory("/d/x")
    fs.make_directory("/d/y")
    fs.create("/d/x/a")
    fs.rename("/d/x/a", "/d/y/b")
    fs.sync_directory("/d/y")
    assert listings(fs, "/d/x") == {()}
    assert listings(fs, "/d/y") == {("b",)}


def test_names_change_independently_but_each_in_order(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"1")
    fs.remove("/d/a")
    fs.create("/d/b")
    file = fs.create("/d/a")
    file.pwrite(b"2", 0)
    file.sync()
    assert listings(fs, "/d") == {("a",), ("a", "b"), ("b",), ()}
    assert contents(fs, "/d/a") == {b"1", None, b"2"}


def test_made_directories_are_durable_with_their_parents(fs: MemoryFilesystem) -> None:
    fs.create("/d/unsynced")
    fs.make_directory("/d/x/y")
    fs.crash()
    assert fs.list("/d/x") == ["y"]


def test_any_part_of_a_removed_tree_may_come_back(fs: MemoryFilesystem) -> None:
    fs.make_directory("/d/tree/branch")
    put(fs, "/d/tree/a", b"")
    fs.sync_directory("/d/tree")
    fs.remove_tree("/d/tree")
    assert listings(fs, "/d") == {("tree",), ()}
    left = {tuple(crashed.list("/d/tree")) for crashed in after_crashes(fs) if crashed.exists("/d/tree")}
    assert left == {("a", "branch"), ("a",), ("branch",), ()}
    fs.sync_directory("/d")
    assert listings(fs, "/d") == {()}


NAMES = st.sampled_from(["a", "b", "c"])
NAME_CHANGES = st.lists(
    st.tuples(st.sampled_from(["create", "remove", "rename", "atomic", "sync"]), NAMES, NAMES), max_size=15
)


@settings(max_examples=150, deadline=None)
@given(changes=NAME_CHANGES, seed=st.integers(0, 2**32))
def test_every_name_stands_for_what_it_stood_for_at_some_moment_since_the_last_sync(
    changes: list[tuple[str, str, str]], seed: int
) -> None:
    fs = MemoryFilesystem()

    def state() -> dict[str, bytes | None]:
        return {name: fs.read(name) if fs.exists(name) else None for name in "abc"}

    moments = [state()]
    for number, (kind, name, other) in enumerate(changes):
        if kind == "create" and not fs.exists(name):
            file = fs.create(name)
            file.pwrite(b"%d" % number, 0)
            file.sync()
        elif kind == "remove":
            fs.remove(name)
        elif kind == "rename" and fs.exists(name):
            fs.rename(name, other)
        elif kind == "atomic":
            fs.write_atomically(name, b"%d" % number)
            moments.clear()
        elif kind == "sync":
            fs.sync_directory("/")
            moments.clear()
        moments.append(state())
    fs.crash(random.Random(seed))
    found = state()
    for name in "abc":
        # A file just made is without its bytes for a moment: they are synced before anything else happens here.
        assert found[name] in {moment[name] for moment in moments}
    there = [content for content in found.values() if content is not None]
    assert len(there) == len(set(there)), "one file, two names"


# Writing atomically


def test_an_atomic_write_is_old_or_new_after_a_crash_at_every_step(fs: MemoryFilesystem) -> None:
    old, new = b"old" * 700, b"new!" * 700
    fs.write_atomically("/d/a", old)
    ends = set()
    for share in (0.0, 0.5, 1.0):
        for step in itertools.count():
            crashed = fs.copy()
            crashed.crash_at, crashed.crash_share = crashed.operations + step, share
            try:
                crashed.write_atomically("/d/a", new)
            except SimulatedCrash:
                killed = crashed.copy()
                killed.crash(mode="keep_all")
                assert killed.read("/d/a") in (old, new)
                states = contents(crashed, "/d/a")
                assert states <= {old, new}
                ends.add(frozenset(states))
            else:
                assert contents(crashed, "/d/a") == {new}
                break
        assert step == 6
    assert ends == {frozenset({old}), frozenset({old, new}), frozenset({new})}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["create", "truncate", "write", "sync", "rename"])
def test_an_atomic_write_that_fails_leaves_the_old_content_and_no_temporary_file(
    fs: MemoryFilesystem, operation: Operation, error: int
) -> None:
    fs.write_atomically("/d/a", b"old")
    fs.faults.append(Fault(operation, error, written=2))
    with pytest.raises(OSError, match=r"/d/a\.tmp") as caught:
        fs.write_atomically("/d/a", b"new")
    assert (caught.value.errno, fs.list("/d"), contents(fs, "/d/a")) == (error, ["a"], {b"old"})
    fs.write_atomically("/d/a", b"newer")
    assert contents(fs, "/d/a") == {b"newer"}


def test_an_atomic_write_whose_last_step_fails_may_be_undone(fs: MemoryFilesystem) -> None:
    fs.write_atomically("/d/a", b"old")
    fs.faults.append(Fault("sync_directory"))
    with pytest.raises(OSError, match="/d"):
        fs.write_atomically("/d/a", b"new")
    assert fs.read("/d/a") == b"new"
    assert contents(fs, "/d/a") == {b"old", b"new"}


# Faults


ACTIONS: dict[Operation, Callable[[MemoryFilesystem], object]] = {
    "open": lambda fs: fs.open("/d/a"),
    "map": lambda fs: fs.map("/d/a"),
    "read": lambda fs: fs.read("/d/a"),
    "list": lambda fs: fs.list("/d"),
    "stat": lambda fs: fs.exists("/d/a"),
    "create": lambda fs: fs.create("/d/b"),
    "write": lambda fs: fs.open("/d/a").pwritev([b"x"], 0),
    "truncate": lambda fs: fs.open("/d/a").truncate(0),
    "sync": lambda fs: fs.open("/d/a").sync(),
    "rename": lambda fs: fs.rename("/d/a", "/d/b"),
    "remove": lambda fs: fs.remove("/d/a"),
    "make_directory": lambda fs: fs.make_directory("/d/b"),
    "sync_directory": lambda fs: fs.sync_directory("/d"),
}


@pytest.mark.parametrize("operation", ACTIONS)
def test_every_operation_can_fail_and_then_changes_nothing(fs: MemoryFilesystem, operation: Operation) -> None:
    put(fs, "/d/a", b"abc")
    fs.faults.append(Fault(operation))
    with pytest.raises(OSError, match="Input/output error") as caught:
        ACTIONS[operation](fs)
    assert caught.value.errno == errno.EIO
    assert (fs.list("/d"), fs.read("/d/a")) == (["a"], b"abc")
    ACTIONS[operation](fs)


def test_a_fault_strikes_the_nth_matching_operation_and_so_many_more(fs: MemoryFilesystem) -> None:
    file, other = fs.create("/d/a.log"), fs.create("/d/a.index")
    fs.faults.append(Fault("write", errno.ENOSPC, path="*.log", after=2, times=2))
    outcomes = []
    for _ in range(6):
        other.pwrite(b"y", 0)
        try:
            file.pwrite(b"x", file.size())
        except OSError as error:
            outcomes.append(error.errno)
        else:
            outcomes.append(None)
    assert outcomes == [None, None, errno.ENOSPC, errno.ENOSPC, None, None]
    assert fs.read("/d/a.log") == b"xxxx"


def test_a_full_disk_stays_full_until_it_is_healed(fs: MemoryFilesystem) -> None:
    file = fs.create("/d/a")
    fs.faults.append(Fault("*", errno.ENOSPC, path="/d/*", times=None))
    for _ in range(5):
        with pytest.raises(OSError, match="No space left"):
            file.pwrite(b"x", 0)
    fs.faults.clear()
    file.pwrite(b"x", 0)


def test_a_short_write_leaves_a_prefix(fs: MemoryFilesystem) -> None:
    file = fs.create("/d/a")
    fs.faults.append(Fault("write", errno.ENOSPC, written=4))
    with pytest.raises(OSError, match="No space left"):
        file.pwritev([b"012", b"3456789"], 0)
    assert fs.read("/d/a") == b"0123"


def test_after_a_failed_sync_the_bytes_are_read_but_never_durable(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"old")
    file = fs.open("/d/a")
    file.pwrite(b"lost", 3)
    fs.faults.append(Fault("sync"))
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()  # says it is done, as Linux does
    assert file.pread(99, 0) == b"oldlost"
    assert contents(fs, "/d/a") == {b"old"}
    file.pwrite(b"kept", 7)
    file.sync()
    assert contents(fs, "/d/a") == {b"old\0\0\0\0kept"}


def test_a_flipped_bit_is_there_before_and_after_a_crash(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"abc")
    fs.corrupt("/d/a", 1, 0b100)
    assert fs.read("/d/a") == b"afc"
    assert contents(fs, "/d/a") == {b"afc"}


# Crashing at an operation, and copies


def test_a_crash_comes_before_in_the_middle_of_or_after_an_operation(fs: MemoryFilesystem) -> None:
    put(fs, "/d/a", b"")
    left = []
    for share in (0.0, 0.5, 1.0):
        crashed = fs.copy()
        file = crashed.open("/d/a")
        crashed.crash_at, crashed.crash_share = crashed.operations + 1, share
        file.pwrite(b"0", 0)
        with pytest.raises(SimulatedCrash, match="write /d/a"):
            file.pwrite(b"123456", 1)
        with pytest.raises(SimulatedCrash, match="down"):
            crashed.read("/d/a")
        with pytest.raises(SimulatedCrash, match="down"):
            file.sync()
        file.close()
        crashed.crash(mode="keep_all")
        left.append(crashed.read("/d/a"))
    assert left == [b"0", b"0123", b"0123456"]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("change", "after", "done"),
    [
        (lambda fs: fs.rename("/d/a", "/d/b"), 0, ["b"]),
        (lambda fs: fs.remove("/d/a"), 0, []),
        (lambda fs: fs.add_directory("/d/b"), 0, ["a", "b"]),
        (lambda fs: fs.make_directory("/d/b"), 1, ["a", "b"]),  # it syncs the parent first
    ],
)
def test_all_but_writes_are_done_or_not(
    fs: MemoryFilesystem, change: Callable[[MemoryFilesystem], None], after: int, done: list[str], share: float
) -> None:
    put(fs, "/d/a", b"abc")
    fs.crash_at, fs.crash_share = fs.operations + after, share
    with pytest.raises(SimulatedCrash):
        change(fs)
    fs.crash(mode="keep_all")
    assert fs.list("/d") == (done if share == 1.0 else ["a"])


def test_no_ordinary_handler_stops_a_simulated_crash() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_a_copy_has_the_same_future_and_its_own(fs: MemoryFilesystem) -> None:
    fs.make_directory("/d/x")
    put(fs, "/d/a", b"abc")
    fs.open("/d/a").pwrite(b"pending" * 200, 3)
    fs.rename("/d/a", "/d/x/b")
    fs.create("/d/c")
    fs.faults.append(Fault("write", after=1))
    copy = fs.copy()
    assert (copy.operations, copy.faults) == (fs.operations, fs.faults)
    fs.faults[0].strikes("write", "")
    assert copy.faults[0].after == 1
    for seed in SEEDS:
        one, two = fs.copy(), copy.copy()
        one.crash(random.Random(seed))
        two.crash(random.Random(seed))
        for directory in ("/d", "/d/x"):
            assert one.list(directory) == two.list(directory)
            for name in one.list(directory):
                if name != "x":
                    assert one.read(f"{directory}/{name}") == two.read(f"{directory}/{name}")
    copy.open("/d/x/b").truncate(0)
    copy.remove("/d/c")
    assert (fs.size("/d/x/b"), fs.list("/d")) == (1403, ["c", "x"])
