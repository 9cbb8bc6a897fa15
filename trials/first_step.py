"""Looks at the user's file: what `trials.check` runs in a process of its own.

    python -P -m trials.first_step PATH SHA256 ANSWER HOW

writes a profile or an error to ANSWER as JSON: once when the file is known to work, again when it has been
traced in full, so that a crash of the tracer loses nothing. The step is run on fake tensors first; then for
real, on CPU at batch size 2, where that is cheap or where fake tensors cannot run it.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from trials.check import CHECK_BATCH_SIZE, RealStep
from trials.errors import TrialsError, Unsupported
from trials.machine.cgroup import available_memory_bytes
from trials.model_file.adapters.lightning import is_lightning
from trials.model_file.blocks import NO_BLOCKS, find_blocks
from trials.model_file.contract import LoadedWorkload, Step, call_user
from trials.model_file.loader import BatchFunction, DatasetSource, move_to, one_batch, tensors_of
from trials.model_file.workload import load
from trials.profile import Adapter, WorkloadProfile
from trials.trial import Workload
from trials.whole_file import write_whole

if TYPE_CHECKING:
    from trials.profile import Trace
    from trials.trace.redirect import CudaRequests

CRASHED = "the tracer ended the process"
SPARE_BYTES = 2**30  # of the machine's memory, left to others


def main(path: str, sha256: str, answer: str, how: str) -> None:
    """Look at the file at ``path`` and write what was found."""
    from trials.trace.redirect import cuda_as_cpu

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    workload = Workload(path=path, sha256=sha256)
    available_bytes = available_memory_bytes()
    _bound_memory(available_bytes)
    try:
        with cuda_as_cpu(path) as requests:
            _look(load(workload), Path(answer), RealStep(how), available_bytes, requests)
    except TrialsError as error:
        _write(Path(answer), {"error": str(error)})


def _look(
    loaded: LoadedWorkload, answer: Path, how: RealStep, available_bytes: int | None, cuda: CudaRequests
) -> None:
    """Write the profile, then the profile with its traces. Raises TrialsError: the file cannot be used."""
    from trials.trace.cache import TraceCache
    from trials.trace.survey import survey, why_no_real_step
    from trials.trace.tracing import trace_step, trace_workload

    known: tuple[Trace, ...] = ()
    cache, step, why_none, why_not = None, None, "", ""
    if how is not RealStep.FIRST:
        try:
            found = survey(loaded, micro_batch_size=CHECK_BATCH_SIZE)
            cache = TraceCache.of(loaded.workload.sha256, found.digest)
            known = cache.read() or (trace_step(loaded, micro_batch_size=CHECK_BATCH_SIZE, precision="fp32"),)
            step = found.step
            why_not = why_no_real_step(known[0], available_bytes, is_wanted=how is RealStep.ALWAYS)
        except TrialsError as error:
            why_none = str(error)
    if step is None or not why_not:
        profile = take_first_step(loaded)
    else:
        profile = _profile(loaded, step, None, *_checked_batch(loaded))
        profile = replace(profile, notes=(*profile.notes, f"no real step was run: {why_not}"))
    profile = replace(profile, notes=(*profile.notes, *_cuda_notes(cuda)))
    _write_profile(answer, profile)
    try:
        outcome = trace_workload(loaded, known=known, is_real_allowed=not why_not)
    except Exception as error:  # noqa: BLE001  (the user's model runs inside: anything may come of it)
        _write_profile(answer, replace(profile, trace_note=f"{type(error).__name__}: {error}"))
        return
    note = outcome.note or ("" if outcome.traces else why_none)
    _write_profile(answer, replace(profile, traces=outcome.traces, trace_note=note))
    if cache is not None and outcome.traces and outcome.traces != known:
        cache.write(outcome.traces)


def _cuda_notes(cuda: CudaRequests) -> tuple[str, ...]:
    def lines(numbers: list[int]) -> str:
        return ("line " if len(numbers) == 1 else "lines ") + ", ".join(map(str, sorted(numbers)))

    notes = []
    if cuda.lines:
        notes.append(
            f"{lines(cuda.lines)} of the file asks for CUDA, which this machine lacks: the step was traced on"
            " the CPU in its place; a trial on the CPU will refuse it"
        )
    if cuda.asked_lines:
        notes.append(
            f"{lines(cuda.asked_lines)} of the file asks whether CUDA is there: what it does without was"
            " traced"
        )
    return tuple(notes)


def _end_with(parent: int) -> None:
    """End this process and what it started when nobody waits for the answer any more."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


def _bound_memory(available_bytes: int | None) -> None:
    """Let what is too large for this machine fail with a reason, before the kernel ends the process."""
    if available_bytes is None:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (max(available_bytes - SPARE_BYTES, SPARE_BYTES),) * 2)


