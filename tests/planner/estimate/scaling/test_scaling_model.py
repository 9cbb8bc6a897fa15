from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from planner.estimate.scaling.calibrate import Prior
from planner.estimate.scaling.collectives import (
    Channel,
    CollectiveOperation,
    Fabric,
    Group,
    Transport,
    collective_s,
)
from planner.estimate.scaling.overlap import WorkerStep, expected_maximum_normal, scaling_priors
from planner.estimate.scaling.probe import CollectiveProbe
from planner.estimate.scaling.scaling_model import ScalingPoint, fit_scaling
from planner.modes.ddp import gradient_traffic
from planner.modes.fsdp2 import sharded_traffic
from planner.modes.terms import Traffic
from trials.trial import Parallelism

NVLINK = Fabric(
    intra=Channel(transport=Transport.NVLINK, bytes_per_s=234e9, latency_s=3.4e-6),
    inter=Channel(transport=Transport.RDMA, bytes_per_s=45e9, latency_s=9.6e-6),
)
ETHERNET = Fabric(
    intra=Channel(transport=Transport.PCIE, bytes_per_s=8e9, latency_s=5.7e-6),
    inter=Channel(transport=Transport.TCP, bytes_per_s=1.25e9, latency_s=100e-6),
)
WORK = WorkerStep(micro_batch_s=0.2)
ALONE = Group(rank_count=1)
PAIR = Group(rank_count=2)
ACROSS = Group(rank_count=2, node_count=2)
MANY = Group(rank_count=16, node_count=4)
DDP = gradient_traffic(100_000_000)


def ddp(fabric: Fabric = ETHERNET, traffic: Traffic = DDP):
    return fit_scaling([], Parallelism.DDP, traffic, fabric)


def test_one_worker_takes_what_it_takes() -> None:
    work = WorkerStep(micro_batch_s=0.2, accumulation=3, per_step_s=0.05)

    assert ddp().step_s(work, ALONE) == pytest.approx(0.65)


def test_a_step_is_never_faster_with_company_and_never_below_its_traffic() -> None:
    model = ddp()
    for group in (PAIR, ACROSS, MANY):
        assert model.step_s(WORK, group) >= WORK.micro_batch_s
        assert model.step_s(WORK, group) >= model.synchronisation_s(group)


def test_steps_grow_with_the_number_of_nodes() -> None:
    groups = [Group(rank_count=4 * nodes, node_count=nodes) for nodes in (3, 4, 8, 16, 64)]

    times = [ddp().step_s(WORK, group) for group in groups]

    assert all(fewer < more for fewer, more in pairwise(times))


def test_accumulation_lowers_the_traffic_of_ddp_but_not_that_of_fsdp2() -> None:
    def waiting(model, count: int) -> float:
        work = WorkerStep(micro_batch_s=0.2, accumulation=count)
        return model.step_s(work, MANY) / (count * 0.2) - 1.0

    sharded = fit_scaling(
        [],
        Parallelism.FSDP2,
        sharded_traffic(100_000_000, 12, bytes_per_parameter=2, bytes_per_gradient=4),
        ETHERNET,
    )
    assert waiting(ddp(), 8) < waiting(ddp(), 1) / 4
    assert waiting(sharded, 8) == pytest.approx(waiting(sharded, 1))


def test_keeping_parameters_after_the_forward_pass_saves_a_gather() -> None:
    kept = sharded_traffic(
        10**9, 24, bytes_per_parameter=2, bytes_per_gradient=2, is_resharded_after_forward=False
    )
    again = sharded_traffic(10**9, 24, bytes_per_parameter=2, bytes_per_gradient=2)

    times = [fit_scaling([], Parallelism.FSDP2, one, NVLINK).synchronisation_s(MANY) for one in (kept, again)]

    assert times[0] / times[1] == pytest.approx(2 / 3, rel=0.01)


def test_ddp_reduces_in_buckets_of_25_mib() -> None:
    assert gradient_traffic(100).per_step.count == 1
    assert gradient_traffic(100_000_000).per_step.count == math.ceil(4e8 / (25 * 2**20))


@pytest.mark.parametrize("parallelism", [Parallelism.DDP, Parallelism.FSDP2])
def test_the_compute_behind_a_measured_step_is_found(parallelism: Parallelism) -> None:
    traffic = sharded_traffic(10**9, 24, bytes_per_parameter=2, bytes_per_gradient=4)
    model = fit_scaling([], parallelism, traffic, NVLINK)
    work = WorkerStep(micro_batch_s=0.7, accumulation=4, per_step_s=0.02)

    found = model.micro_batch_s(model.step_s(work, MANY), replace(work, micro_batch_s=0.0), MANY)

    assert found == pytest.approx(0.7, rel=1e-6)


