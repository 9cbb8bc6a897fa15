"""What a workload is, found without a real step: its parameters, its blocks, and what a step would cost.

A real step of a model with 124 M parameters takes half a minute of a laptop's CPU, one of 7 B takes memory
that no laptop has; on fake tensors both take seconds and no memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from torch._subclasses.fake_tensor import FakeTensorMode

from trials.errors import TrialsError
from trials.trace.build import build_fake
from trials.trace.moved import tensors_in
from trials.trace.tracing import explain, step_builder

if TYPE_CHECKING:
    from trials.model_file.contract import LoadedWorkload, Step
    from trials.profile import Trace

REAL_STEP_FLOPS_MAX = 2e11
"""Above it a real step is left to the trials: two CPU cores at 30 to 60 GFLOP/s each take some seconds."""

REAL_STEP_MEMORY_FRACTION = 0.5
"""Of the memory that is available: a step that may need more is not run beside other work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The workload's step on fake tensors; ``digest`` changes with what it is made of, and with its batch."""

    step: Step
    digest: str


def survey(loaded: LoadedWorkload, *, micro_batch_size: int) -> Survey:
    """Build the workload on fake tensors.

    Raises TrialsError with the reason where that cannot be done.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        try:
            built = build_fake(step_builder(loaded, micro_batch_size, techniques=()), fake)
        except Exception as error:  # the user's model runs inside: anything may come of it
            raise TrialsError(explain(error)) from error
        module = built.module
        parts: list[Any] = [repr(module), loaded.clip_norm, repr(built.optimizer)]
        parts += [(name, tensor.shape, tensor.dtype) for name, tensor in module.named_parameters()]
        parts += [(name, tensor.shape, tensor.dtype) for name, tensor in module.named_buffers()]
        parts += [(tensor.shape, tensor.dtype) for tensor in tensors_in(built.batch)]
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
    return Survey(step=cast("Step", module), digest=digest)


def why_no_real_step(trace: Trace, available_bytes: int | None, *, is_wanted: bool) -> str:
    """Why the step that ``trace`` is of would cost this machine's CPU too much; empty where it would not.

    Args:
        trace: of the plainest step.
        available_bytes: memory that the machine has left, None where that is unknown.
        is_wanted: run it however long it takes, if it has the memory.
    """
    what = f"one step of {trace.micro_batch_size} samples"
    if available_bytes is not None and trace.peak_bytes > REAL_STEP_MEMORY_FRACTION * available_bytes:
        needed, left = trace.peak_bytes / 2**30, available_bytes / 2**30
        return f"{what} needs about {needed:.1f} GiB, and this machine has {left:.1f} GiB left"
    if not is_wanted and trace.flops > REAL_STEP_FLOPS_MAX:
        return f"{what} is {trace.flops / 1e12:.2g} TFLOP, which takes a CPU too long"
    return ""