def take_first_step(loaded: LoadedWorkload) -> WorkloadProfile:
    """Fetch, forward, backward and optimizer at batch size 2; what was found, without a trace.

    Raises TrialsError, which says what the file does wrong.
    """
    torch.manual_seed(0)
    path = loaded.workload.path
    batch, sample_shape = _checked_batch(loaded)
    step = loaded.build()
    cpu = torch.device("cpu")
    step.to(cpu)
    loss = call_user(path, _loss_name(step), step, move_to(batch, cpu))
    if not math.isfinite(loss.item()):
        raise TrialsError(
            f"{path}: the loss is {loss.item()} at the very first step (batch size {CHECK_BATCH_SIZE}, fp32);"
            " look for a division by zero, a log of zero or wrong labels"
        )
    call_user(path, "the backward pass", loss.backward)
    optimizer = loaded.build_optimizer(step)
    call_user(path, "the optimizer's step", optimizer.step)
    return _profile(loaded, step, loss.item(), batch, sample_shape)


def _profile(
    loaded: LoadedWorkload, step: Step, loss: float | None, batch: Any, sample_shape: str
) -> WorkloadProfile:
    """What the built step and its batch say, without a trace."""
    block_count = len(find_blocks(step.model))
    source = loaded.source
    return WorkloadProfile(
        adapter=find_adapter(step.model),
        parameter_count=sum(parameter.numel() for parameter in step.parameters()),
        trainable_parameter_count=sum(
            parameter.numel() for parameter in step.parameters() if parameter.requires_grad
        ),
        sample_shape=sample_shape,
        loss=loss,
        dataset_size=source.size if isinstance(source, DatasetSource) else None,
        tokens_per_sample=loaded.tokens_per_sample,
        hint=loaded.hint,
        block_count=block_count,
        clip_norm=loaded.clip_norm,
        traces=(),
        trace_note=CRASHED,
        notes=loaded.notes + _notes(block_count, batch),
    )


def find_adapter(model: nn.Module) -> Adapter:
    """How the file was understood, by what its model is."""
    if is_lightning(model):
        return Adapter.LIGHTNING
    if any(up.__name__ == "PreTrainedModel" for up in type(model).__mro__):
        return Adapter.HUGGING_FACE
    return Adapter.PLAIN


def _notes(block_count: int, batch: Any) -> tuple[str, ...]:
    notes = []
    if not block_count:
        notes.append(f"activation checkpointing and FSDP2 are not tried: {NO_BLOCKS}")
    if not tensors_of(batch):
        notes.append(
            f"a batch is a {type(batch).__name__} without visible tensors, so its size was not checked"
        )
    return tuple(notes)


def _loss_name(step: Step) -> str:
    return "training_step" if is_lightning(step.model) else "the forward pass with its loss"


def _checked_batch(loaded: LoadedWorkload) -> tuple[Any, str]:
    """A batch of 2 and its sample's shape, once its size has been seen to follow the size asked for."""
    path = loaded.workload.path
    is_function = isinstance(loaded.source, BatchFunction)
    name = "batch" if is_function else "a batch of dataset()"
    sizes = [CHECK_BATCH_SIZE, CHECK_BATCH_SIZE + 1]
    if isinstance(loaded.source, DatasetSource) and loaded.source.size == CHECK_BATCH_SIZE:
        sizes.pop()
    batches = {}
    for size in sizes:
        what = f"batch({size})" if is_function else f"reading {size} samples of dataset()"
        try:
            batches[size] = call_user(path, what, one_batch, loaded.source, size)
        except Unsupported as error:
            raise TrialsError(f"{path}: {what}: {error}") from error
    batch = batches[CHECK_BATCH_SIZE]
    found = {size: tensors_of(one) for size, one in batches.items()}
    if not found[CHECK_BATCH_SIZE]:
        return batch, type(batch).__name__
    dimension = _batch_dimension(found)
    if dimension is None:
        raise TrialsError(
            f"{path}: {name} is of the wrong size: "
            + "; ".join(f"of {size} samples it holds {_shapes(one)}" for size, one in found.items())
            + "; one dimension of its tensors must be the number of samples"
        )
    return batch, _shapes(found[CHECK_BATCH_SIZE], dimension)


def _batch_dimension(found: dict[int, list[tuple[str, torch.Tensor]]]) -> int | None:
    """The dimension that some tensor has at every asked size; the first where there are several."""
    tensors = [[tensor for _, tensor in one] for one in found.values()]
    for same in zip(*tensors, strict=False):
        for dimension in range(min(one.ndim for one in same)):
            if all(one.shape[dimension] == size for one, size in zip(same, found, strict=True)):
                return dimension
    return None


def _shapes(tensors: list[tuple[str, torch.Tensor]], without: int | None = None) -> str:
    parts = []
    for name, tensor in tensors:
        sizes = [size for index, size in enumerate(tensor.shape) if index != without]
        kind = str(tensor.dtype).removeprefix("torch.")
        parts.append(f"{name} {kind}[{', '.join(map(str, sizes))}]".strip())
    return ", ".join(parts)


def _write_profile(answer: Path, profile: WorkloadProfile) -> None:
    from pydantic import TypeAdapter  # a machine that only takes first steps may do without

    _write(answer, {"profile": TypeAdapter(WorkloadProfile).dump_python(profile, mode="json")})


def _write(answer: Path, content: dict[str, Any]) -> None:
    write_whole(answer, json.dumps(content))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # threads that the user's file left behind are not waited for
