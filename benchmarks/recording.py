"""A recorded grid as one JSON file, written and read with the standard library alone.

A rented machine with a GPU often has torch and little else, so nothing here needs pydantic, Ray or Optuna.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from planner.estimate.setting import technique_of
from planner.plans.rule_out import rule_out
from planner.target import Target
from trials.measurement import Measurement, Outcome
from trials.older import updated
from trials.profile import WorkloadProfile
from trials.trial import Failure, FailureKind, Purpose, TrialConfig
from trials.whole_file import write_whole

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one workload did on one device, through the same code as a sweep's trials."""

    schema_version: int
    workload: str  # a file of benchmarks/workloads
    size: str  # WORKLOAD_SIZE
    sha256: str  # of the file and what it imports from beside it
    gpu: str  # catalog name, or the driver's where the catalog has none
    recorded_on: str  # ISO date
    target: Target
    profile: WorkloadProfile
    in_flight: TrialConfig | None = None  # begun and not ended: the process died, or its time was up
    outcomes: tuple[Outcome, ...] = ()

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"{self.gpu}--{self.workload}-{self.size}".replace(" ", "-")

    def plus(self, outcome: Outcome) -> Recording:
        """With one more outcome; tracebacks and the paths of this machine stay out."""
        if isinstance(outcome, Failure):
            reason = outcome.reason.replace(str(Path(__file__).parent.parent), "")
            outcome = replace(outcome, reason=reason, detail="")
        return replace(self, outcomes=(*self.outcomes, outcome), in_flight=None)


def save(recording: Recording, path: Path) -> None:
    """Write the file whole or not at all; a line for each outcome and trace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _lines(dataclasses.asdict(recording)) + "\n")


def load(path: Path) -> Recording:
    """Read the file again. Raises ValueError naming file and field when it does not fit."""
    content = updated(json.loads(path.read_text()))
    if content.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"{path}: schema {content.get('schema_version')}, this reads {SCHEMA_VERSION}")
    recording: Recording = _decode(Recording, content, str(path))
    return recording


def replay(recording: Recording) -> Callable[[TrialConfig, Purpose], Outcome]:
    """The recording at the seam ``run_trial``: answers with what was recorded.

    Micro batches larger than one that ran out of memory were not tried, and run out of memory here too. A
    memory probe lies on the line between its recorded neighbours; a guard's reference that the recording does
    not hold is lost. Any other configuration that is not in the recording is an error of who asks for it.
    """
    known = {one.config: one for one in recording.outcomes}
    overflowing = rule_out(recording.outcomes).overflowing

    def run_trial(config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        if config in known:
            return known[config]
        limit = overflowing.get(technique_of(config))
        if limit is None or config.micro_batch_size < limit:
            probed = _probed(recording, config) if purpose is Purpose.PROBE else None
            if probed is not None:
                return probed
            if purpose is Purpose.GUARD:
                reason = "the recording was cut off before this reference"
                return Failure(config=config, kind=FailureKind.WORKER_LOST, reason=reason, trial_s=1.0)
            raise LookupError(f"{recording.name} has no trial of {config}")
        reason = f"a micro batch of {limit} already ran out of memory when this was recorded"
        return Failure(config=config, kind=FailureKind.OUT_OF_MEMORY, reason=reason, trial_s=1.0)

    return run_trial


def _probed(recording: Recording, config: TrialConfig) -> Measurement | None:
    """A recorded neighbour with the peak memory of the line through the nearest two."""
    alike = sorted(
        (
            one
            for one in recording.outcomes
            if isinstance(one, Measurement) and technique_of(one.config) == technique_of(config)
        ),
        key=lambda one: one.config.micro_batch_size,
    )
    if len(alike) <= 1:
        return None
    size = config.micro_batch_size
    index = sum(one.config.micro_batch_size <= size for one in alike)
    low, high = alike[max(0, min(index, len(alike) - 1) - 1) :][:2]
    share = (size - low.config.micro_batch_size) / (
        high.config.micro_batch_size - low.config.micro_batch_size
    )
    peak = int(low.peak_memory_bytes + share * (high.peak_memory_bytes - low.peak_memory_bytes))
    peaks = (peak,) * config.gpu_count
    return replace(
        low,
        config=config,
        peak_allocated_bytes=peaks,
        peak_reserved_bytes=None if low.peak_reserved_bytes is None else peaks,
        peak_parts=None,
    )


def _lines(content: dict[str, Any], depth: int = 0) -> str:
    """JSON with a line for each key, and for each item of the long lists."""
    parts = []
    for key, value in content.items():
        if key == "profile" and depth == 0:
            text = _lines(value, 1)
        elif key in {"outcomes", "traces"}:
            text = "[\n" + ",\n".join(_compact(one) for one in value) + "\n]"
        else:
            text = _compact(value)
        parts.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _decode(kind: Any, value: Any, where: str) -> Any:
    """``value`` from JSON as the dataclass, enumeration, tuple or plain type that ``kind`` says."""
    origin = typing.get_origin(kind)
    if origin in {typing.Union, types.UnionType}:
        return _decode_union(typing.get_args(kind), value, where)
    if origin is tuple:
        of = typing.get_args(kind)[0]
        return tuple(_decode(of, one, f"{where}[{index}]") for index, one in enumerate(value))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        if not isinstance(value, dict) or not set(value) <= set(hints):
            raise ValueError(f"{where}: this is no {kind.__name__}")
        try:
            return kind(**{key: _decode(hints[key], one, f"{where}.{key}") for key, one in value.items()})
        except TypeError as error:
            raise ValueError(f"{where}: {error}") from error
    if issubclass(kind, StrEnum):
        return kind(value)
    if kind is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind):
        raise ValueError(f"{where}: {value!r} is no {kind.__name__}")
    return value


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    others = [one for one in kinds if one is not types.NoneType]
    if len(others) > 1:  # dataclasses, told apart by their fields
        fields = {one: {field.name for field in dataclasses.fields(one)} for one in others}
        others = [one for one in others if set(value) <= fields[one]]
    if not others:
        raise ValueError(f"{where}: none of {', '.join(one.__name__ for one in kinds)}")
    return _decode(others[0], value, where)
