"""Records the kernels of everything that runs, equal ones together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import TorchDispatchMode

from trials.profile import Operation, OperationClass
from trials.trace.operations import Kernel, kernels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Recorder(TorchDispatchMode):
    """Counts kernels while the mode is on; all of class ``kind`` where that is set."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kind: OperationClass | None = None
        self._counts: Counter[Kernel] = Counter()

    def operations(self) -> tuple[Operation, ...]:
        """What was recorded, in order of the first call."""
        return tuple(
            Operation(
                name=kernel.name,
                kind=kernel.kind,
                dtype=kernel.dtype,
                shape=kernel.shape,
                count=count * kernel.count,
                flops=kernel.flops,
                bytes=kernel.bytes,
            )
            for kernel, count in self._counts.items()
        )

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        result = func(*args, **given)
        for kernel in kernels_of(func, args, given, result):
            self._counts[kernel if self.kind is None else replace(kernel, kind=self.kind)] += 1
        return result
