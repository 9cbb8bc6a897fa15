"""The operations of one step without a GPU: FLOPs, bytes, kernels, tensors alive.

One full training step (forward, backward, optimizer) runs on fake CPU tensors: shapes and dtypes are real,
data does not exist, so that a 7B model is traced in seconds on a laptop. `cuda_operations` makes the step
take the operations that CUDA would take. Three passes:

1. forward and backward, which leaves gradients;
2. forward and backward again, as in gradient accumulation and DDP, where gradients stay alive: the first peak;
   then the optimizer, which makes its state, and zero_grad;
3. the whole step as it repeats, recorded operation by operation: the second peak.

What cannot be seen: the values. A model that looks at them (`.item()`, `if tensor.any():`) cannot run on
fake tensors; `trace_real_step` then records the same on one real CPU step at a small batch size.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._pytree import tree_leaves, tree_map_only

from trials.errors import TrialsError
from trials.profile import OperationClass, Trace, TraceMode
from trials.trace_cuda import cuda_operations
from trials.trace_memory import AliveBytes, storage_bytes
from trials.trace_record import Recorder
from trials.trial import Precision

if TYPE_CHECKING:
    from collections.abc import Callable

_LOW_PRECISION = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A step ready to run: ``module(batch)`` returns the loss (or, in inference, anything)."""

    module: nn.Module
    optimizer: torch.optim.Optimizer | None  # None: gradients only
    batch: Any


def trace_built(
    build: Callable[[], Built],
    *,
    micro_batch_size: int,
    precision: Precision = Precision.FP32,
    is_checkpointed: bool = False,
    mode: TraceMode = TraceMode.TRAINING,
    is_cuda: bool = True,
) -> Trace:
    """Trace the step that ``build`` makes, on fake tensors and without its memory.

    ``build`` runs under fake tensors, so that a large model is never materialised; when it cannot (it reads
    weights, or NumPy), it runs for real and its tensors are made fake afterwards. ``is_checkpointed`` and
    ``micro_batch_size`` only label the trace: ``build`` wraps and sizes. ``is_cuda=False`` traces what the
    CPU itself runs.

    Raises TrialsError when the model looks at the values of tensors, or fails.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        built = _build_fake(build, fake)
        try:
            return _trace(
                built,
                micro_batch_size=micro_batch_size,
                precision=precision,
                is_checkpointed=is_checkpointed,
                mode=mode,
                is_cuda=is_cuda,
                is_fake=True,
            )
        except Exception as error:  # noqa: BLE001 - the user's model runs inside: anything may come of it
            raise TrialsError(_reason(error)) from error


def trace_real_step(
    build: Callable[[], Built],
    *,
    micro_batch_size: int,
    precision: Precision = Precision.FP32,
    is_checkpointed: bool = False,
    mode: TraceMode = TraceMode.TRAINING,
) -> Trace:
    """Record the same on real CPU tensors, for a model that fake tensors cannot run: use a small batch.

    It takes the operations of the CPU: attention and dropout may count more bytes than on CUDA.
    """
    return _trace(
        build(),
        micro_batch_size=micro_batch_size,
        precision=precision,
        is_checkpointed=is_checkpointed,
        mode=mode,
        is_cuda=False,
        is_fake=False,
    )


def _trace(
    built: Built,
    *,
    micro_batch_size: int,
    precision: Precision,
    is_checkpointed: bool,
    mode: TraceMode,
    is_cuda: bool,
    is_fake: bool,
) -> Trace:
    step = _Step(built=built, precision=precision, mode=mode)
    recorder = Recorder()
    with ExitStack() as stack:
        if is_cuda:
            stack.enter_context(cuda_operations())
            _use_lists(built.optimizer)
        alive = stack.enter_context(AliveBytes())
        alive.add(step.held())
        gradient_bytes, peak_accumulating_bytes = step.warm_up(alive)
        alive.restart_peak()
        with recorder:
            step.run(recorder)
        optimizer_bytes = storage_bytes(step.optimizer_state())
        if mode is TraceMode.TRAINING:
            peak_accumulating_bytes = max(peak_accumulating_bytes + optimizer_bytes, alive.peak_bytes)
    return Trace(
        micro_batch_size=micro_batch_size,
        precision=precision,
        is_checkpointed=is_checkpointed,
        operations=recorder.operations(),
        peak_bytes=alive.peak_bytes,
        parameter_bytes=storage_bytes(built.module.parameters()),
        gradient_bytes=gradient_bytes,
        optimizer_bytes=optimizer_bytes,
        buffer_bytes=storage_bytes(built.module.buffers()),
        batch_bytes=storage_bytes(_tensors(built.batch)),
        peak_accumulating_bytes=peak_accumulating_bytes,
        mode=mode,
        is_fake=is_fake,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The parts of a step in the order in which a trial runs them."""

    built: Built
    precision: Precision
    mode: TraceMode

    def held(self) -> list[torch.Tensor]:
        """Tensors that live through every step."""
        module = self.built.module
        return [*module.parameters(), *module.buffers(), *_tensors(self.built.batch)]

    def optimizer_state(self) -> list[torch.Tensor]:
        """Tensors of the optimizer's state, which the first step makes."""
        return [] if self.built.optimizer is None else _tensors(list(self.built.optimizer.state.values()))

    def warm_up(self, alive: AliveBytes) -> tuple[int, int]:
        """Bytes of the gradients, and the peak of a micro batch that is not the first one."""
        if self.mode is TraceMode.INFERENCE:
            self.forward()
            return 0, 0
        self.forward_backward()
        gradient_bytes = storage_bytes([one.grad for one in self.built.module.parameters()])
        alive.restart_peak()
        self.forward_backward()
        peak_bytes = alive.peak_bytes
        if self.mode is TraceMode.TRAINING:
            self.update()
        return gradient_bytes, peak_bytes

    def run(self, recorder: Recorder) -> None:
        """One step as it repeats."""
        if self.mode is TraceMode.INFERENCE:
            self.forward()
            return
        self.forward_backward()
        if self.mode is TraceMode.TRAINING:
            recorder.kind = OperationClass.OPTIMIZER
            self.update()

    def forward(self) -> None:
        with torch.no_grad(), self._autocast():
            self.built.module(self.built.batch)

    def forward_backward(self) -> None:
        with self._autocast():
            loss = self.built.module(self.built.batch)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise TrialsError("the step does not return a scalar loss")
        loss.backward()

    def update(self) -> None:
        if self.built.optimizer is not None:
            self.built.optimizer.step()
            self.built.optimizer.zero_grad(set_to_none=True)

    def _autocast(self) -> AbstractContextManager[Any]:
        dtype = _LOW_PRECISION.get(self.precision)
        return nullcontext() if dtype is None else torch.autocast("cpu", dtype=dtype)


