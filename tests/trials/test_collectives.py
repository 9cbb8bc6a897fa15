"""The probe of the links, for real: two processes on gloo."""

from __future__ import annotations

from pathlib import Path

from tests.builders import make_config, make_measurement
from tests.trials.group import on_two_ranks
from trials.extras import Collective, Extras, LinkProbe
from trials.measuring.collectives import SIZES_BYTES, probe_links
from trials.rank_context import RankContext
from trials.trial import Parallelism
from trials.workers.extras_due import extras_due


def run_probe(context: RankContext, limit_s: float) -> LinkProbe:
    return probe_links(context, node_count=1, limit_s=limit_s)


def test_every_rank_has_the_same_times_of_every_collective_and_size(tmp_path: Path) -> None:
    (one, other), (short, _) = on_two_ranks(tmp_path, run_probe, [60.0, 1e-9])
    assert one == other
    assert (one.backend, one.rank_count, one.node_count) == ("gloo", 2, 1)
    taken = [(part.message_bytes, part.collective) for part in one.times]
    assert taken == [(size, collective) for size in SIZES_BYTES["cpu"] for collective in Collective]
    assert all(0 < part.median_s <= max(part.times_s) for part in one.times)
    # without time only the smallest sizes, and few repeats of them
    assert {part.message_bytes for part in short.times} < set(SIZES_BYTES["cpu"])
    assert all(len(part.times_s) == 3 for part in short.times)


def test_links_are_probed_once_for_so_many_workers() -> None:
    wanted = Extras(are_links_probed=True)
    single, ddp = make_config(), make_config(gpu_count=2, parallelism=Parallelism.DDP)
    sharded = make_config(gpu_count=2, parallelism=Parallelism.FSDP2)
    four = make_config(gpu_count=4, parallelism=Parallelism.DDP)
    assert extras_due(wanted, single, []).is_nothing
    seen = [make_measurement(single)]
    assert extras_due(wanted, ddp, seen) == wanted
    seen.append(make_measurement(ddp))
    assert extras_due(wanted, sharded, seen).is_nothing
    assert extras_due(wanted, four, seen) == wanted
