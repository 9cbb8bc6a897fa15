"""Gives back the devices of workers whose controller was ended.

Ray removes an actor's placement group only when the actor and its whole job have ended, and Ray Train's own
cleaner needs the dashboard, which an embedded cluster does not have. No public call tells who made a
placement group, so the table of the head is read as Ray's own state API reads it.
"""

from __future__ import annotations

import time
from typing import Any

import ray
from ray._private.state import state
from ray.core.generated import gcs_pb2
from ray.util import remove_placement_group
from ray.util.placement_group import PlacementGroup

_POLL_S = 0.2


def free_orphans(limit_s: float = 5.0) -> int:
    """Remove this job's placement groups whose maker is dead, as soon as there are any; how many there were.

    Returns 0 after ``limit_s``: then the workers had got no devices yet, or Ray Train was quicker.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        orphans = [row for row in _rows() if _is_orphan(row)]
        for row in orphans:
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(row.placement_group_id)))
        if orphans or time.monotonic() > deadline_s:
            return len(orphans)
        time.sleep(_POLL_S)


def _is_orphan(row: Any) -> bool:
    mine = ray.get_runtime_context().get_job_id()
    is_removed = row.state == gcs_pb2.PlacementGroupTableData.REMOVED
    return row.creator_job_id.hex() == mine and bool(row.creator_actor_dead) and not is_removed


def _rows() -> list[Any]:
    table = state._connect_and_get_accessor().get_placement_group_table()
    return [gcs_pb2.PlacementGroupTableData.FromString(row) for row in table]
