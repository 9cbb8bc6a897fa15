"""The flags that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[Path, typer.Argument(help="Your model file.", show_default=False)]
StudyArgument = Annotated[
    str, typer.Argument(help="A study's name or an unambiguous prefix.", show_default=False)
]

Budget = Annotated[
    float | None, typer.Option(help="US dollars for the target run and the sweep.", show_default=False)
]
Deadline = Annotated[
    str | None, typer.Option(help="The run must end within: 36h, 90m, 2d.", show_default=False)
]
HourValue = Annotated[
    float | None,
    typer.Option(
        help="US dollars that an hour of waiting is worth: a faster plan may cost so much more.",
        show_default="only the bill counts",
    ),
]
Samples = Annotated[int | None, typer.Option(help="Length of the run in samples.", show_default=False)]
Epochs = Annotated[float | None, typer.Option(help="Length of the run in epochs.", show_default=False)]
Tokens = Annotated[float | None, typer.Option(help="Length of the run in tokens.", show_default=False)]
GlobalBatchSize = Annotated[
    str | None,
    typer.Option(
        help="Samples per optimizer step, over all GPUs; a range, 256:4096, lets the planner choose.",
        metavar="N|LOW:HIGH",
        show_default=False,
    ),
]
Catalog = Annotated[
    Path | None, typer.Option(help="Your own offers instead of the shipped ones (CSV).", show_default=False)
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price", help="Your price per GPU hour: H100=2.10, or one card in full.", show_default=False
    ),
]
Providers = Annotated[
    list[str] | None, typer.Option("--provider", help="Only this provider.", show_default=False)
]
Regions = Annotated[list[str] | None, typer.Option("--region", help="Only this region.", show_default=False)]
Gpus = Annotated[list[str] | None, typer.Option("--gpu", help="Only this GPU type.", show_default=False)]
Spot = Annotated[
    bool | None,
    typer.Option("--spot/--no-spot", help="Spot offers only, or none of them.", show_default="both"),
]
Reserved = Annotated[
    bool, typer.Option("--reserved", help="Also offers priced as reserved, such as those of your --catalog.")
]
Confidence = Annotated[float, typer.Option(help="Of the intervals; limits are checked at the high end.")]
ProvisioningMinutes = Annotated[float, typer.Option(help="From requesting an instance until its first step.")]
_BILL = "What comes to the rent"
SetupMinutes = Annotated[
    float,
    typer.Option(help="At each start: packages, data, joining the cluster.", rich_help_panel=_BILL),
]
EvaluationMinutes = Annotated[
    float, typer.Option(help="All evaluations of the run together.", rich_help_panel=_BILL)
]
DataGib = Annotated[
    float | None,
    typer.Option(help="Size of the data set.", show_default="not charged", rich_help_panel=_BILL),
]
DataFrom = Annotated[
    str | None,
    typer.Option(
        help="Where it lies: aws, or aws/us-east-1. Fetching it is charged at that provider's egress price.",
        show_default="where fetching is free",
        rich_help_panel=_BILL,
    ),
]
EgressPrice = Annotated[
    float | None,
    typer.Option(
        help="US dollars per GiB, for each time that the data set is fetched.",
        show_default="that of --data-from",
        rich_help_panel=_BILL,
    ),
]
StoragePrice = Annotated[
    float | None,
    typer.Option(
        help="US dollars per GiB and month, for data and checkpoints.",
        show_default="0.023",
        rich_help_panel=_BILL,
    ),
]
CheckpointGibPerS = Annotated[
    float | None,
    typer.Option(
        help="Speed at which checkpoints are saved.",
        show_default="as measured, else 0.5",
        rich_help_panel=_BILL,
    ),
]
CheckpointMinutes = Annotated[
    float,
    typer.Option(
        help="Between two checkpoints on demand; on spot the interval follows from the interruptions.",
        rich_help_panel=_BILL,
    ),
]
SpotWaitMinutes = Annotated[
    float,
    typer.Option(help="Until spot capacity is found again, on average.", rich_help_panel=_BILL),
]
InterruptionsPerHour = Annotated[
    float | None,
    typer.Option(
        help="Of one spot instance, where the catalog does not know.",
        show_default="unknown",
        rich_help_panel=_BILL,
    ),
]
GridGPerKwh = Annotated[
    float | None,
    typer.Option(help="Grams of CO2 per kWh there.", show_default="no CO2", rich_help_panel=_BILL),
]
Storage = Annotated[
    str | None,
    typer.Option(
        help="Optuna URL of the studies: sqlite:///study.db, postgresql://...",
        show_default="your data directory",
    ),
]
Out = Annotated[Path, typer.Option(help="Where the report is written.")]
Json = Annotated[bool, typer.Option("--json", help="The recommendation as JSON on stdout, text on stderr.")]

Address = Annotated[
    str | None,
    typer.Option(
        help="A running Ray cluster: host:port or auto. Without it an embedded one starts.",
        envvar="RAY_ADDRESS",
        show_default=False,
    ),
]
Wait = Annotated[str, typer.Option(help="How long to wait for busy GPUs before giving up: 10m, 0s.")]
MaxTrials = Annotated[int, typer.Option(min=1, help="Trials in this sweep at most.")]
MaxMinutes = Annotated[float, typer.Option(help="Minutes of this sweep at most.")]
SweepBudget = Annotated[
    float | None, typer.Option(help="US dollars that the trials may cost.", show_default="5% of the budget")
]
Compile = Annotated[
    bool | None,
    typer.Option("--compile/--no-compile", help="May torch.compile be tried?", show_default="on GPUs only"),
]
CheckpointDirectory = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-dir",
        help="Where the run will save: saving and loading are timed there, on the nodes.",
        show_default="each node's disk",
    ),
]
FromCheckpoint = Annotated[
    Path | None,
    typer.Option(
        "--from-checkpoint",
        help="Weights at which the gradient noise scale is measured, for a range of --global-batch-size.",
        show_default="as the trial leaves them",
    ),
]
StudyOption = Annotated[
    str | None, typer.Option("--study", help="Name of the study.", show_default="file name and hash")
]
Submit = Annotated[bool, typer.Option("--submit", help="Run the sweep as a Ray job on the cluster.")]
JobId = Annotated[str, typer.Argument(help="As `planner sweep --submit` named it.", show_default=False)]
History = Annotated[
    str | None,
    typer.Option(
        "--history",
        help="Earlier prices of a GPU or its family (H100), as `planner catalog refresh` recorded them.",
        metavar="GPU",
        show_default=False,
    ),
]
GpusOnly = Annotated[bool, typer.Option("--gpus", help="The GPUs and their figures.")]
StudyOrModel = Annotated[
    str,
    typer.Argument(help="A study's name, or a model file (.py).", metavar="STUDY|MODEL", show_default=False),
]
OneGpu = Annotated[
    str, typer.Option(help="GPU type, as `planner catalog --gpus` names it.", show_default=False)
]
GpuName = Annotated[
    str, typer.Argument(help="GPU type, as `planner catalog --gpus` names it.", show_default=False)
]
GpuCount = Annotated[int, typer.Option(min=1, help="Number of GPUs in all.")]
PlanRank = Annotated[
    int | None,
    typer.Option("--plan", min=1, help="The plan's rank in the report.", show_default="the recommended one"),
]
LaunchDirectory = Annotated[Path, typer.Option(help="Folder of the launch files.")]
RunLog = Annotated[
    Path | None, typer.Option(help="Log of the run.", show_default="output/log.jsonl in the folder")
]
Measure = Annotated[
    bool,
    typer.Option("--measure", help="Measure the plan's configuration again on the cluster, without a log."),
]
