"""Show the metadata in the directories of a stopped cluster, and let the surviving voters continue without lost ones.

For a cluster that has lost a majority of the disks with `__cluster_metadata` for good. Nothing is changed without
--accept-loss; with it, the named brokers, or all whose directories exist, are the only voters when the cluster is
started again. Other directories that return drop their metadata and get it from the leader.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tools.cli import output

if TYPE_CHECKING:
    from actors.cluster_file.config import ClusterConfig
    from actors.process.formation import Formation
    from actors.process.metadata_recovery import MetadataCopy

_COLUMNS = ("broker", "directory", "epoch", "log end", "complete", "generation", "voters", "problems")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    output.add_example(parser, "%(prog)s cluster.toml --accept-loss")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("file", metavar="FILE", type=Path, help="the cluster's file, as cluster.toml")
    parser.add_argument(
        "--survivors",
        metavar="BROKERS",
        type=output.brokers,
        help="the voters that continue (default: every voter that is there)",
    )
    parser.add_argument(
        "--accept-loss", action="store_true", help="give the other voters up, with the records that only they have"
    )


def run(options: argparse.Namespace) -> int:
    """Returns the exit code."""
    # Imported here, because the other commands do not need the brokers' modules.
    from actors.broker.directory_lock import DirectoryInUse  # noqa: PLC0415
    from actors.broker.identity import IdentityError  # noqa: PLC0415
    from actors.cluster_file.config import ConfigError, load  # noqa: PLC0415
    from actors.process.errors import FormationError  # noqa: PLC0415
    from actors.process.formation import Formation, read_formation  # noqa: PLC0415
    from actors.process.metadata_recovery import RecoveryRefused, copies_in, recover  # noqa: PLC0415

    try:
        config = load(options.file)
        if options.accept_loss:
            made = recover(config, options.survivors or ())
            brokers = [voter.broker for voter in made.voters]
            text = f"generation {made.generation} of the metadata begins with {', '.join(map(str, brokers))} when the"
            output.tell(options, {"generation": made.generation, "brokers": brokers}, f"{text} cluster is started")
        else:
            _show(options, config, copies_in(config), read_formation(config.data_dir) or Formation((), {}))
    except (ConfigError, DirectoryInUse, FormationError, IdentityError, RecoveryRefused, OSError) as error:
        return output.failed(options, error)
    return 0


def _show(options: argparse.Namespace, config: ClusterConfig, copies: list[MetadataCopy], formed: Formation) -> None:
    rows: list[output.Row] = [
        (one.voter.broker, str(one.path), one.last_epoch, one.end_offset, one.is_complete, one.generation,
         one.membership.brokers, "" if one.keeps_log(formed) else "was given up before")
        for one in copies
    ]  # fmt: skip
    there = {one.voter.broker for one in copies}
    rows += [
        (broker.id, str(broker.data_dir), *[""] * 5, "has no metadata")
        for broker in config.brokers
        if broker.id not in there
    ]
    if options.json:
        names = [column.replace(" ", "_") for column in _COLUMNS]
        told = [dict(zip(names, [None if value == "" else value for value in row], strict=True)) for row in rows]
        output.tell(options, {"metadata": told}, "")
        return
    output.table(_COLUMNS, rows, kind="metadata")
    print("nothing was changed; --accept-loss goes on with the voters that are there, or with those of --survivors")
