from __future__ import annotations

from dataclasses import replace

import pytest

from planner.estimate.scaling.collectives import Channel, Fabric, Transport
from planner.estimate.scaling.layout import Layout, TransformerShape
from planner.estimate.scaling.pipeline import (
    PRIORS,
    LayoutPoint,
    MegatronMachine,
    activation_bytes_per_layer,
    fit_layouts,
    layer_s,
    step_s,
)

SHAPE = TransformerShape(
    layer_count=24, hidden_size=4096, head_count=32, sequence_length=2048, vocabulary_size=51_200
)
LAYOUT = Layout(micro_batch_size=4, micro_batch_count=8, workers_per_node=8)
MACHINE = MegatronMachine(
    flop_per_s=312e12,
    bytes_per_s=1555e9,
    fabric=Fabric(
        intra=Channel(transport=Transport.NVLINK, bytes_per_s=234e9, latency_s=3.4e-6),
        inter=Channel(transport=Transport.RDMA, bytes_per_s=45e9, latency_s=9.6e-6),
    ),
)
CONSTANTS = {name: one.median for name, one in PRIORS.items()}


@pytest.mark.parametrize(
    ("pipeline", "micro_batches", "bubble"), [(1, 8, 0.0), (4, 4, 3 / 7), (4, 64, 3 / 67)]
)
def test_the_bubble_is_that_of_1f1b(pipeline: int, micro_batches: int, bubble: float) -> None:
    layout = replace(LAYOUT, pipeline=pipeline, micro_batch_count=micro_batches)

    assert layout.bubble_fraction == pytest.approx(bubble)


def test_a_pipeline_loses_its_bubble() -> None:
    """With no head, hand-over or optimizer, p stages of m micro batches take (m + p - 1) / (m p) of one."""
    shape = replace(SHAPE, vocabulary_size=0)
    free = {**CONSTANTS, "hand_over_s": 1e-12, "per_step_s": 1e-12, "optimizer_slowdown": 1e-12}
    whole = step_s(shape, LAYOUT, MACHINE, free)

    piped = step_s(shape, replace(LAYOUT, pipeline=4), MACHINE, free)

    assert piped / whole == pytest.approx((8 + 3) / (8 * 4), rel=0.02)


def test_recomputation_costs_a_third_of_the_matrix_products() -> None:
    plain = layer_s(SHAPE, LAYOUT, MACHINE, {**CONSTANTS, "ramp_per_layer_s": 1e-12})
    again = layer_s(
        SHAPE, replace(LAYOUT, is_checkpointed=True), MACHINE, {**CONSTANTS, "ramp_per_layer_s": 1e-12}
    )

    assert again / plain == pytest.approx(4 / 3, rel=0.01)


def test_tensor_parallelism_divides_large_layers_but_not_the_host() -> None:
    small = replace(SHAPE, hidden_size=512, sequence_length=256)
    tiny = replace(LAYOUT, micro_batch_size=1)

    def gain(shape: TransformerShape, layout: Layout) -> float:
        split = replace(layout, tensor=4)
        return layer_s(shape, layout, MACHINE, CONSTANTS) / layer_s(shape, split, MACHINE, CONSTANTS)

    assert 2.0 < gain(SHAPE, LAYOUT) < 4.0
    assert gain(small, tiny) == pytest.approx(1.0, abs=0.05)


def test_a_layer_is_never_faster_than_its_flops_at_the_peak() -> None:
    flops = 72 * 4 * 2048 * 4096**2 + 12 * 4 * 2048**2 * 4096

    assert layer_s(SHAPE, LAYOUT, MACHINE, CONSTANTS) > flops / MACHINE.flop_per_s


def test_groups_fill_a_node_with_tensor_ranks_first() -> None:
    layout = Layout(tensor=4, data=4, pipeline=2, micro_batch_size=1, micro_batch_count=8, workers_per_node=8)

    assert layout.worker_count == 32
    assert layout.tensor_group.node_count == 1
    assert layout.data_group.node_count == 2
    assert layout.neighbours.node_count == 2


def test_data_parallel_gradients_cost_more_across_nodes() -> None:
    one_node = replace(LAYOUT, data=8)
    two_nodes = replace(LAYOUT, data=8, workers_per_node=4)

    assert step_s(SHAPE, one_node, MACHINE, CONSTANTS) < step_s(SHAPE, two_nodes, MACHINE, CONSTANTS)


def test_activations_are_those_of_korthikanti() -> None:
    """34 s b h + 5 a s^2 b bytes per layer in half precision without tensor parallelism (equation 1)."""
    tokens = 4 * 2048
    expected = 34 * tokens * 4096 + 5 * 32 * 2048 * tokens

    assert activation_bytes_per_layer(SHAPE, LAYOUT) == expected


def test_fused_attention_and_no_dropout_keep_less() -> None:
    tokens = 4 * 2048
    scores = 32 * 2048 * tokens

    fused = activation_bytes_per_layer(replace(SHAPE, has_fused_attention=True), LAYOUT)
    bare = activation_bytes_per_layer(replace(SHAPE, has_attention_dropout=False), LAYOUT)

    assert fused == 34 * tokens * 4096
    assert bare == fused + 2 * scores


def truth_of(shape: TransformerShape, layout: Layout) -> float:
    slower = {**CONSTANTS, "matmul_efficiency": 0.45, "host_per_layer_s": 4e-3, "per_step_s": 0.01}
    odd = 1.15 if layout.tensor == 4 else 1.0  # kernels that the formula does not know
    return odd * step_s(shape, layout, MACHINE, slower)


def points(layer_count: int) -> list[LayoutPoint]:
    return [
        LayoutPoint(shape=shape, layout=layout, step_s=truth_of(shape, layout))
        for hidden in (1024, 4096)
        for tensor in (1, 2, 4)
        for pipeline in (1, 2)
        for micro in (1, 8)
        for shape in [replace(SHAPE, layer_count=layer_count, hidden_size=hidden)]
        for layout in [replace(LAYOUT, tensor=tensor, pipeline=pipeline, micro_batch_size=micro)]
    ]


def test_measured_layouts_predict_other_depths() -> None:
    model = fit_layouts(points(12), MACHINE)

    for one in points(40):
        assert model.step_s(one.shape, one.layout) == pytest.approx(one.step_s, rel=0.08)


def test_a_shape_seen_before_is_more_certain() -> None:
    model = fit_layouts(points(12), MACHINE)
    unseen = replace(LAYOUT, micro_batch_size=3)

    assert sum(model.error_scale(SHAPE, LAYOUT)) > 0.2  # micro batch 4 was not measured
    assert sum(model.error_scale(SHAPE, unseen)) > sum(
        model.error_scale(SHAPE, replace(LAYOUT, micro_batch_size=8))
    )


def test_with_nothing_measured_the_cited_constants_hold() -> None:
    model = fit_layouts([], MACHINE)

    assert model.step_s(SHAPE, LAYOUT) == step_s(SHAPE, LAYOUT, MACHINE, CONSTANTS)
    assert sum(model.error_scale(SHAPE, LAYOUT)) > sum(
        fit_layouts(points(12), MACHINE).error_scale(SHAPE, LAYOUT)
    )
