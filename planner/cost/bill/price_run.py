"""A run on an offer, priced: the one way from a step time to hours and dollars, for search and report alike.

On demand the bill is that of the undisturbed run. On spot it is what the run is expected to cost with its
interruptions, restarts and checkpoints (planner.cost.spot). How often an instance of unknown rate is
interrupted is not guessed: its bill is that of the undisturbed run, and `SpotRun.is_rate_known` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from catalogs.egress import EgressPrice
from catalogs.offers import Offer, Pricing
from catalogs.providers import load_egress
from planner.cost.bill.allin import all_in_bill, bill_of, interrupted_terms
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.cost.bill.energy import Energy, run_energy
from planner.cost.bill.overheads import CheckpointTimes, checkpoint_times, power_w, start_of
from planner.cost.bill.priced import PricedRun, SpotRun
from planner.cost.hours import training_s
from planner.cost.spot.job import Restart, SaveCost, SpotJob, gang_rate_per_s
from planner.cost.spot.outcome import SpotTimes, best_saving, mean_times, spot_outcome, spot_times
from planner.estimate.values import Estimate
from planner.target import Target
from trials.api import Measurement, TrialConfig, WorkloadProfile

BIN_COUNT = 1024
"""Of the distributions of spot runs: a thousandth of their reach is fine enough to price by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What prices every plan alike: the run, what is assumed of its costs, and what trials measured."""

    target: Target
    profile: WorkloadProfile
    assumptions: CostAssumptions
    sweep_usd: float | None  # spent on trials; None where their devices have no price
    measurements: tuple[Measurement, ...] = ()
    confidence: float = 0.9
    egress: tuple[EgressPrice, ...] = field(default_factory=load_egress)

    @property
    def provisioning_s(self) -> float:
        """From the request of an instance until it is there."""
        return self.assumptions.provisioning_s

    @property
    def tail_fraction(self) -> float:
        """Of the outcomes that lie beyond each end of an interval."""
        return (1 - self.confidence) / 2


class Pricer:
    """Prices runs under the same terms; remembers what runs have in common.

    Args:
        terms: of every run.
        has_luck: whether intervals hold the luck of interruptions, which a search has no need of.
    """

    def __init__(self, terms: Terms, *, has_luck: bool = True) -> None:
        self.terms = terms
        self._has_luck = has_luck
        self._checkpoints: dict[TrialConfig, CheckpointTimes] = {}
        self._parameters: dict[TrialConfig, CostAssumptions] = {}
        self._powers_w: dict[TrialConfig, float | None] = {}
        self._savings: dict[SpotJob, SaveCost] = {}
        self._times: dict[tuple[SpotJob, Estimate], SpotTimes | None] = {}

    def price(
        self, offer: Offer, instance_count: int, config: TrialConfig, step_time_s: Estimate
    ) -> PricedRun | None:
        """The run with ``config`` on so many instances; None where interruptions let it make no headway."""
        steps_s = training_s(self.terms.target, step_time_s)
        is_spot = offer.pricing is Pricing.SPOT
        rate = self._interruptions_per_hour(offer) if is_spot else None
        if rate is not None:
            return self._on_spot(offer, instance_count, config, steps_s, rate)
        return self._undisturbed(offer, instance_count, config, steps_s, is_spot=is_spot)

    def held_s(self, config: TrialConfig, step_time_s: Estimate) -> Estimate:
        """How long devices without a price are held for an undisturbed run."""
        parameters = self._parameters_of(config)
        return _plus(training_s(self.terms.target, step_time_s), parameters.start_s + parameters.evaluation_s)

    def _undisturbed(
        self, offer: Offer, instance_count: int, config: TrialConfig, steps_s: Estimate, *, is_spot: bool
    ) -> PricedRun:
        checkpoint = self._checkpoint_of(config)
        saving = min(checkpoint.savings, key=lambda saving: saving.stall_s)
        parameters = replace(
            self._parameters_of(config),
            checkpoint_stall_s=saving.stall_s,
            checkpoint_interval_s=self.terms.assumptions.save_interval_s,
        )
        bill = all_in_bill(offer, instance_count, steps_s, parameters, self.terms.egress)
        spot = None
        if is_spot:
            work_s = _plus(steps_s, parameters.evaluation_s)
            spot = SpotRun(job=self._job(work_s, parameters, checkpoint, 0.0), work_s=work_s)
        return PricedRun(
            bill=bill,
            held_s=bill.held_s,
            duration_s=bill.held_s,
            checkpoint_interval_s=self.terms.assumptions.save_interval_s,
            saving=saving,
            spot=spot,
            energy=self._energy(offer, instance_count, config, bill.held_s),
        )

    def _on_spot(
        self, offer: Offer, instance_count: int, config: TrialConfig, steps_s: Estimate, rate_per_hour: float
    ) -> PricedRun | None:
        parameters = self._parameters_of(config)
        work_s = _plus(steps_s, parameters.evaluation_s)
        rate_per_s = gang_rate_per_s(rate_per_hour, instance_count)
        checkpoint = self._checkpoint_of(config)
        job = self._job(work_s, parameters, checkpoint, rate_per_s)
        job = replace(job, saving=self._saving(job, checkpoint))
        times = self._times_of(job, work_s)
        if times is None:
            return None
        outcome = spot_outcome(job, times, offer, instance_count)
        count = times.means.interruption_count
        parameters = replace(
            parameters,
            checkpoint_stall_s=job.saving.stall_s,
            checkpoint_interval_s=times.interval_s,
            transfer_count=parameters.transfer_count * (1 + count),
        )
        rent = interrupted_terms(
            offer, instance_count, steps_s, parameters, outcome.cost_usd, outcome.rounding_s
        )
        return PricedRun(
            bill=bill_of(offer, rent, times.wall_s, parameters, self.terms.egress),
            held_s=times.held_s,
            duration_s=times.wall_s,
            checkpoint_interval_s=times.interval_s,
            saving=job.saving,
            spot=SpotRun(
                job=job,
                work_s=work_s,
                interruption_count=count,
                cost_usd_p10=outcome.cost_usd_p10,
                cost_usd_p90=outcome.cost_usd_p90,
                miss_probability=times.miss_probability,
                is_rate_stated=offer.interruption_rate_per_hour is None,
            ),
            energy=self._energy(offer, instance_count, config, times.held_s),
        )

    def _interruptions_per_hour(self, offer: Offer) -> float | None:
        """Of one instance: as the catalog has it, else as the user states it."""
        known = offer.interruption_rate_per_hour
        return self.terms.assumptions.interruptions_per_hour if known is None else known

    def _parameters_of(self, config: TrialConfig) -> CostAssumptions:
        """What the user stated, with what the trials measured; checkpoints have no stall and interval yet."""
        if config not in self._parameters:
            start = start_of(self.terms.measurements, config)
            checkpoint = self._checkpoint_of(config)
            self._parameters[config] = replace(
                self.terms.assumptions,
                start_up_s=start.start_up_s or 0.0,
                compile_s=start.compile_s or 0.0,
                checkpoint_bytes=checkpoint.size_bytes,
                checkpoint_source=checkpoint.source,
                sweep_usd=self.terms.sweep_usd,
            )
        return self._parameters[config]

    def _checkpoint_of(self, config: TrialConfig) -> CheckpointTimes:
        if config not in self._checkpoints:
            self._checkpoints[config] = checkpoint_times(
                self.terms.measurements,
                config,
                self.terms.profile,
                self.terms.assumptions.checkpoint_bytes_per_s,
            )
        return self._checkpoints[config]

    def _saving(self, job: SpotJob, checkpoint: CheckpointTimes) -> SaveCost:
        if len(checkpoint.savings) == 1:
            return checkpoint.savings[0]
        if job not in self._savings:
            self._savings[job] = best_saving(job, checkpoint.savings)
        return self._savings[job]

    def _times_of(self, job: SpotJob, work_s: Estimate) -> SpotTimes | None:
        key = job, work_s
        if key not in self._times:
            self._times[key] = (
                spot_times(
                    job,
                    work_s,
                    deadline_s=self.terms.target.deadline_s,
                    tail_fraction=self.terms.tail_fraction,
                    bin_count=BIN_COUNT,
                )
                if self._has_luck
                else mean_times(job, work_s)
            )
        return self._times[key]

    def _job(
        self, work_s: Estimate, parameters: CostAssumptions, checkpoint: CheckpointTimes, rate_per_s: float
    ) -> SpotJob:
        return SpotJob(
            work_s=work_s.expected,
            restart=Restart(
                provisioning_s=parameters.provisioning_s,
                set_up_s=parameters.set_up_s,
                start_up_s=parameters.start_up_s,
                compile_s=parameters.compile_s,
                load_s=checkpoint.load_s,
            ),
            saving=checkpoint.savings[0],
            interruptions_per_s=rate_per_s,
            wait_s=self.terms.assumptions.spot_wait_s,
        )

    def _energy(
        self, offer: Offer, instance_count: int, config: TrialConfig, held_s: Estimate
    ) -> Energy | None:
        if config not in self._powers_w:
            self._powers_w[config] = power_w(self.terms.measurements, config)
        return run_energy(
            self._powers_w[config],
            offer.gpu_count * instance_count,
            held_s,
            grid_g_per_kwh=self.terms.assumptions.grid_g_per_kwh,
        )


def _plus(estimate: Estimate, seconds: float) -> Estimate:
    if not seconds:
        return estimate
    return Estimate(
        low=estimate.low + seconds,
        expected=estimate.expected + seconds,
        high=estimate.high + seconds,
        basis=estimate.basis,
    )