def _use_lists(optimizer: torch.optim.Optimizer | None) -> None:
    """CUDA runs optimizers over lists of tensors unless told otherwise; on CPU that must be asked for."""
    for group in [] if optimizer is None else optimizer.param_groups:
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True


def _build_fake(build: Callable[[], Built], fake: FakeTensorMode) -> Built:
    """What ``build`` makes under fake tensors, or, where it cannot, for real and then made fake."""
    try:
        built = build()
    except Exception:  # noqa: BLE001 - the user's code: whatever stops it under fake tensors, try it for real
        with unset_fake_temporarily():
            built = _build_real(build)
    parameters = _fake_module(built.module, fake)
    for group in [] if built.optimizer is None else built.optimizer.param_groups:
        group["params"] = [parameters.get(id(one), one) for one in group["params"]]
    batch = tree_map_only(torch.Tensor, lambda one: _fake(one, fake), built.batch)
    return Built(module=built.module, optimizer=built.optimizer, batch=batch)


def _build_real(build: Callable[[], Built]) -> Built:
    try:
        return build()
    except Exception as error:
        raise TrialsError(f"the model cannot be built: {type(error).__name__}: {error}") from error


def _fake_module(module: nn.Module, fake: FakeTensorMode) -> dict[int, torch.Tensor]:
    """Put fake tensors in the place of real parameters and buffers; what replaced which, by identity."""
    replaced: dict[int, torch.Tensor] = {}
    kept = []  # so that no identity is used twice
    for part in module.modules():
        for store in (part._parameters, part._buffers):
            for name, tensor in store.items():
                if tensor is None or isinstance(tensor, FakeTensor):
                    continue
                kept.append(tensor)
                store[name] = replaced.setdefault(id(tensor), _fake(tensor, fake))  # type: ignore[assignment]
    return replaced


def _fake(tensor: torch.Tensor, fake: FakeTensorMode) -> torch.Tensor:
    return tensor if isinstance(tensor, FakeTensor) else fake.from_tensor(tensor)


def _tensors(tree: Any) -> list[torch.Tensor]:  # noqa: ANN401 - a batch of any shape
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _reason(error: Exception) -> str:
    """Why a model could not be traced, in words."""
    if isinstance(error, TrialsError):
        return str(error)
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
        return f"the model looks at the values of tensors ({error.func}), which a trace does not have"
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
