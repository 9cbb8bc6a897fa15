"""What a parallelism is to the planner: who may use it, what it divides, and what it sends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from catalogs.gpus import Gpu
from planner.modes.precision import Precision
from planner.modes.terms import Group, RankBytes, StateBytes, Traffic, WorkerStep
from trials.api import WorkloadProfile

UNKNOWN_BYTES = 25.0 * 1024**2
"""One bucket of DDP stands for gradients of unknown size; what they really are is for measurement to say."""
NO_BLOCKS = "no repeated blocks were found in this model to wrap"


class Parallelism(ABC):
    """One way to share a model among workers; a subclass states what differs from a copy on each.

    A layout with several dimensions (tensor by data) declares one instance for each shape of its mesh.
    """

    name: ClassVar[str]
    label: ClassVar[str]  # in reports; "" where there is nothing to say
    plainness: ClassVar[int]
    is_sharded: ClassVar[bool] = False  # every worker saves its part of a checkpoint
    keeps_gradients: ClassVar[bool] = False  # gradients lie beside the activations of every micro batch
    overlap: ClassVar[float] = 1.0
    """Exponent by which compute and traffic overlap, see `estimate.overlap`: 1 hides nothing."""
    overlap_factor: ClassVar[float] = 1.0  # within which two thirds of cases lie

    @property
    def order(self) -> tuple[int, ...]:
        """Plainest first."""
        return (self.plainness,)

    def takes(self, group: Group) -> bool:
        """Whether it is a way to use so many workers."""
        return group.rank_count > 1

    def refusal(self, gpu: Gpu, profile: WorkloadProfile) -> str:
        """Why this model, or this device, cannot take it at all; "" where it can."""
        return ""

    def replicas(self, group: Group) -> int:
        """Workers, or groups of them, that each see samples of their own."""
        return group.rank_count

    def shards(self, group: Group) -> int:
        """Among how many workers the optimizer's work is divided."""
        return 1

    def worker_step(self, work: WorkerStep, group: Group) -> WorkerStep:
        """What one worker does of a step, given what it would do with the whole model."""
        return work

    def activation_fraction(self, group: Group) -> float:
        """Of one worker's activations, what a rank keeps."""
        return 1.0

    def rank_bytes(
        self, state: StateBytes, group: Group, block_count: int, precision: Precision
    ) -> RankBytes:
        """What the fullest rank holds of ``state``: all of it, unless said otherwise.

        Args:
            state: of the whole model.
            group: of all workers.
            block_count: of repeated blocks; 0 where none was found.
            precision: of the passes.
        """
        return RankBytes(parameters=state.parameters, gradients=state.gradients, optimizer=state.optimizer)

    @abstractmethod
    def traffic(self, profile: WorkloadProfile | None, group: Group, precision: Precision) -> Traffic:
        """What the workers exchange; of a model of unknown size where ``profile`` is None."""
