"""The operations of one step without a GPU: FLOPs, bytes, kernels, tensors alive.

One full training step (forward, backward, optimizer) runs on fake CPU tensors: shapes and dtypes are real,
data does not exist, so that a 7B model is traced in seconds on a laptop. `trials.trace.cuda` makes the step
take the operations that CUDA would take. In order:

1. forward and backward, recorded; their peak;
2. forward and backward again, where the gradients of 1 stay alive, as in gradient accumulation and in DDP;
3. the optimizer, which makes its state; then again, recorded, with its peak.

In the step as it repeats the optimizer's state is alive throughout, so that its bytes are added to the peaks
of 1 and 2.

What a trace cannot see is values. A model that looks at them (`.item()`, `if tensor.any():`) cannot run on
fake tensors; `trace_workload` then records the same on one real CPU step at batch size 2, and says so.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from trials.errors import TrialsError, Unsupported
from trials.model_file.loader import one_batch
from trials.modes import PRECISIONS, TECHNIQUES
from trials.profile import OperationClass, Trace, TraceMode
from trials.trace.alive import AliveBytes, storage_bytes
from trials.trace.build import Built, build_fake
from trials.trace.cuda import cuda_operations
from trials.trace.moved import tensors_in
from trials.trace.one_step import TracedStep
from trials.trace.record import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trials.model_file.contract import LoadedWorkload

__all__ = [
    "Built",
    "TraceOutcome",
    "explain",
    "step_builder",
    "trace_built",
    "trace_real_step",
    "trace_step",
    "trace_workload",
]

REAL_STEP_BATCH_SIZE = 2  # BatchNorm refuses 1 on maps of one pixel

Techniques = tuple[str, ...]  # of those that change the operations


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOutcome:
    """The traces of a workload; ``note`` says what stands in their place or why there are none."""

    traces: tuple[Trace, ...]
    note: str = ""


def trace_workload(
    loaded: LoadedWorkload,
    *,
    micro_batch_sizes: Sequence[int] = (2, 8),
    precisions: Sequence[str] | None = None,
    technique_sets: Sequence[Techniques] | None = None,
    known: Sequence[Trace] = (),
    is_real_allowed: bool = True,
) -> TraceOutcome:
    """Trace every combination of the knobs that changes the operations; run it where a crash may be borne.

    Unless told, under each precision that has operations of its own (TF32 has those of fp32), and plain or
    with one technique that changes them. A combination that the workload refuses (checkpointing without
    blocks, a data set smaller than the batch) is left out. Two batch sizes give the lines that FLOPs, bytes
    and memory follow; a few more show where kernels fill the GPU. ``known`` traces are taken as they are;
    a real step in place of a trace is run only where ``is_real_allowed``.
    """
    made = {(trace.micro_batch_size, trace.precision, trace.techniques): trace for trace in known}
    traces = []
    reasons = []
    if precisions is None:
        precisions = [one.name for one in PRECISIONS if one.is_traced]
    if technique_sets is None:
        technique_sets = [(), *((one.name,) for one in TECHNIQUES if one.is_traced)]
    for size, precision, techniques in product(micro_batch_sizes, precisions, technique_sets):
        try:
            traces.append(
                made.get((size, precision, techniques))
                or trace_step(loaded, micro_batch_size=size, precision=precision, techniques=techniques)
            )
        except TrialsError as error:
            reasons.append(str(error))
            if not traces and not techniques:  # what the plainest step cannot do no other can
                break
    if traces:
        return TraceOutcome(traces=tuple(traces), note="; ".join(dict.fromkeys(reasons)))
    if not is_real_allowed:
        return TraceOutcome(traces=(), note="; ".join(dict.fromkeys(reasons)))
    return _instead(loaded, "; ".join(dict.fromkeys(reasons)))


def trace_step(
    loaded: LoadedWorkload,
    *,
    micro_batch_size: int,
    precision: str,
    techniques: Techniques = (),
    is_cuda: bool = True,
) -> Trace:
    """The trace of a user's workload. Raises TrialsError with the reason where it cannot be traced."""
    try:
        build = step_builder(loaded, micro_batch_size, techniques=techniques)
    except Unsupported as error:
        raise TrialsError(str(error)) from error
    return trace_built(
        build,
        micro_batch_size=micro_batch_size,
        precision=precision,
        techniques=techniques,
        is_cuda=is_cuda,
    )


def trace_built(
    build: Callable[[], Built],
    *,
    micro_batch_size: int,
    precision: str = "fp32",
    techniques: Techniques = (),
    mode: TraceMode = TraceMode.TRAINING,
    is_cuda: bool = True,
) -> Trace:
    """Trace the step that ``build`` makes, on fake tensors and without its memory.

    ``techniques`` and ``micro_batch_size`` only label the trace: ``build`` wraps and sizes.
    ``is_cuda=False`` traces what the CPU itself runs. Raises TrialsError when the model looks at the values
    of tensors, or fails.
    """
    with _quiet(), FakeTensorMode(allow_non_fake_inputs=True) as fake:
        try:
            built = build_fake(build, fake)
            step = TracedStep(built=built, precision=precision, mode=mode, is_cuda=is_cuda)
            return _trace(step, micro_batch_size=micro_batch_size, techniques=techniques, is_fake=True)
        except Exception as error:  # the user's model runs inside: anything may come of it
            raise TrialsError(explain(error)) from error