def test_two_measured_pairs_predict_larger_counts_of_the_same_links() -> None:
    truth = fit_scaling(
        [],
        Parallelism.DDP,
        DDP,
        ETHERNET.at_rates(intra=0.4, inter=0.3),
        {**scaling_priors(Parallelism.DDP, DDP, ETHERNET), "overlap": Prior(median=1.9, factor=1.0)},
    )
    works = [WorkerStep(micro_batch_s=one) for one in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)]
    points = [
        ScalingPoint(work=work, group=group, step_s=truth.step_s(work, group))
        for work in works
        for group in (PAIR, ACROSS)
    ]

    model = fit_scaling(points, Parallelism.DDP, DDP, ETHERNET)

    for group in (Group(rank_count=4), MANY, Group(rank_count=64, node_count=16)):
        assert model.step_s(WORK, group) == pytest.approx(truth.step_s(WORK, group), rel=0.1)


def test_unknown_traffic_is_learned_from_a_pair() -> None:
    unknown = gradient_traffic(None)
    truth = ddp()
    works = [WorkerStep(micro_batch_s=one) for one in (0.1, 0.2, 0.4, 0.8)]
    points = [
        ScalingPoint(work=work, group=group, step_s=truth.step_s(work, group))
        for work in works
        for group in (PAIR, ACROSS)
    ]

    model = fit_scaling(points, Parallelism.DDP, unknown, ETHERNET)

    assert model.step_s(WORK, MANY) == pytest.approx(truth.step_s(WORK, MANY), rel=0.1)


def test_measuring_several_workers_narrows_the_estimate() -> None:
    before = ddp()
    points = [
        ScalingPoint(work=work, group=ACROSS, step_s=before.step_s(work, ACROSS))
        for work in (WORK, WorkerStep(micro_batch_s=0.8))
    ]

    after = fit_scaling(points, Parallelism.DDP, DDP, ETHERNET)

    wide = before.error_scale(WORK, MANY, measured_count=1)
    narrow = after.error_scale(WORK, MANY, measured_count=2)
    assert sum(narrow) < 0.6 * sum(wide)


def test_plain_ethernet_is_less_certain_than_rdma_and_more_upward_than_downward() -> None:
    below, above = ddp(ETHERNET).error_scale(WORK, MANY, measured_count=1)
    rdma_below, rdma_above = ddp(NVLINK).error_scale(WORK, MANY, measured_count=1)

    assert above > below
    assert above > 2 * rdma_above
    assert rdma_below >= 0.05


def test_links_other_than_the_measured_ones_can_be_asked_for() -> None:
    model = ddp(ETHERNET)

    assert model.step_s(WORK, MANY, NVLINK) < model.step_s(WORK, MANY)


@pytest.mark.parametrize(("count", "expected"), [(1, 0.0), (2, 0.564), (8, 1.424), (64, 2.375)])
def test_the_slowest_of_many_is_as_slow_as_tables_say(count: int, expected: float) -> None:
    assert expected_maximum_normal(count) == pytest.approx(expected, abs=0.05)  # Harter 1961


def probe_of(
    fabric: Fabric, group: Group, collective: CollectiveOperation, sizes: tuple[int, ...]
) -> CollectiveProbe:
    """Exact times of a fabric."""
    samples = tuple((size, collective_s(collective, size, group, fabric)) for size in sizes)
    return CollectiveProbe(collective=collective, group=group, samples=samples)


@pytest.mark.parametrize(
    ("parallelism", "collective", "other"),
    [
        (Parallelism.DDP, CollectiveOperation.ALL_REDUCE, CollectiveOperation.ALL_GATHER),
        (Parallelism.FSDP2, CollectiveOperation.REDUCE_SCATTER, CollectiveOperation.ALL_REDUCE),
    ],
)
def test_a_probe_corrects_the_rate_and_narrows_the_error(
    parallelism: Parallelism, collective: CollectiveOperation, other: CollectiveOperation
) -> None:
    truth = ETHERNET.at_rates(intra=0.25, inter=1.0)
    sharded = sharded_traffic(100_000_000, 12, bytes_per_parameter=4, bytes_per_gradient=4)
    traffic = DDP if parallelism == Parallelism.DDP else sharded
    sizes = (1 << 20, 1 << 24, 1 << 27)
    probes = [probe_of(truth, PAIR, collective, sizes), probe_of(NVLINK, PAIR, other, sizes)]

    believed = fit_scaling([], parallelism, traffic, ETHERNET)
    probed = fit_scaling([], parallelism, traffic, ETHERNET, probes=probes)

    expected_s = fit_scaling([], parallelism, traffic, truth).synchronisation_s(PAIR)
    assert probed.synchronisation_s(PAIR) == pytest.approx(expected_s, rel=0.05)
    assert believed.synchronisation_s(PAIR) < 0.5 * expected_s
    before, after = (
        one.fit.log_scale(lambda constants: constants["intra_slowdown"]) for one in (believed, probed)
    )
    assert max(after) < 0.25 * max(before)


def test_small_messages_of_a_probe_say_nothing_of_the_rate() -> None:
    small = probe_of(
        ETHERNET.at_rates(intra=0.1, inter=1.0), PAIR, CollectiveOperation.ALL_REDUCE, (1 << 16,)
    )

    found = fit_scaling([], Parallelism.DDP, DDP, ETHERNET, probes=[small])

    assert found.fit.constants == ddp().fit.constants
