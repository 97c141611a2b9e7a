"""The offsets of a query as committed offsets of a group, for lag tools. The query never reads them.

A source learns that a micro-batch is finished when Spark asks it for the latest offset again, at the next trigger. It
commits then; the last batch of a stopped query is committed after the next start. A pipeline sees the progress of its
query and commits each finished batch at once. A failed commit is a warning, and is repeated with the next batch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tools.client.admin import Admin
from tools.client.errors import ClientError
from tools.client.metadata import TopicPartition
from tools.spark.offsets import restored
from tools.spark.options import stream_options

_log = logging.getLogger(__name__)
_SECONDS = 5.0


class GroupOffsets:
    """Of one query. Connects with the first commit."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._admin: Admin | None = None
        self._committed: Mapping[TopicPartition, int] = {}

    def keep(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets, if they have changed."""
        if offsets == self._committed:
            return
        if self._admin is None:
            self._admin = Admin(self._bootstrap, seconds=_SECONDS, client_id="barnabas-spark")
        wanted = {(where.topic, where.partition): offset for where, offset in offsets.items()}
        try:
            self._admin.groups.alter_offsets(self._group, wanted)
        except ClientError as error:
            _log.warning("the offsets of group %s were not committed: %s", self._group, error)
        else:
            self._committed = dict(offsets)

    def keep_progress(self, progress: Mapping[str, Any]) -> None:
        """Commit the end of a micro-batch from the progress of the query."""
        for source in progress["sources"]:
            if isinstance(source["endOffset"], dict):
                self.keep(restored(source["endOffset"]))

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def group_of(source: Mapping[str, str]) -> GroupOffsets | None:
    """The offsets of the group in the options of a source; None without kafka.group.id."""
    options = stream_options(source)
    return None if options.group is None else GroupOffsets(options.fetch.bootstrap, options.group)
