"""Six tasks on four GPU types by batch size, to a target accuracy (ml-energy/zeus).

The epochs that each batch size needs are taken as known, to every method: no trial of twenty steps shows
them. What is searched for is the time per epoch.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.estimate.recorded import config_of, profile_of
from benchmarks.estimate.single_gpu_times import SAMPLES_PER_EPOCH
from benchmarks.estimate.zeus_choice import NAMES, PRECISION, tasks
from benchmarks.search.grid import Grid, Point


def grids(data: Path) -> tuple[Grid, ...]:
    """One per task."""
    return tuple(
        Grid(
            data_set="zeus",
            name=task,
            dimensions=("gpu", "micro_batch_size"),
            points=tuple(
                _point(one.gpu, one.batch_size, one.time_per_epoch_s, one.epochs, SAMPLES_PER_EPOCH[task])
                for one in rows.itertuples()
            ),
            instance_sizes=dict.fromkeys(NAMES.values(), (1,)),
            profile=profile_of(),
        )
        for task, rows in tasks(data).items()
    )


def _point(gpu: str, batch_size: int, epoch_s: float, epochs: float, samples_per_epoch: int) -> Point:
    return Point(
        values=(gpu, float(batch_size)),
        config=config_of(gpu, PRECISION, int(batch_size)),
        step_s=epoch_s * batch_size / samples_per_epoch,
        samples=epochs * samples_per_epoch,
    )
