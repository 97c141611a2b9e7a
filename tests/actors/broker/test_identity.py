"""A data directory knows whose it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.broker.identity import FILE_NAME, DirectoryIdentity, IdentityError


def test_a_new_directory_gets_an_identity_that_stays(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "1"
    identity = DirectoryIdentity.of(directory, 1)
    assert (identity.broker, identity.port) == (1, 0)
    assert DirectoryIdentity.of(directory, 1) == identity
    assert [path.name for path in directory.iterdir()] == [FILE_NAME]


def test_an_emptied_directory_gets_another_identity(tmp_path: Path) -> None:
    first = DirectoryIdentity.of(tmp_path, 1)
    (tmp_path / FILE_NAME).unlink()
    assert DirectoryIdentity.of(tmp_path, 1).directory_id != first.directory_id


def test_the_file_reads_as_kafkas_does(tmp_path: Path) -> None:
    identity = DirectoryIdentity.of(tmp_path, 3).with_port(9092, tmp_path)
    assert (tmp_path / FILE_NAME).read_text() == (
        f"version=3\nnode.id=3\ndirectory.id={identity.directory_id}\nport=9092\n"
    )


def test_the_port_that_was_found_is_kept(tmp_path: Path) -> None:
    identity = DirectoryIdentity.of(tmp_path, 1).with_port(40123, tmp_path)
    assert DirectoryIdentity.of(tmp_path, 1) == identity
    assert identity.port == 40123
    assert identity.with_port(40123, tmp_path / "not written, so not missed") is identity


def test_another_brokers_directory_is_refused(tmp_path: Path) -> None:
    DirectoryIdentity.of(tmp_path, 1)
    with pytest.raises(IdentityError) as caught:
        DirectoryIdentity.of(tmp_path, 2)
    assert str(caught.value) == f"{tmp_path} belongs to broker 1, not 2; give broker 2 its own data_dir"


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    DirectoryIdentity.of(tmp_path, 1)
    file = tmp_path / FILE_NAME
    file.write_text(file.read_text().replace("version=3", "version=4"))
    before = file.read_text()
    with pytest.raises(IdentityError, match=r"version 4 is newer than this Barnabas knows \(3\); nothing was changed"):
        DirectoryIdentity.of(tmp_path, 1)
    assert file.read_text() == before


def test_a_directory_of_an_older_version_is_read_and_then_refused_by_that_version(tmp_path: Path) -> None:
    identity = DirectoryIdentity.of(tmp_path, 1)
    file = tmp_path / FILE_NAME
    file.write_text(file.read_text().replace("version=3", "version=1"))
    assert DirectoryIdentity.of(tmp_path, 1) == identity
    assert file.read_text().startswith("version=3\n")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version=1\n",
        b"version=one\nnode.id=1\ndirectory.id=x\nport=0\n",
        b"version=1\nnode.id=1\ndirectory.id=x\nport=0\n",
        b"version=1\nnode.id=1\n",
        b"\xff\xfe\x00",
    ],
    ids=["empty", "version only", "version in words", "no uuid", "cut off", "not text"],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / FILE_NAME
    file.write_bytes(content)
    with pytest.raises(IdentityError, match=r"is damaged .*; restore it or move the directory away"):
        DirectoryIdentity.of(tmp_path, 1)
    assert file.read_bytes() == content


def test_a_write_that_was_cut_short_leaves_the_old_identity(tmp_path: Path) -> None:
    identity = DirectoryIdentity.of(tmp_path, 1)
    (tmp_path / f"{FILE_NAME}.tmp").write_text("version=")
    assert DirectoryIdentity.of(tmp_path, 1) == identity
