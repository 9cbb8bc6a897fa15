"""One step in its parts, as a trial runs it: forward and backward, clipping and optimizer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trials.errors import TrialsError
from trials.modes import PRECISIONS
from trials.profile import TraceMode
from trials.trace.moved import tensors_in

if TYPE_CHECKING:
    from trials.trace.build import Built


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedStep:
    """The step of a workload that is built, real or fake."""

    built: Built
    precision: str
    mode: TraceMode
    is_cuda: bool  # optimizer and clipping over lists of tensors, as CUDA does unless told otherwise

    def __post_init__(self) -> None:
        optimizer = self.built.optimizer
        if not self.is_cuda or optimizer is None:
            return
        for group in optimizer.param_groups:
            if "foreach" in group and group["foreach"] is None and not group.get("fused"):
                group["foreach"] = True

    def held(self) -> list[torch.Tensor]:
        """Tensors that live through every step, but for gradients and the optimizer's state."""
        module = self.built.module
        return [*module.parameters(), *module.buffers(), *tensors_in(self.built.batch)]

    def gradients(self) -> list[torch.Tensor]:
        """Gradients that exist now."""
        return [one.grad for one in self.built.module.parameters() if one.grad is not None]

    def optimizer_state(self) -> list[torch.Tensor]:
        """What the optimizer keeps on the device: of every parameter, but not its step counter."""
        optimizer = self.built.optimizer
        state = [] if optimizer is None else tensors_in(list(optimizer.state.values()))
        return [one for one in state if one.dim() > 0]

    def forward_backward(self) -> None:
        """One micro batch; in inference the forward pass alone, without gradients."""
        if self.mode is TraceMode.INFERENCE:
            with torch.no_grad(), self._autocast():
                self.built.module(self.built.batch)
            return
        with self._autocast():
            loss = self.built.module(self.built.batch)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise TrialsError("the step does not return a scalar loss")
        loss.backward()

    def update(self) -> None:
        """Clip and step the optimizer; gradients stay, which only a new backward pass would bring back."""
        if self.mode is not TraceMode.TRAINING or self.built.optimizer is None:
            return
        parameters = [one for one in self.built.module.parameters() if one.grad is not None]
        if PRECISIONS[self.precision].is_loss_scaled:
            _unscale(parameters)
        if self.built.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self.built.clip_norm, foreach=self.is_cuda or None)
        self.built.optimizer.step()

    def _autocast(self) -> AbstractContextManager[Any]:
        return PRECISIONS[self.precision].autocast(torch.device("cpu"))


def _unscale(parameters: list[torch.nn.Parameter]) -> None:
    """What torch.amp.GradScaler does to gradients; the scaler itself looks at values."""
    gradients = [one.grad for one in parameters if one.grad is not None]
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, torch.zeros(1), torch.ones(1))
