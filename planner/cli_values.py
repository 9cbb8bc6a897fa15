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
    """Flags of a command that takes a model file and nothing else."""

    model: Path = argument("model", FILE, "Your model file.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFlags:
    """Which study of the storage a command reads, by name or prefix."""

    study: str = argument("study", TEXT, "The study's name, or a beginning that no other has.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """Where trials run, and how long busy devices are waited for."""

    address: str | None = flag(
        "--address",
        TEXT,
        "A running Ray cluster: auto or host:port; for Ray Jobs http://HEAD:8265. Without one a sweep starts "
        "its own Ray.",
        envvar="RAY_ADDRESS",
    )
    wait_s: float = flag(
        "--wait", WAIT, "How long to wait for busy GPUs before giving up: 10m, 0s.", default=600.0
    )
    start_limit_s: float = flag(
        "--start-limit",
        LIMIT,
        "Time for workers to start once GPUs are free, a quarter of it until Ray has placed them: 10m.",
        default=START_LIMIT_S,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags(ClusterFlags):
    """Flags of `planner sweep`: its limits, what it may try, and where it runs."""

    model: Path = argument("model", FILE, "Your model file.")
    gpu_count: int | None = flag(
        "--gpu-count",
        COUNT,
        "Most GPUs that this sweep may hold at a time, over all nodes and types.",
        shown="all that are there",
    )
    max_trials: int = flag("--max-trials", COUNT, "Most trials that this sweep may run.", default=40)
    max_s: float = flag(
        "--max-minutes", SOME_MINUTES, "Most minutes that this sweep may take.", default=3600.0
    )
    sweep_budget_usd: float | None = flag(
        "--sweep-budget", USD, "Most US dollars that the trials may cost.", shown="5% of the budget"
    )
    is_compile_allowed: bool | None = flag(
        "--compile/--no-compile", SWITCH, "Whether torch.compile may be tried.", shown="on GPUs only"
    )
    checkpoint_directory: str | None = flag(  # on the nodes
        "--checkpoint-dir",
        TEXT,
        "Folder on the nodes where the run will save checkpoints; saving and loading are timed there.",
        shown="each node's disk",
        metavar="PATH",
    )
    from_checkpoint: Path | None = flag(
        "--from-checkpoint",
        FILE,
        "A state_dict at which the gradient noise scale is measured; needs a range of --global-batch-size.",
        shown="the trial's own weights",
    )
    study: str | None = flag("--study", TEXT, "Name of the study.", shown="file name and hash")
    is_submitted: bool = flag(
        "--submit", SWITCH, "Run the sweep on the cluster, as a Ray job.", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferFlags:
    """What may be rented, and at which prices."""

    catalog: Path | None = flag("--catalog", FILE, "CSV of your own offers, instead of the shipped ones.")
    prices: tuple[str, ...] = flag(
        "--price",
        TEXTS,
        "Your price per GPU hour, of a family or one card: H100=2.10, H100-SXM5-80GB=2.10; repeatable.",
        default=(),
        metavar="GPU=USD",
    )
    providers: tuple[str, ...] = flag("--provider", TEXTS, "Only this provider; repeatable.", default=())
    regions: tuple[str, ...] = flag("--region", TEXTS, "Only this region; repeatable.", default=())
    gpus: tuple[str, ...] = flag("--gpu", TEXTS, "Only this GPU type; repeatable.", default=())
    is_spot: bool | None = flag(
        "--spot/--no-spot", SWITCH, "Only spot offers, or no spot offers.", shown="both"
    )
    is_reserved: bool = flag(
        "--reserved",
        SWITCH,
        "Include reserved prices, such as those of your --catalog.",
        default=False,
    )
    confidence: float = flag(
        "--confidence",
        FRACTION,
        "Confidence of the intervals; budget and deadline are checked at their high end.",
        default=0.9,
    )
    assumptions: CostAssumptions = field(default_factory=CostAssumptions)  # a group of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """Where the study lies and where the report goes."""

    storage: str | None = flag(
        "--storage",
        TEXT,
        "Optuna URL where studies are kept: sqlite:///study.db, postgresql://...",
        shown="your data directory",
        metavar="URL",
    )
    out: Path = flag("--out", FILE, "Folder of the report.", default=Path("planner-report"))
    is_json: bool = flag(
        "--json", SWITCH, "Print the result as JSON on stdout, and text on stderr.", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFlags:
    """Which submitted sweep `planner job` comes back to."""

    job_id: str = argument("job_id", TEXT, "The id that `planner sweep --submit` printed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyFlags:
    """Which GPU type `planner why` explains."""

    gpu: str = argument("gpu", TEXT, "GPU type, as `planner catalog --gpus` names it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateFlags:
    """Of which study or model file `planner estimate` speaks, and of which GPUs."""

    study_or_model: str = argument(
        "study_or_model", TEXT, "A study's name, or a model file (.py).", metavar="STUDY|MODEL"
    )
    gpu: str | None = flag("--gpu", TEXT, "Detail this GPU type instead of ranking all.")
    gpu_count: int | None = flag("--gpus", COUNT, "Number of GPUs in all, with --gpu.", shown="1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFlags:
    """Which plan `planner launch-files` writes out, and into which folder."""

    rank: int | None = flag("--plan", COUNT, "The plan's rank in the report.", shown="the recommended one")
    directory: Path = flag("--directory", FILE, "Folder of the launch files.", default=Path("planner-launch"))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFlags(ClusterFlags):
    """Which launched run `planner verify` holds against its plan, and how."""

    directory: Path = flag("--directory", FILE, "Folder of the launch files.", default=Path("planner-launch"))
    log: Path | None = flag("--log", FILE, "Log of the run.", shown="output/log.jsonl in --directory")
    is_measured: bool = flag(
        "--measure",
        SWITCH,
        "Time the plan's configuration again on the cluster, instead of reading a log.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFlags:
    """Whether `planner catalog` lists offers, chips or the history of prices."""

    is_gpus: bool = flag("--gpus", SWITCH, "List the GPUs and their figures, not the offers.", default=False)
    history: str | None = flag(
        "--history",
        TEXT,
        "Earlier prices of a GPU or its family (H100), as `planner catalog refresh` recorded them.",
        metavar="GPU",
    )
