"""The offsets of a query as committed offsets of a group, so that lag tools see how far it is. Nobody reads them back.

When Spark asks for the latest offset it says where the last micro-batch ended, and that one is finished: so this is the
moment to commit. It must not harm the query: what goes wrong is a warning, and is made good the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tools.client.admin import Admin
from tools.client.errors import ClientError
from tools.client.metadata import TopicPartition

_log = logging.getLogger(__name__)
_SECONDS = 5.0


class GroupOffsets:
    """Of one query. Connects when there is something to commit."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._admin: Admin | None = None
        self._committed: Mapping[TopicPartition, int] = {}

    def keep(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets, if they are others than before."""
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

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None
