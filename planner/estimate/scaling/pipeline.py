"""Step time of a transformer under tensor, pipeline and data parallelism (Megatron's "3D" layout).

A layer's forward and backward for one micro batch (b samples of s tokens, width h, t tensor-parallel ranks)
is whatever is longer, the GPU's work or the host's launches:

* matrix products: 3 (4 with recomputation) times 24 b s h^2 + 4 b s^2 h FLOPs, 1/t each, at an efficiency
  of the chip's peak (Narayanan et al., SC 2021);
* everything else: the activations that Korthikanti et al. (2022) count, s b h (10 + 24/t + 5 a s/(h t)) bytes
  in half precision, each moved a number of times over the memory;
* a ramp: kernels too short to fill the chip cost a constant, however small the batch;
* tensor parallelism: 4 all-reduces (6 with recomputation) of b s h elements;
* host: a constant per layer. With small micro batches it is all that counts, and t does not help.

The 1F1B schedule (PipeDream-flush) runs m micro batches through p stages: the slowest stage m times and every
other once, so the share (p-1)/(m+p-1) of the step is a bubble. Then the data-parallel gradients are reduced,
without overlap, and the optimizer runs.

Ranks are laid out as Megatron does: tensor groups within a node first, then data, then pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planner.estimate.scaling.calibrate import Fit, Prior, Vector, fit_constants, unmeasured
from planner.estimate.scaling.collectives import Fabric, collective_s
from planner.estimate.scaling.layout import Layout, TransformerShape
from planner.modes.terms import CollectiveOperation

HALF_BYTES = 2  # of an activation, a parameter or a gradient in half precision
_BACKWARD_AND_FORWARD = 3  # times the forward's FLOPs
_HOST_SHARPNESS = 6.0  # p-norm of GPU and host time: nearly the longer one
_OPTIMIZER_BYTES = 30  # per parameter: fp32 copy and two moments read and written, half-precision copies
_POINT_NOISE_FRACTION = 0.05
_SHAPE_SPREAD = 0.10  # of log time between shapes that the formula does not see: which kernel cuBLAS picks
_SHAPE_NOISE = 0.03  # of log time between runs of one shape

PRIORS = {
    "matmul_efficiency": Prior(median=0.6, factor=1.3, low=0.1, high=0.95),  # SC 2021: 0.44 to 0.52 of all
    "activation_passes": Prior(median=8.0, factor=1.6),  # read and written, forward and backward, unfused
    "ramp_per_layer_s": Prior(median=0.5e-3, factor=2.5),  # about 100 kernels of 5 us
    "host_per_layer_s": Prior(median=2e-3, factor=1.8),  # about 300 launches of 5 to 8 us
    "tensor_slowdown": Prior(median=1.0, factor=1.3),
    "data_slowdown": Prior(median=1.0, factor=1.4),
    "hand_over_s": Prior(median=2e-4, factor=3.0),  # between stages: shapes, synchronisation, copy
    "optimizer_slowdown": Prior(median=1.0, factor=1.8),
    "per_step_s": Prior(median=3e-3, factor=2.5),  # data, loss scale, logging
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronMachine:
    """The chips and links that a layout runs on."""

    flop_per_s: float  # dense peak of the precision
    bytes_per_s: float  # memory
    fabric: Fabric


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPoint:
    """A measured optimizer step of one layout."""

    shape: TransformerShape
    layout: Layout
    step_s: float


def step_s(
    shape: TransformerShape, layout: Layout, machine: MegatronMachine, constants: Mapping[str, float]
) -> float:
    """Seconds per optimizer step; ``constants`` are those of `PRIORS`."""
    layer = layer_s(shape, layout, machine, constants)
    head = _head_s(shape, layout, machine, constants)
    layers_per_stage = math.ceil(shape.layer_count / layout.pipeline)
    hand_over = 0.0
    if layout.pipeline > 1:
        message = HALF_BYTES * layout.micro_batch_size * shape.sequence_length * shape.hidden_size
        sent = collective_s(CollectiveOperation.SEND, message, layout.neighbours, machine.fabric)
        hand_over = 2.0 * (constants["hand_over_s"] + sent)
    slowest = layers_per_stage * layer + head + hand_over
    once_through = shape.layer_count * layer + head + (layout.pipeline - 1) * hand_over
    pipeline_s = (layout.micro_batch_count - 1) * slowest + once_through
    return pipeline_s + _once_per_step_s(shape, layout, machine, constants)


def layer_s(
    shape: TransformerShape, layout: Layout, machine: MegatronMachine, constants: Mapping[str, float]
) -> float:
    """Seconds of one layer, forward and backward, for one micro batch."""
    tokens = layout.micro_batch_size * shape.sequence_length
    width, ranks = shape.hidden_size, layout.tensor
    times = _BACKWARD_AND_FORWARD + (1 if layout.is_checkpointed else 0)
    flops = times * (24 * tokens * width**2 + 4 * tokens * shape.sequence_length * width) / ranks
    matmul = flops / (machine.flop_per_s * constants["matmul_efficiency"])
    moved = constants["activation_passes"] * activation_bytes_per_layer(shape, layout) * times / 3.0
    reduces = 4 + (2 if layout.is_checkpointed else 0)
    reduce_s = collective_s(
        CollectiveOperation.ALL_REDUCE, HALF_BYTES * tokens * width, layout.tensor_group, machine.fabric
    )
    gpu = (
        constants["ramp_per_layer_s"]
        + matmul
        + moved / machine.bytes_per_s
        + reduces * reduce_s * constants["tensor_slowdown"]
    )
    return _longer(gpu, constants["host_per_layer_s"])


def activation_bytes_per_layer(shape: TransformerShape, layout: Layout, element_bytes: int = 2) -> float:
    """Activations that one layer keeps for its backward pass, per rank and micro batch.

    Korthikanti et al. 2022, equation 2, by element: 4 + 12/t tensors of s b h elements and 2 byte masks; per
    head the s x s matrix after softmax, and after dropout with its mask (none of them under fused attention,
    which keeps row sums only).
    """
    tokens = layout.micro_batch_size * shape.sequence_length
    linear = tokens * shape.hidden_size * (4 * element_bytes + 2 + 12 * element_bytes / layout.tensor)
    if shape.has_fused_attention:
        return linear
    scores = tokens * shape.sequence_length * shape.head_count / layout.tensor
    dropout = element_bytes + 1 if shape.has_attention_dropout else 0
    return linear + scores * (element_bytes + dropout)


def _head_s(
    shape: TransformerShape, layout: Layout, machine: MegatronMachine, constants: Mapping[str, float]
) -> float:
    """Seconds of the output projection and loss on the last stage, for one micro batch."""
    tokens = layout.micro_batch_size * shape.sequence_length
    logits = tokens * shape.vocabulary_size / layout.tensor
    flops = 2 * _BACKWARD_AND_FORWARD * logits * shape.hidden_size
    moved = 6 * 4 * logits  # fp32 loss: logits, softmax and gradient written and read
    return flops / (machine.flop_per_s * constants["matmul_efficiency"]) + moved / machine.bytes_per_s


def _once_per_step_s(
    shape: TransformerShape, layout: Layout, machine: MegatronMachine, constants: Mapping[str, float]
) -> float:
    layers = math.ceil(shape.layer_count / layout.pipeline) * shape.parameters_per_layer
    parameters = (layers + shape.vocabulary_size * shape.hidden_size) / layout.tensor
    reduce_s = collective_s(
        CollectiveOperation.ALL_REDUCE, HALF_BYTES * parameters, layout.data_group, machine.fabric
    )
    optimizer = constants["optimizer_slowdown"] * _OPTIMIZER_BYTES * parameters / machine.bytes_per_s
    return constants["per_step_s"] + reduce_s * constants["data_slowdown"] + optimizer


def _longer(first: float, second: float) -> float:
    longer = max(first, second)
    return longer * float((1.0 + (min(first, second) / longer) ** _HOST_SHARPNESS) ** (1 / _HOST_SHARPNESS))


@dataclass(frozen=True, slots=True)
class ShapeOffset:
    """What the formula misses, in log time, on the layers of one shape."""

    log_offset: float
    spread: float  # standard deviation of the offset


_UNSEEN = ShapeOffset(0.0, _SHAPE_SPREAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutModel:
    """Step time by layout; made by `fit_layouts`."""

    machine: MegatronMachine
    fit: Fit
    shapes: Mapping[tuple[int, int, int, int], ShapeOffset]  # see `_shape_key`

    def step_s(self, shape: TransformerShape, layout: Layout) -> float:
        """Seconds per optimizer step."""
        known = self.shapes.get(_shape_key(shape, layout), _UNSEEN)
        return step_s(shape, layout, self.machine, self.fit.constants) * math.exp(known.log_offset)

    def error_scale(self, shape: TransformerShape, layout: Layout) -> tuple[float, float]:
        """Log error of `step_s` to expect below and above: constants, and how well the shape is known."""
        known = self.shapes.get(_shape_key(shape, layout), _UNSEEN)
        below, above = self.fit.log_scale(lambda constants: step_s(shape, layout, self.machine, constants))
        own = math.hypot(_SHAPE_NOISE, known.spread)
        return math.hypot(below, own), math.hypot(above, own)


def fit_layouts(
    points: Sequence[LayoutPoint], machine: MegatronMachine, priors: Mapping[str, Prior] = PRIORS
) -> LayoutModel:
    """A model from measured layouts (there may be none): constants first, then an offset per layer shape.

    Layers of one width, micro batch and tensor degree run the same kernels, so what the formula misses on
    one layout it misses on the others; the mean miss of a shape is kept, shrunk by how few points it has.
    """
    if not points:
        return LayoutModel(machine=machine, fit=unmeasured(priors), shapes={})
    measured = np.array([one.step_s for one in points])

    def predict(constants: Mapping[str, float]) -> Vector:
        return np.array([step_s(one.shape, one.layout, machine, constants) for one in points])

    fit = fit_constants(priors, predict, measured, noise_fraction=_POINT_NOISE_FRACTION)
    misses: dict[tuple[int, int, int, int], list[float]] = {}
    for one, miss in zip(points, np.log(measured / predict(fit.constants)).tolist(), strict=True):
        misses.setdefault(_shape_key(one.shape, one.layout), []).append(miss)
    doubt = (_SHAPE_NOISE / _SHAPE_SPREAD) ** 2
    shapes = {
        key: ShapeOffset(sum(group) / (len(group) + doubt), _SHAPE_NOISE / math.sqrt(len(group) + doubt))
        for key, group in misses.items()
    }
    return LayoutModel(machine=machine, fit=fit, shapes=shapes)


def _shape_key(shape: TransformerShape, layout: Layout) -> tuple[int, int, int, int]:
    """What decides which kernels a layer runs: width, sequence, micro batch, tensor degree."""
    return (shape.hidden_size, shape.sequence_length, layout.micro_batch_size, layout.tensor)
