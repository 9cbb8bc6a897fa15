"""The run to be planned: how much is to be trained, in what batches, by when, for how much."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.errors import PlannerError
from planner.flags import COUNT, DURATION, NUMBER, USD, USD_OR_ZERO, Kind, flag
from planner.quantities import NotReadError, read_count
from trials.api import TargetHint, WorkloadProfile

COUNT_MAX = 10**15
GLOBAL_BATCH_SIZE_MAX = 1 << 20
_FACTOR = 2  # between the batch sizes of a range


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """Global batch sizes that the planner may choose from, both ends included."""

    low: int
    high: int

    def sizes(self, reference: int) -> tuple[int, ...]:
        """What is compared, ascending: doublings and halvings of ``reference``, and both ends.

        Halvings stay whole, so that each divides by the numbers of workers that people use.
        """
        sizes = {self.low, self.high, reference}
        size = reference
        while size * _FACTOR <= self.high:
            size *= _FACTOR
            sizes.add(size)
        size = reference
        while size % _FACTOR == 0 and size // _FACTOR >= self.low:
            size //= _FACTOR
            sizes.add(size)
        return tuple(sorted(sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target run. ``samples`` counts with repetition: epochs times the data set's size.

    With a ``batch_range`` the batch size is the reference, of which the user gave the number of samples; at
    another one of the range the run needs other ``samples``, between ``samples_low`` and ``samples_high``.
    """

    samples: int
    global_batch_size: int
    batch_range: BatchRange | None = None  # None: the batch size is the user's and stays
    samples_low: float | None = None  # None: the samples are the user's
    samples_high: float | None = None
    tokens_per_sample: int | None = None
    budget_usd: float | None = None  # for the run and the sweep together
    deadline_s: float | None = None
    hour_value_usd: float | None = None  # what an hour of waiting for the run is worth

    @property
    def step_count(self) -> int:
        """Optimizer steps; the last one may be partial and costs a full one."""
        return math.ceil(self.samples / self.global_batch_size)


def parse_batch_size(text: str) -> int | BatchRange:
    """ "512", "2k", or "256:4096". Raises NotReadError; ends that are equal are one size."""
    sizes = [read_count(part) for part in text.split(":")]
    if not 1 <= len(sizes) <= 2:  # noqa: PLR2004
        raise NotReadError("write one size, 512, or a range to choose from, 256:4096")
    low, high = sizes[0], sizes[-1]
    if low == high:
        return low
    if low > high:
        raise NotReadError(f"the smaller end comes first, {high}:{low}")
    if low < 1 or high > GLOBAL_BATCH_SIZE_MAX:
        raise NotReadError(f"both ends must lie between 1 and {GLOBAL_BATCH_SIZE_MAX}")
    return BatchRange(low=low, high=high)


BATCH_SIZE = Kind(metavar="N|LOW:HIGH", read=parse_batch_size, show=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFlags:
    """What the command line says of the target; None where it is silent and the model file decides."""

    budget_usd: float | None = flag(
        "--budget", USD, "US dollars for the run and the sweep together: 500, 2k."
    )
    deadline_s: float | None = flag(
        "--deadline", DURATION, "Time within which the run must end: 36h, 90m, 2d."
    )
    hour_value_usd: float | None = flag(
        "--hour-value",
        USD_OR_ZERO,
        "US dollars that an hour of waiting costs you: what a faster plan may cost more per hour saved.",
        shown="only the bill counts",
    )
    samples: int | None = flag("--samples", COUNT, "Length of the run in samples: 500k, 1.5M.")
    epochs: float | None = flag("--epochs", NUMBER, "Length of the run in epochs: 3, 0.5.")
    tokens: float | None = flag("--tokens", NUMBER, "Length of the run in tokens: 300B.")
    global_batch_size: int | BatchRange | None = flag(
        "--global-batch-size",
        BATCH_SIZE,
        "Samples per optimizer step, over all GPUs; a range, 256:4096, lets the planner choose.",
    )

    @property
    def batch_range(self) -> BatchRange | None:
        """The range that was given instead of one size."""
        return self.global_batch_size if isinstance(self.global_batch_size, BatchRange) else None


def resolve_target(flags: TargetFlags, profile: WorkloadProfile, model_file: str) -> Target:
    """The target from the flags, and from the model file where they are silent.

    Of a range of batch sizes the reference is the file's own where it lies in the range, else the low end.
    Raises PlannerError when the length of the run or the global batch size is known from neither: they are
    the user's to decide and are never guessed.
    """
    hint = profile.hint
    size = hint.global_batch_size if flags.global_batch_size is None else flags.global_batch_size
    global_batch_size = _reference(size, hint.global_batch_size) if isinstance(size, BatchRange) else size
    if global_batch_size is None:
        raise PlannerError(
            f"{model_file}: the global batch size is not known; give --global-batch-size N, or set "
            'target = {"global_batch_size": N, ...} in the file'
        )
    samples = _samples(flags, hint, profile, model_file)
    for name, count in (("global batch size", global_batch_size), ("number of samples", samples)):
        if count < 1:
            raise PlannerError(f"{model_file}: the {name} is {count:g}; it must be at least 1")
        if count > COUNT_MAX:
            raise PlannerError(
                f"{model_file}: the {name} is over {COUNT_MAX:.0e}; check its digits and its unit"
            )
    if global_batch_size > GLOBAL_BATCH_SIZE_MAX:
        raise PlannerError(
            f"{model_file}: the global batch size {global_batch_size} is over {GLOBAL_BATCH_SIZE_MAX}; check "
            "--global-batch-size, or target in the file"
        )
    return Target(
        samples=samples,
        global_batch_size=global_batch_size,
        batch_range=flags.batch_range,
        tokens_per_sample=profile.tokens_per_sample,
        budget_usd=flags.budget_usd,
        deadline_s=flags.deadline_s,
        hour_value_usd=flags.hour_value_usd,
    )


def _reference(sizes: BatchRange, own: int | None) -> int:
    return own if own is not None and sizes.low <= own <= sizes.high else sizes.low


def _samples(flags: TargetFlags, hint: TargetHint, profile: WorkloadProfile, model_file: str) -> int:
    given = [name for name in ("samples", "epochs", "tokens") if getattr(flags, name) is not None]
    if len(given) > 1:
        raise PlannerError(f"--{given[0]} and --{given[1]} both say how long the run is; give one of them")
    source: TargetFlags | TargetHint = flags if given else hint
    if source.samples is not None:
        return source.samples
    if source.epochs is not None:
        if profile.dataset_size is None:
            raise PlannerError(
                f"{model_file}: epochs need a data set of known size, which batch() or an iterable lacks; "
                "give --samples N, or define dataset() with a length"
            )
        return math.ceil(source.epochs * profile.dataset_size)
    if source.tokens is not None:
        if profile.tokens_per_sample is None:
            raise PlannerError(
                f"{model_file}: tokens need tokens_per_sample = N in the file, or give --samples N"
            )
        return math.ceil(source.tokens / profile.tokens_per_sample)
    raise PlannerError(
        f"{model_file}: the length of the run is not known; give --samples, --epochs or --tokens, or set "
        'target = {"samples": N, ...} in the file'
    )