def trace_real_step(build: Callable[[], Built], *, micro_batch_size: int, precision: str = "fp32") -> Trace:
    """Record the same on real CPU tensors, for a model that fake tensors cannot run: use a small batch.

    It takes the operations of the CPU: attention and dropout may count more bytes than on CUDA.
    """
    step = TracedStep(built=build(), precision=precision, mode=TraceMode.TRAINING, is_cuda=False)
    return _trace(step, micro_batch_size=micro_batch_size, techniques=(), is_fake=False)


def _trace(step: TracedStep, *, micro_batch_size: int, techniques: Techniques, is_fake: bool) -> Trace:
    recorder = Recorder()
    with ExitStack() as stack:
        if step.is_cuda:
            stack.enter_context(cuda_operations())
        stack.enter_context(_without_mkldnn())
        alive = stack.enter_context(AliveBytes())
        alive.add(step.held())
        first_peak_bytes = _run_peak(step.forward_backward, alive, recorder)
        gradient_bytes = storage_bytes(step.gradients())
        later_peak_bytes = first_peak_bytes
        if step.mode is not TraceMode.INFERENCE:
            is_recorded = step.mode is TraceMode.GRADIENTS
            recorder = Recorder() if is_recorded else recorder
            later_peak_bytes = _run_peak(step.forward_backward, alive, recorder if is_recorded else None)
        step.update()
        recorder.kind = OperationClass.OPTIMIZER
        update_peak_bytes = _run_peak(step.update, alive, recorder)
    optimizer_bytes = storage_bytes(step.optimizer_state())
    module = step.built.module
    return Trace(
        micro_batch_size=micro_batch_size,
        precision=step.precision,
        techniques=techniques,
        operations=recorder.operations(),
        peak_bytes=max(first_peak_bytes + optimizer_bytes, update_peak_bytes),
        parameter_bytes=storage_bytes(module.parameters()),
        gradient_bytes=gradient_bytes,
        optimizer_bytes=optimizer_bytes,
        buffer_bytes=storage_bytes(module.buffers()),
        batch_bytes=storage_bytes(tensors_in(step.built.batch)),
        peak_accumulating_bytes=max(later_peak_bytes + optimizer_bytes, update_peak_bytes),
        passes_bytes=later_peak_bytes + optimizer_bytes,
        update_bytes=update_peak_bytes,
        mode=step.mode,
        is_fake=is_fake,
    )


def _run_peak(run: Callable[[], None], alive: AliveBytes, recorder: Recorder | None) -> int:
    """The peak of what ``run`` does, recorded where there is a recorder."""
    alive.restart_peak()
    with nullcontext() if recorder is None else recorder:
        run()
    return alive.peak_bytes


@contextmanager
def _quiet() -> Iterator[None]:
    """Fake tensors log the traceback of what they raise; the reason is told once, as an error."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


@contextmanager
def _without_mkldnn() -> Iterator[None]:
    """oneDNN's LSTM is one operation that hides its products; CUDA builds have none."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def step_builder(loaded: LoadedWorkload, size: int, *, techniques: Techniques) -> Callable[[], Built]:
    """A function that builds the workload's step of ``size`` samples. Raises Unsupported: no such batch."""
    batch = one_batch(loaded.source, size)  # real: its data is only looked at for its shapes

    def build() -> Built:
        step = loaded.build()
        for technique in techniques:
            TECHNIQUES[technique].prepare(step)
        return Built(
            module=step,
            optimizer=loaded.build_optimizer(step),
            batch=batch,
            clip_norm=loaded.clip_norm,
        )

    return build


def _instead(loaded: LoadedWorkload, reason: str) -> TraceOutcome:
    """One real step, for a model that cannot be traced."""
    try:
        build = step_builder(loaded, REAL_STEP_BATCH_SIZE, techniques=())
        trace = trace_real_step(build, micro_batch_size=REAL_STEP_BATCH_SIZE)
    except Exception as error:  # noqa: BLE001  (the user's model runs inside: anything may come of it)
        return TraceOutcome(traces=(), note=f"{reason}; and one real step failed: {explain(error)}")
    return TraceOutcome(
        traces=(trace,),
        note=f"{reason}; FLOPs, bytes and memory were recorded on one real CPU step at batch size"
        f" {REAL_STEP_BATCH_SIZE} in fp32 instead",
    )


def explain(error: Exception) -> str:
    """Why a model could not be traced, in words."""
    if isinstance(error, TrialsError | Unsupported):
        return str(error)
    if isinstance(error, DataDependentOutputException | DynamicOutputShapeException):
        return f"the model looks at the values of tensors ({error.func}), which a trace does not have"
    first_line = next(iter(str(error).strip().splitlines()), "no message")
    return f"{type(error).__name__}: {first_line}"
