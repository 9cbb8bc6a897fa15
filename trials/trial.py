"""One short benchmark: what is tried, and how it can fail. Imports no torch.

A step, everywhere in this project, is one *optimizer step* of the real run: fetch ``accumulation`` micro
batches, forward and backward for each, gradient synchronisation, clipping if set, optimizer, zero_grad.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Precision(StrEnum):
    """Arithmetic of the forward and backward pass; the optimizer always holds fp32 parameters."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


class Parallelism(StrEnum):
    """How the workers of a trial share the model."""

    SINGLE = "single"
    DDP = "ddp"
    FSDP2 = "fsdp2"


class FailureKind(StrEnum):
    """Why a trial has no measurement; the value is the wording of reports."""

    OUT_OF_MEMORY = "out of memory"
    UNSUPPORTED = "unsupported"
    DIVERGED = "diverged"
    TIMED_OUT = "timed out"
    WORKER_LOST = "worker lost"
    COMMUNICATION_FAILED = (
        "communication failed"  # between the workers: the cluster's, not the configuration's
    )
    WRONG_DEVICE = "wrong device"
    USER_CODE = "error in the model file"
    BUSY = "devices in use"  # by others, for longer than one was willing to wait: nothing was tried

    @property
    def is_symptom(self) -> bool:
        """Whether it may be what one worker sees of another's failure."""
        return self in {FailureKind.WORKER_LOST, FailureKind.COMMUNICATION_FAILED}


class Purpose(StrEnum):
    """What a trial is for: how long it runs and on which data, not what it runs."""

    SEARCH = "search"
    PROBE = "memory probe"  # a few steps; its micro batch need not divide the global batch size
    GUARD = "numeric guard"  # as many steps whatever their times, so that two trials' losses can be compared
    CONFIRM = "confirmation"  # whole steps at the full accumulation, then many on the longest batch

    @property
    def is_last(self) -> bool:
        """Whether it is of the winner: many steps, after all others and with nothing beside it."""
        return self in (Purpose.GUARD, Purpose.CONFIRM)

    @property
    def expected_step_count(self) -> int:
        """Whole steps, for what a trial will cost; a confirmation's longest batches not counted."""
        return {Purpose.SEARCH: 20, Purpose.PROBE: 6, Purpose.GUARD: 42, Purpose.CONFIRM: 14}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The user's model file as data; its functions never cross a process boundary."""

    path: str  # absolute
    sha256: str  # of the file and of its local imports


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How a worker's batches are loaded from ``dataset()``."""

    worker_count: int | None = None  # processes that load; None as the file has it
    prefetch_count: int | None = None  # batches that each process holds ready; None: torch's two
    is_pinned: bool | None = None  # through page-locked memory; None: for CUDA


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialConfig:
    """Every knob of a trial, and of a planned run.

    ``gpu`` is a catalog name. ``gpu_count`` is the number of workers in all, on ``node_count`` nodes; on
    CPU it is the number of worker processes that share the machine's cores.
    """

    gpu: str
    gpu_count: int
    node_count: int = 1
    micro_batch_size: int  # samples per worker per forward pass
    accumulation: int
    precision: str  # this and the next: names, see `trials.modes`
    parallelism: str
    techniques: tuple[str, ...] = ()  # that are on, sorted: names, too
    workers_per_replica: int = 1  # that share each sample, as tensor- and pipeline-parallel ones do
    loader_worker_count: int | None = None  # these three: see `Loading`
    loader_prefetch_count: int | None = None
    is_pinned: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "techniques", tuple(sorted(self.techniques)))

    @property
    def loading(self) -> Loading:
        """The three loading knobs as one value."""
        return Loading(
            worker_count=self.loader_worker_count,
            prefetch_count=self.loader_prefetch_count,
            is_pinned=self.is_pinned,
        )

    def loaded(self, loading: Loading) -> TrialConfig:
        """The same, its batches loaded by ``loading``."""
        return replace(
            self,
            loader_worker_count=loading.worker_count,
            loader_prefetch_count=loading.prefetch_count,
            is_pinned=loading.is_pinned,
        )

    @property
    def global_batch_size(self) -> int:
        """Samples per optimizer step over all workers."""
        return self.micro_batch_size * self.accumulation * self.gpu_count // self.workers_per_replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A trial without a measurement, as a value."""

    config: TrialConfig
    kind: FailureKind
    reason: str  # what happened, in words for the report
    trial_s: float  # wall time that the devices were held
    detail: str = ""  # traceback or stacks, for --verbose
    purpose: Purpose = Purpose.SEARCH

    @property
    def is_device_lost(self) -> bool:
        """Whether CUDA refuses every later call of the process: after an illegal access, a failed assertion.

        Running out of memory is no such error, whichever call says it.
        """
        return self.kind is not FailureKind.OUT_OF_MEMORY and "CUDA error" in self.reason
