"""How unsure a step from one chip to another is, before conformal calibration: the spread of its log."""

from __future__ import annotations

import math

from planner.estimate.scaling.overlap import LINK_FACTORS
from planner.estimate.time.chips import Chip
from planner.estimate.transfer.workload_decomposition import TimeRatio

FORMULA_LOG_SPREAD = 0.12  # kernels are tuned for some chips more than for others
HOST_LOG_SPREAD = 0.45
"""Hosts differ: the same host-bound step took 1.0 to 2.1 times as long on four machines (Zeus, NCF)."""
BALANCE_LOG_SPREAD = 0.05  # per e-fold between the chips' ratios of FLOP/s and of bandwidth
POWER_LOG_SPREAD = 0.3  # per e-fold that the power limit takes
"""Short steps finish before the limit bites, and long ones run as hot as the room lets them."""
PRECISION_LOG_SPREAD = 0.15
"""Other kernels run in another precision: fp16 predicted from fp32 on the same GPU, and back, is off by 0.27
(root mean square) for 32 convnets on six GPUs (ryujaehun), of which the other terms explain the rest."""
CPU_TO_GPU_LOG_SPREAD = 0.6  # threads, caches and vector units are not in the formula
CPU_SHARE_LOG_SPREAD = 0.2  # per e-fold of a CPU's vCPUs: threads scale imperfectly


def chip_log_spread(
    source: Chip,
    target: Chip,
    ratio: TimeRatio,
    host_share: float,
    link_shares: tuple[float, float] = (0.0, 0.0),
) -> float:
    """Of predicting time on ``target`` from time on ``source``.

    Args:
        source: where it was measured.
        target: where it is asked for.
        ratio: between the two, with the spread of what the workload may be made of.
        host_share: of the predicted time, that no chip shortens.
        link_shares: of the time on the source and on the target, that ranks wait for the link.
    """
    compute = math.log(target.sustained_flop_per_s / source.sustained_flop_per_s)
    memory = math.log(target.bytes_per_s / source.bytes_per_s)
    parts = [ratio.log_spread, FORMULA_LOG_SPREAD, BALANCE_LOG_SPREAD * abs(compute - memory)]
    if source.gpu != target.gpu:
        parts.append(HOST_LOG_SPREAD * host_share)
        parts += [POWER_LOG_SPREAD * math.log(one.throttle) for one in (source, target)]
        links = zip((source, target), link_shares, strict=True)
        parts += [share * math.log(LINK_FACTORS[one.link.transport]) for one, share in links]
    if source.precision != target.precision:
        parts.append(PRECISION_LOG_SPREAD)
    if source.is_cpu != target.is_cpu:
        parts.append(CPU_TO_GPU_LOG_SPREAD)
    elif source.is_cpu:
        parts.append(CPU_SHARE_LOG_SPREAD * abs(memory))
    return math.hypot(*parts)
