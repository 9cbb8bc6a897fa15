"""The training step of an MPT model (mosaicml/llm-foundry) as a trace, written down from its configuration.

Operations of one block as llm-foundry runs them under amp_bf16 with FlashAttention and ALiBi: layer norms in
low precision, no biases, no dropout; checkpointing runs the forward pass of every block again. Widths, depths
and heads are those of llm-foundry's scripts/train/benchmarking/README.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from trials.profile import Operation, OperationClass, Trace
from trials.trial import Precision

HALF, SINGLE = 2, 4  # bytes
VOCABULARY = 50_368


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpt:
    """Sizes of a model."""

    width: int
    depth: int
    heads: int

    @property
    def parameter_count(self) -> int:
        """Blocks and the tied embedding."""
        return 12 * self.depth * self.width**2 + VOCABULARY * self.width


MODELS = {
    "125m": Mpt(width=768, depth=12, heads=12),
    "350m": Mpt(width=1024, depth=24, heads=16),
    "760m": Mpt(width=1536, depth=24, heads=12),
    "1b": Mpt(width=2048, depth=24, heads=16),
    "3b": Mpt(width=2560, depth=32, heads=20),
    "7b": Mpt(width=4096, depth=32, heads=32),
    "13b": Mpt(width=5120, depth=40, heads=40),
    "30b": Mpt(width=7168, depth=48, heads=56),
    "70b": Mpt(width=8192, depth=80, heads=64),
}


def mpt_trace(model: Mpt, sequence_length: int, micro_batch_size: int, *, is_checkpointed: bool) -> Trace:
    """One micro batch, forward and backward, and the optimizer."""
    tokens, width, depth = micro_batch_size * sequence_length, model.width, model.depth
    forward = [
        _matmul(tokens, 3 * width, width, depth),
        _attention(model, sequence_length, micro_batch_size, 1.0, depth),
        _matmul(tokens, width, width, depth),
        _matmul(tokens, 4 * width, width, depth),
        _matmul(tokens, width, 4 * width, depth),
        *_streams(tokens, width, depth),
    ]
    backward = [
        *(_gradient(one, transposed) for one in forward[:1] + forward[2:5] for transposed in (False, True)),
        _attention(model, sequence_length, micro_batch_size, 2.5, depth),
        *_streams(tokens, width, 2 * depth),
    ]
    head = _matmul(tokens, VOCABULARY, width, 1)
    loss = _stream("aten._log_softmax", tokens * VOCABULARY * (HALF + 3 * SINGLE), 1)
    again = forward if is_checkpointed else []
    parameter_bytes = SINGLE * model.parameter_count
    return Trace(
        micro_batch_size=micro_batch_size,
        precision=Precision.BF16,
        techniques=("activation_checkpointing",) if is_checkpointed else (),
        operations=(
            *forward,
            head,
            loss,
            *again,
            *backward,
            *(_gradient(head, one) for one in (False, True)),
            _optimizer(parameter_bytes),
        ),
        peak_bytes=0,
        parameter_bytes=parameter_bytes,
        gradient_bytes=parameter_bytes,
        optimizer_bytes=2 * parameter_bytes,
    )


def _matmul(rows: int, columns: int, inner: int, count: int) -> Operation:
    return Operation(
        name="aten.mm",
        kind=OperationClass.MATMUL,
        dtype="bfloat16",
        shape=(1, rows, columns, inner),
        count=count,
        flops=2.0 * rows * columns * inner,
        bytes=float(HALF * (rows * inner + inner * columns + rows * columns)),
    )


def _gradient(forward: Operation, of_weights: object) -> Operation:
    """Of the input (n takes the place of k) or of the weights (m does)."""
    _, rows, columns, inner = forward.shape
    if of_weights:
        return _matmul(inner, columns, rows, forward.count)
    return _matmul(rows, inner, columns, forward.count)


def _attention(
    model: Mpt, sequence_length: int, micro_batch_size: int, factor: float, count: int
) -> Operation:
    """FlashAttention, causal: half of the score matrix is computed; backward has five products to two."""
    flops = 4.0 * micro_batch_size * sequence_length**2 * model.width / 2.0
    return Operation(
        name="aten._scaled_dot_product_flash_attention",
        kind=OperationClass.ATTENTION,
        dtype="bfloat16",
        shape=(
            micro_batch_size,
            model.heads,
            sequence_length,
            sequence_length,
            model.width // model.heads,
            0,
        ),
        count=count,
        flops=factor * flops,
        bytes=float(factor * 4 * HALF * micro_batch_size * sequence_length * model.width),
    )


def _streams(tokens: int, width: int, count: int) -> list[Operation]:
    """Two norms, two residual additions, GELU."""
    return [
        _stream("aten.native_layer_norm", 2 * HALF * tokens * width, 2 * count),
        _stream("aten.add", 3 * HALF * tokens * width, 2 * count),
        _stream("aten.gelu", 2 * HALF * tokens * 4 * width, count),
        _stream("aten._to_copy", (SINGLE + HALF) * 12 * width**2 // 3, count),  # autocast of the weights
    ]


def _stream(name: str, size: float, count: int) -> Operation:
    return Operation(
        name=name,
        kind=OperationClass.ELEMENTWISE,
        dtype="bfloat16",
        shape=(),
        count=count,
        flops=0.0,
        bytes=float(size),
    )


def _optimizer(parameter_bytes: int) -> Operation:
    """Adam reads parameter, gradient and two moments, and writes all but the gradient."""
    return Operation(
        name="aten._fused_adamw",
        kind=OperationClass.OPTIMIZER,
        dtype="float32",
        shape=(),
        count=1,
        flops=0.0,
        bytes=7.0 * parameter_bytes,
    )
