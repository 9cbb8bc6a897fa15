"""What only the command line has: its flags, each said once with the field that holds its value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.flags import (
    COUNT,
    FILE,
    FRACTION,
    LIMIT,
    SOME_MINUTES,
    SWITCH,
    TEXT,
    TEXTS,
    USD,
    WAIT,
    argument,
    flag,
)
from trials.api import START_LIMIT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFlags:
    """The model file alone."""

    model: Path = argument("model", FILE, "Your model file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFlags:
    """The study that is asked."""

    study: str = argument("study", TEXT, "A study's name or an unambiguous prefix.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """Where trials run, and how long busy devices are waited for."""

    address: str | None = flag(
        "--address",
        TEXT,
        "A running Ray cluster: host:port or auto. Without it an embedded one starts.",
        envvar="RAY_ADDRESS",
    )
    wait_s: float = flag(
        "--wait", WAIT, "How long to wait for busy GPUs before giving up: 10m, 0s.", default=600.0
    )
    start_limit_s: float = flag(
        "--start-limit",
        LIMIT,
        "How long workers may take to start once GPUs are free, the first quarter of it to be placed: 4m.",
        default=START_LIMIT_S,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags(ClusterFlags):
    """What only a sweep takes."""

    model: Path = argument("model", FILE, "Your model file.")
    gpu_count: int | None = flag(
        "--gpu-count",
        COUNT,
        "GPUs that this sweep may hold at a time, over all nodes and types.",
        shown="all of the cluster",
    )
    max_trials: int = flag("--max-trials", COUNT, "Trials in this sweep at most.", default=40)
    max_s: float = flag("--max-minutes", SOME_MINUTES, "Minutes of this sweep at most.", default=3600.0)
    sweep_budget_usd: float | None = flag(
        "--sweep-budget", USD, "US dollars that the trials may cost.", shown="5% of the budget"
    )
    is_compile_allowed: bool | None = flag(
        "--compile/--no-compile", SWITCH, "May torch.compile be tried?", shown="on GPUs only"
    )
    checkpoint_directory: str | None = flag(  # on the nodes
        "--checkpoint-dir",
        TEXT,
        "Where the run will save: saving and loading are timed there, on the nodes.",
        shown="each node's disk",
        metavar="PATH",
    )
    from_checkpoint: Path | None = flag(
        "--from-checkpoint",
        FILE,
        "Weights at which the gradient noise scale is measured, for a range of --global-batch-size.",
        shown="as the trial leaves them",
    )
    study: str | None = flag("--study", TEXT, "Name of the study.", shown="file name and hash")
    is_submitted: bool = flag("--submit", SWITCH, "Run the sweep as a Ray job on the cluster.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferFlags:
    """What may be rented, and at which prices."""

    catalog: Path | None = flag("--catalog", FILE, "Your own offers instead of the shipped ones (CSV).")
    prices: tuple[str, ...] = flag(
        "--price",
        TEXTS,
        "Your price per GPU hour: H100=2.10, or one card in full.",
        default=(),
        metavar="GPU=USD",
    )
    providers: tuple[str, ...] = flag("--provider", TEXTS, "Only this provider.", default=())
    regions: tuple[str, ...] = flag("--region", TEXTS, "Only this region.", default=())
    gpus: tuple[str, ...] = flag("--gpu", TEXTS, "Only this GPU type.", default=())
    is_spot: bool | None = flag(
        "--spot/--no-spot", SWITCH, "Spot offers only, or none of them.", shown="both"
    )
    is_reserved: bool = flag(
        "--reserved",
        SWITCH,
        "Also offers priced as reserved, such as those of your --catalog.",
        default=False,
    )
    confidence: float = flag(
        "--confidence", FRACTION, "Of the intervals; limits are checked at the high end.", default=0.9
    )
    assumptions: CostAssumptions = field(default_factory=CostAssumptions)  # a group of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """Where the study lies and where the report goes."""

    storage: str | None = flag(
        "--storage",
        TEXT,
        "Optuna URL of the studies: sqlite:///study.db, postgresql://...",
        shown="your data directory",
        metavar="URL",
    )
    out: Path = flag("--out", FILE, "Where the report is written.", default=Path("planner-report"))
    is_json: bool = flag(
        "--json", SWITCH, "The recommendation as JSON on stdout, text on stderr.", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlags:
    """A job that was left."""

    job_id: str = argument("job_id", TEXT, "As `planner sweep --submit` named it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyFlags:
    """The GPU type that is asked about."""

    gpu: str = argument("gpu", TEXT, "GPU type, as `planner catalog --gpus` names it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateFlags:
    """Of what, on what."""

    study_or_model: str = argument(
        "study_or_model", TEXT, "A study's name, or a model file (.py).", metavar="STUDY|MODEL"
    )
    gpu: str | None = flag("--gpu", TEXT, "One GPU type in detail; without it all are ranked.")
    gpu_count: int | None = flag("--gpus", COUNT, "Number of GPUs in all, with --gpu.", shown="1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFlags:
    """Which plan, and where its files go."""

    rank: int | None = flag("--plan", COUNT, "The plan's rank in the report.", shown="the recommended one")
    directory: Path = flag("--directory", FILE, "Folder of the launch files.", default=Path("planner-launch"))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFlags(ClusterFlags):
    """The run that is verified."""

    directory: Path = flag("--directory", FILE, "Folder of the launch files.", default=Path("planner-launch"))
    log: Path | None = flag("--log", FILE, "Log of the run.", shown="output/log.jsonl in the folder")
    is_measured: bool = flag(
        "--measure",
        SWITCH,
        "Measure the plan's configuration again on the cluster, without a log.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFlags:
    """What is listed."""

    is_gpus: bool = flag("--gpus", SWITCH, "The GPUs and their figures.", default=False)
    history: str | None = flag(
        "--history",
        TEXT,
        "Earlier prices of a GPU or its family (H100), as `planner catalog refresh` recorded them.",
        metavar="GPU",
    )
