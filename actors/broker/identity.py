"""The broker to which a data directory belongs: `meta.properties`, as in Kafka.

version=3          of all formats in the directory; raised with each change of a format. A newer one is refused
node.id=2          a directory of another broker is refused
directory.id=…     made once; an emptied directory gets another one, and is so known to have lost its data
port=40123         the free port that was found for port = 0, kept across restarts
"""

from __future__ import annotations

import uuid
from pathlib import Path

from attrs import evolve

from log.disk.filesystem import DIRECTORY_MODE, DiskFilesystem
from protocol.late_attrs import frozen

FILE_NAME = "meta.properties"
FORMAT_VERSION = 3
_READABLE_VERSIONS = (1, 2, 3)
"""1: votes without doubts, producer snapshots of version 2, no `synced-first`. 2: no generations of Raft groups."""


class IdentityError(Exception):
    """This directory belongs to another broker, or has an unknown format."""


@frozen(slots=True)
class DirectoryIdentity:
    """What a broker's directory says about itself."""

    broker: int
    directory_id: uuid.UUID
    port: int = 0

    @classmethod
    def of(cls, directory: Path, broker: int) -> DirectoryIdentity:
        """Read the directory's identity, or give it one."""
        directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        try:
            identity, version = _read(directory, broker)
        except FileNotFoundError:
            identity = cls(broker, uuid.uuid4())
            identity.write(directory)
            return identity
        if version != FORMAT_VERSION:  # before anything is written that an older Barnabas cannot read
            identity.write(directory)
        return identity

    @classmethod
    def known(cls, directory: Path, broker: int) -> DirectoryIdentity:
        """The identity that the directory has. FileNotFoundError if it has none; nothing is written."""
        return _read(directory, broker)[0]

    def with_port(self, port: int, directory: Path) -> DirectoryIdentity:
        """Remember the port that was found."""
        if port == self.port:
            return self
        identity = evolve(self, port=port)
        identity.write(directory)
        return identity

    def write(self, directory: Path) -> None:
        """Write it whole or not at all."""
        text = f"version={FORMAT_VERSION}\nnode.id={self.broker}\ndirectory.id={self.directory_id}\nport={self.port}\n"
        DiskFilesystem().write_atomically(str(directory / FILE_NAME), text.encode())


def _read(directory: Path, broker: int) -> tuple[DirectoryIdentity, int]:
    """What `meta.properties` says, and the version of the directory's formats."""
    path = directory / FILE_NAME
    identity, version = _parse(path.read_text(encoding="utf-8", errors="replace"), path)
    if identity.broker != broker:
        raise IdentityError(
            f"{directory} belongs to broker {identity.broker}, not {broker}; give broker {broker} its own data_dir"
        )
    return identity, version


def _parse(text: str, path: Path) -> tuple[DirectoryIdentity, int]:
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        version = int(values["version"])
        if version not in _READABLE_VERSIONS:
            raise IdentityError(
                f"{path}: version {version} is newer than this Barnabas knows ({FORMAT_VERSION}); nothing was changed,"
                " start the version that wrote it"
            )
        return DirectoryIdentity(
            int(values["node.id"]), uuid.UUID(values["directory.id"]), int(values["port"])
        ), version
    except (KeyError, ValueError) as error:
        raise IdentityError(f"{path} is damaged ({error}); restore it or move the directory away") from error
