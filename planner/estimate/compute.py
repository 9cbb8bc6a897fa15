"""Compute time from one chip or precision to another, and from a trace alone.

The roofline gives each operation's least time on a chip: the larger of its FLOPs over the peak of its unit
and its bytes over the bandwidth (Williams, Waterman, Patterson 2009). Real kernels reach a share of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.estimate.chips import Rates
from trials.profile import OperationClass, Trace

KERNEL_LAUNCH_S = 4e-6
"""Host time to launch one kernel from eager PyTorch: 3 to 6 us on current hosts; a floor per kernel."""

MATMUL_EFFICIENCY = 0.65
"""Share of the dense peak that large matrix products reach (cuBLAS on T4 to H100: 0.5 to 0.8)."""

STREAM_EFFICIENCY = 0.75
"""Share of peak bandwidth that elementwise kernels reach."""

TRACE_ALONE_LOG_SPREAD = 0.8  # nothing measured: within a factor of 2.2
_UNIT_CLASSES = (OperationClass.MATMUL, OperationClass.CONVOLUTION, OperationClass.ATTENTION)


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one worker's step without synchronisation: once per step, and per micro batch."""

    fixed_s: float
    per_micro_s: float


def roofline_time(trace: Trace, rates: Rates) -> StepTime:
    """No chip with these peak rates can run the traced step faster."""
    return _time(trace, rates, unit_efficiency=1.0, stream_efficiency=1.0, launch_s=0.0)


def traced_time(trace: Trace, rates: Rates) -> StepTime:
    """Expected time of the traced step on a chip with these peak rates, nothing measured."""
    return _time(
        trace,
        rates,
        unit_efficiency=MATMUL_EFFICIENCY,
        stream_efficiency=STREAM_EFFICIENCY,
        launch_s=KERNEL_LAUNCH_S,
    )


def _time(
    trace: Trace, rates: Rates, *, unit_efficiency: float, stream_efficiency: float, launch_s: float
) -> StepTime:
    fixed_s = per_micro_s = 0.0
    for one in trace.operations:
        peak = rates.flop_per_s if one.kind in _UNIT_CLASSES and _is_unit_dtype(one.dtype, rates) else None
        compute_s = one.flops / ((peak or rates.fp32_flop_per_s) * unit_efficiency)
        stream_s = one.bytes / (rates.bytes_per_s * stream_efficiency)
        seconds = one.count * max(compute_s, stream_s, launch_s)
        if one.kind is OperationClass.OPTIMIZER:
            fixed_s += seconds
        else:
            per_micro_s += seconds
    return StepTime(fixed_s=fixed_s, per_micro_s=per_micro_s)


def _is_unit_dtype(dtype: str, rates: Rates) -> bool:
    """Half types run on the precision's unit; float32 does too, where the precision is fp32 or tf32."""
    return dtype in ("bfloat16", "float16", "float32") and rates.flop_per_s > 0


def chip_ratio(source: Rates, target: Rates) -> tuple[float, float]:
    """Time on target over time on source from peak figures alone, and its half width in log.

    The compute-bound part scales with peak FLOP/s and the memory-bound part with bandwidth; without a
    trace the shares are unknown, so the middle is the geometric mean and the width grows with how much
    the two disagree.
    """
    compute = math.log(source.flop_per_s / target.flop_per_s)
    stream = math.log(source.bytes_per_s / target.bytes_per_s)
    return math.exp(0.5 * (compute + stream)), 0.35 + 0.5 * abs(compute - stream)


def traced_ratio(before: Trace, source: Rates, after: Trace, target: Rates) -> tuple[float, float]:
    """Time of ``after`` on target over that of ``before`` on source, and its half width in log."""
    old, new = traced_time(before, source), traced_time(after, target)
    old_s = old.fixed_s + old.per_micro_s / before.micro_batch_size * after.micro_batch_size
    ratio = (new.fixed_s + new.per_micro_s) / old_s
    return ratio, 0.30 + 0.15 * abs(math.log(ratio))
