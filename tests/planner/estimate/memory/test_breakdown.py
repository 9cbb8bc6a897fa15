from __future__ import annotations

from dataclasses import replace

import pytest

from planner.estimate.memory.breakdown import (
    CUDA_CONTEXT_BYTES,
    FRAGMENTATION_FRACTION,
    MemoryBreakdown,
    Optimizer,
    communicator_bytes,
    data_parallel_memory,
    fit_memory_line,
    state_bytes,
)
from planner.estimate.memory.stage_memory import MegatronState, megatron_memory
from planner.estimate.scaling.collectives import Transport
from planner.estimate.scaling.layout import Layout, TransformerShape
from trials.trial import Parallelism

GB = 10**9
STATE = state_bytes(10**9)
SHAPE = TransformerShape(
    layer_count=32, hidden_size=2560, head_count=20, sequence_length=2048, vocabulary_size=50_257
)
LAYOUT = Layout(tensor=4, pipeline=4, data=2, micro_batch_size=4, micro_batch_count=16, workers_per_node=4)


def memory(parallelism: Parallelism = Parallelism.DDP, workers: int = 8, **changes) -> MemoryBreakdown:
    arguments = {
        "block_count": 20,
        "transport": Transport.NVLINK,
        **changes,
    }
    return data_parallel_memory(STATE, 6 * GB, parallelism=parallelism, worker_count=workers, **arguments)


@pytest.mark.parametrize(
    ("optimizer", "total"),
    [(Optimizer.ADAMW, 16), (Optimizer.SGD_MOMENTUM, 12), (Optimizer.SGD, 8)],
)
def test_state_is_the_textbook_bytes_per_parameter(optimizer: Optimizer, total: int) -> None:
    state = state_bytes(10**9, optimizer)

    assert state.parameters + state.gradients + state.optimizer == total * GB


def test_frozen_parameters_have_no_gradient_and_no_moments() -> None:
    state = state_bytes(10**9, trainable_count=10**7)

    assert (state.parameters, state.gradients, state.optimizer) == (4 * GB, 0.04 * GB, 0.08 * GB)


def test_the_parts_make_the_whole() -> None:
    found = memory()

    tensors = 16 * GB + 6 * GB + 4 * GB  # state, activations, buckets
    outside = CUDA_CONTEXT_BYTES + communicator_bytes(Transport.NVLINK, 1)
    assert found.copies == 4 * GB
    assert found.allocator_bytes == pytest.approx(tensors * (1 + FRAGMENTATION_FRACTION))
    assert found.total_bytes == pytest.approx(found.allocator_bytes + outside)
    assert found.upper_bytes(0.2) == pytest.approx(1.2 * found.total_bytes)


def test_one_worker_has_no_buckets_and_no_communicator() -> None:
    found = memory(Parallelism.SINGLE, workers=1)

    assert (found.copies, found.communicators) == (0.0, 0.0)


def test_on_cpu_nothing_lies_outside_the_process() -> None:
    found = memory(transport=None)

    assert (found.outside_bytes, found.fragmentation) == (0.0, 0.0)
    assert found.total_bytes == 26 * GB


def test_fsdp2_divides_the_state_and_holds_two_blocks() -> None:
    found = memory(Parallelism.FSDP2)

    assert found.parameters + found.gradients + found.optimizer == 2 * GB
    assert found.copies == pytest.approx(2 * 4 * GB / 20 + 4 * GB / 20)  # gathered in fp32


def test_fsdp2_without_blocks_gathers_everything() -> None:
    assert memory(Parallelism.FSDP2, block_count=0).copies == 4 * GB + 4 * GB  # gathered in fp32


def test_fsdp2_takes_less_the_more_workers_there_are_and_ddp_does_not() -> None:
    assert memory(Parallelism.FSDP2, 64).total_bytes < memory(Parallelism.FSDP2, 8).total_bytes
    assert memory(Parallelism.DDP, 64).total_bytes == memory(Parallelism.DDP, 8).total_bytes


def test_the_first_stages_hold_more_micro_batches_in_flight() -> None:
    even = megatron_memory(SHAPE, LAYOUT, [8, 8, 8, 8], MegatronState(), Transport.NVLINK)
    front = megatron_memory(SHAPE, LAYOUT, [11, 7, 7, 7], MegatronState(), Transport.NVLINK)
    back = megatron_memory(SHAPE, LAYOUT, [7, 7, 7, 11], MegatronState(), Transport.NVLINK)

    assert front.activations > even.activations > back.activations


def test_a_pipeline_of_one_micro_batch_keeps_one() -> None:
    single = replace(LAYOUT, micro_batch_count=1)

    many = megatron_memory(SHAPE, LAYOUT, [8, 8, 8, 8], MegatronState(), Transport.NVLINK)
    one = megatron_memory(SHAPE, single, [8, 8, 8, 8], MegatronState(), Transport.NVLINK)

    assert one.activations < many.activations / 3


@pytest.mark.parametrize(
    ("stage", "shrunk"),
    [
        (0, ()),
        (1, ("optimizer",)),
        (2, ("optimizer", "gradients")),
        (3, ("optimizer", "gradients", "parameters")),
    ],
)
def test_zero_shards_more_with_every_stage(stage: int, shrunk: tuple[str, ...]) -> None:
    plain = megatron_memory(SHAPE, LAYOUT, [32], MegatronState(), Transport.NVLINK)
    sharded = megatron_memory(SHAPE, LAYOUT, [32], MegatronState(zero_stage=stage), Transport.NVLINK)

    for part in ("optimizer", "gradients", "parameters"):
        share = 1 / 2 if part in shrunk else 1.0  # two data-parallel ranks
        assert getattr(sharded, part) == pytest.approx(share * getattr(plain, part))


def test_recomputation_and_tensor_parallelism_save_activations() -> None:
    plain = megatron_memory(SHAPE, LAYOUT, [32], MegatronState(), Transport.NVLINK)
    again = megatron_memory(
        SHAPE, replace(LAYOUT, is_checkpointed=True), [32], MegatronState(), Transport.NVLINK
    )
    whole = megatron_memory(SHAPE, replace(LAYOUT, tensor=1), [32], MegatronState(), Transport.NVLINK)

    assert again.activations < 0.25 * plain.activations
    assert whole.activations > 2 * plain.activations


def test_two_batch_sizes_determine_the_line() -> None:
    line = fit_memory_line([(4, 9 * GB), (16, 15 * GB)])

    assert line is not None
    assert line.expected_bytes(8) == 11 * GB
    assert line.expected_bytes(32) == 23 * GB


def test_the_line_lies_on_or_above_every_point() -> None:
    points = [(4, 9 * GB), (8, 11 * GB + GB // 2), (16, 15 * GB), (16, 14 * GB)]

    line = fit_memory_line(points)

    assert line is not None
    assert all(line.expected_bytes(size) >= peak for size, peak in points)


def test_the_upper_bound_widens_beyond_the_largest_measured_batch() -> None:
    line = fit_memory_line([(4, 9 * GB), (16, 15 * GB)])

    assert line is not None
    near, far = (line.upper_bytes(size) / line.expected_bytes(size) for size in (16, 64))
    assert 1.0 < near < far


@pytest.mark.parametrize("points", [[], [(4, GB)], [(4, GB), (4, 2 * GB)]])
def test_fewer_than_two_sizes_are_no_line(points: list[tuple[int, int]]) -> None:
    assert fit_memory_line(points) is None
