"""A plan as the run carries it: what is to be run, what was stated of it, and at which price."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from catalogs.offers import Offer
from planner.codec import from_json, to_json
from planner.cost.defaults import ON_DEMAND_SAVE_INTERVAL_S
from planner.cost.hours import SECONDS_PER_HOUR, billed_s, hourly_usd
from planner.errors import PlannerError
from planner.estimate.values import Estimate
from planner.plans.plan import Plan
from planner.target import Target
from trials.api import Environment, TrialConfig, Workload

SCHEMA_VERSION = 1
PLAN_FILE = "plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One plan of a study, complete: the run needs nothing else of us but the installed package.

    ``total_usd`` covers the run and what was spent on the sweep; the part of it that neither step time nor
    price per hour changes is ``fixed_usd``.
    """

    schema_version: int
    study: str
    rank: int
    model_file: str  # name; the file lies beside this one
    sha256: str  # of the model file and its local imports
    config: TrialConfig
    is_cpu: bool
    target: Target
    confidence: float  # of the intervals
    step_time_s: Estimate
    duration_s: Estimate  # from the request of the instances to the last step
    total_usd: Estimate
    fixed_usd: float
    offer: Offer
    instance_count: int
    provisioning_s: float
    torch_version: str | None  # of the measurement; None where there is none
    ray_version: str | None
    python_version: str | None
    planner_version: str
    written_at: datetime
    checkpoint_interval_s: float = ON_DEMAND_SAVE_INTERVAL_S
    is_saved_in_background: bool = False

    @property
    def step_count(self) -> int:
        """Optimizer steps of the whole run."""
        return self.target.step_count

    @property
    def workers_per_node(self) -> int:
        """Processes on each instance."""
        return self.config.gpu_count // self.config.node_count

    @property
    def price_usd_per_hour(self) -> float:
        """For all instances, as planned."""
        return hourly_usd(self.offer, self.instance_count)

    def bill_usd(self, held_s: float, price_usd_per_hour: float) -> float:
        """What the run costs in all when the instances are held for ``held_s`` at this price for all."""
        return self.fixed_usd + billed_s(self.offer, held_s) / SECONDS_PER_HOUR * price_usd_per_hour


def run_plan_of(
    plan: Plan,
    *,
    study: str,
    workload: Workload,
    is_cpu: bool,
    target: Target,
    confidence: float,
    provisioning_s: float,
    environment: Environment | None,
    planner_version: str,
    written_at: datetime,
    checkpoint_interval_s: float,
) -> RunPlan:
    """The plan with what it rests on. ``environment`` is that of the measurement nearest to it."""
    price = hourly_usd(plan.offer, plan.instance_count)
    held_usd = billed_s(plan.offer, plan.held_s.expected) / SECONDS_PER_HOUR * price
    return RunPlan(
        schema_version=SCHEMA_VERSION,
        study=study,
        rank=plan.rank,
        model_file=Path(workload.path).name,
        sha256=workload.sha256,
        config=plan.config,
        is_cpu=is_cpu,
        target=target,
        confidence=confidence,
        step_time_s=plan.step_time_s,
        duration_s=plan.duration_s,
        total_usd=plan.total_usd,
        fixed_usd=plan.total_usd.expected - held_usd,
        offer=plan.offer,
        instance_count=plan.instance_count,
        provisioning_s=provisioning_s,
        torch_version=environment.torch.partition("+")[0] if environment else None,
        ray_version=environment.ray if environment else None,
        python_version=environment.python if environment else None,
        planner_version=planner_version,
        written_at=written_at,
        checkpoint_interval_s=round(checkpoint_interval_s, 1),
        is_saved_in_background=plan.saving.stall_s < plan.saving.durable_s,
    )


def dump_run_plan(run: RunPlan) -> str:
    """The text of plan.json."""
    return to_json(run) + "\n"


def load_run_plan(path: Path) -> RunPlan:
    """The plan in ``path``. Raises PlannerError when it is missing or not one that this version reads."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlannerError(
            f"{path}: cannot be read ({error.strerror}); `planner launch-files STUDY` writes it"
        ) from error
    run = from_json(text, RunPlan, where=str(path))
    if run.schema_version != SCHEMA_VERSION:
        raise PlannerError(
            f"{path} has schema version {run.schema_version}, this planner reads {SCHEMA_VERSION}; "
            "write it again with `planner launch-files STUDY`"
        )
    return run
