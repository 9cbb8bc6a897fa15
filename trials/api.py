"""The face of `trials`: all that `planner` may import of it.

Plain values are imported at once. What needs Ray or torch is imported when it is first asked for, so that a
module which only thinks, and `planner --help`, load neither.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trials.check import Checking, RealStep, check, checking
from trials.devices import DeviceGroup, Node, version_problems
from trials.errors import TrialsError
from trials.extras import CheckpointCost, Extras, GradientNoise, LinkProbe
from trials.measurement import Environment, Measurement, Outcome, PeakParts, Phases, Series, Telemetry
from trials.measuring.settings import MeasureSettings
from trials.model_file.source import hash_workload, local_files
from trials.older import RENAMED, updated
from trials.profile import Operation, OperationClass, TargetHint, Trace, TraceMode, WorkloadProfile
from trials.registry import Registry
from trials.step_times import half_width
from trials.trial import Failure, FailureKind, Loading, Purpose, TrialConfig, Workload
from trials.whole_file import TEMPORARY_SUFFIX, sync_folder, write_whole
from trials.workers.limits import SCHEDULE_FRACTION, START_LIMIT_S

if TYPE_CHECKING:
    from trials.cluster.attach import Cluster, attach
    from trials.cluster.discovery import alive_nodes, discover, free_counts
    from trials.cluster.submit import Job, follow, job_of, submit
    from trials.measuring.state_file import (
        copied,
        random_state,
        read_state,
        restore_random_state,
        write_state,
    )
    from trials.runner import Runner, RunnerSettings, open_runner

LAZY = {
    "trials.cluster.attach": ("Cluster", "attach"),
    "trials.cluster.discovery": ("alive_nodes", "discover", "free_counts"),
    "trials.cluster.submit": ("Job", "follow", "job_of", "submit"),
    "trials.measuring.state_file": (
        "copied",
        "random_state",
        "read_state",
        "restore_random_state",
        "write_state",
    ),
    "trials.runner": ("Runner", "RunnerSettings", "open_runner"),
}
"""Names that are imported when they are first asked for, by the module that has them."""

__all__ = [
    "RENAMED",
    "SCHEDULE_FRACTION",
    "START_LIMIT_S",
    "TEMPORARY_SUFFIX",
    "Checking",
    "CheckpointCost",
    "Cluster",
    "DeviceGroup",
    "Environment",
    "Extras",
    "Failure",
    "FailureKind",
    "GradientNoise",
    "Job",
    "LinkProbe",
    "Loading",
    "MeasureSettings",
    "Measurement",
    "Node",
    "Operation",
    "OperationClass",
    "Outcome",
    "PeakParts",
    "Phases",
    "Purpose",
    "RealStep",
    "Registry",
    "Runner",
    "RunnerSettings",
    "Series",
    "TargetHint",
    "Telemetry",
    "Trace",
    "TraceMode",
    "TrialConfig",
    "TrialsError",
    "Workload",
    "WorkloadProfile",
    "alive_nodes",
    "attach",
    "check",
    "checking",
    "copied",
    "discover",
    "follow",
    "free_counts",
    "half_width",
    "hash_workload",
    "job_of",
    "local_files",
    "open_runner",
    "random_state",
    "read_state",
    "restore_random_state",
    "submit",
    "sync_folder",
    "updated",
    "version_problems",
    "write_state",
    "write_whole",
]


def __getattr__(name: str) -> Any:
    """The lazy ones of the names above."""
    for module, names in LAZY.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
