"""`planner estimate`: step time, throughput and memory on one GPU type and count, measured or not."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from catalogs.gpus import DeviceKind, Gpu, Link, find_gpu
from catalogs.offers import Offer
from planner.cli_values import EstimateFlags, OfferFlags, OutputFlags
from planner.commands.answer import corrections, estimator_of, knobs_of, retargeted
from planner.commands.prices import Prices, read_prices
from planner.cost.bill.price_run import Pricer, Terms
from planner.cost.hours import training_s
from planner.errors import PlannerError
from planner.estimate import Basis, Estimate, Estimator, Hardware, fit
from planner.estimate.memory.usable_memory import is_fitting
from planner.exits import Exit
from planner.plans.plan import hardware_of
from planner.plans.space import Knobs, configs_for
from planner.reports import formats, labels
from planner.study.reading import read_peers, read_study
from planner.study.storage import default_storage_url
from planner.target import Target, TargetFlags, resolve_target
from trials.api import Measurement, TrialConfig, WorkloadProfile, check, hash_workload

ROWS_SHOWN = 8
TABLE_WIDTH = 140  # pipes have no width


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateInputs:
    """What the estimates start from."""

    estimator: Estimator
    profile: WorkloadProfile
    target: Target
    knobs: Knobs
    measurements: tuple[Measurement, ...]
    is_measured: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRow:
    """One configuration and what is expected of it."""

    config: TrialConfig
    step_time_s: Estimate
    peak_memory_bytes: Estimate
    is_fitting: bool


def run(own: EstimateFlags, flags: TargetFlags, pricing: OfferFlags, output: OutputFlags) -> Exit:
    """Print the best configurations that fit; NOTHING_FITS when none does."""
    sizes = flags.batch_range
    if sizes is not None:
        raise PlannerError(
            f"--global-batch-size {sizes.low}:{sizes.high}: this command takes one size; `planner report` "
            "and `planner sweep` choose from a range"
        )
    prices = read_prices(pricing)
    chip = find_gpu(own.gpu, prices.gpus)
    known = _known(own.study_or_model, flags, prices, output)
    hardware, node_count, offer = _hardware(chip, own.gpu_count, prices)
    rows = _rows(known, hardware, own.gpu_count, node_count)
    console = Console()
    console = Console(width=max(console.width, TABLE_WIDTH))
    for line in (*_cautions(known, chip, rows), *known.notes, *prices.notes):
        console.print(line)
    console.print(_table(known, rows, offer, prices))
    return Exit.PLAN if any(one.is_fitting for one in rows) else Exit.NOTHING_FITS


def _known(study_or_model: str, flags: TargetFlags, prices: Prices, output: OutputFlags) -> EstimateInputs:
    """From a model file by its trace alone, or from what a study measured."""
    if not study_or_model.endswith(".py"):
        study = read_study(output.storage or default_storage_url(), study_or_model)
        trials, peers = study.trials(), read_peers(study)
        return EstimateInputs(
            estimator=estimator_of(study, prices, peers),
            profile=study.profile,
            target=retargeted(study.target, flags, study.profile, study.workload.path),
            knobs=knobs_of(trials),
            measurements=tuple(one.outcome for one in trials if isinstance(one.outcome, Measurement)),
            is_measured=bool(trials),
            notes=corrections(peers),
        )
    print(f"tracing {study_or_model} on CPU", file=sys.stderr)
    profile = check(hash_workload(Path(study_or_model)))
    return EstimateInputs(
        estimator=fit([], gpus=prices.gpus, profile=profile, confidence=prices.confidence),
        profile=profile,
        target=resolve_target(flags, profile, study_or_model),
        knobs=Knobs(is_compile_allowed=False),
        measurements=(),
        is_measured=False,
    )


def _hardware(chip: Gpu, gpu_count: int, prices: Prices) -> tuple[Hardware, int, Offer | None]:
    """The cheapest admitted offer that makes up the count; without one the chip alone, in one node."""
    found = [
        (one.price_usd_per_hour * (gpu_count // one.gpu_count), gpu_count // one.gpu_count, one)
        for one in prices.admitted
        if one.gpu == chip.name and gpu_count % one.gpu_count == 0
    ]
    if not found:
        link = chip.link if gpu_count > 1 else Link.NONE
        return Hardware(gpu=chip, link=link), 1, None
    fewest = min(node_count for _, node_count, _ in found)
    _, node_count, offer = min((row for row in found if row[1] == fewest), key=lambda row: row[0])
    return hardware_of(offer, chip, node_count), node_count, offer


def _rows(known: EstimateInputs, hardware: Hardware, gpu_count: int, node_count: int) -> list[EstimateRow]:
    """Every configuration that something can be said of; those that fit first, the fastest first."""
    configs = configs_for(known.target, hardware.gpu, gpu_count, node_count, known.profile, known.knobs)
    if not configs:
        raise PlannerError(
            f"--gpus {gpu_count} does not divide the global batch size {known.target.global_batch_size}"
        )
    rows = []
    node_memory_bytes = hardware.gpu.memory_bytes
    if hardware.gpu.kind is DeviceKind.CPU:  # the catalog's figure is per vCPU
        node_memory_bytes *= hardware.vcpus or 1
    for config in configs:
        step = known.estimator.step_time_s(config, hardware)
        peak = known.estimator.peak_memory_bytes(config, hardware)
        if step is not None and peak is not None:
            usable_bytes = known.estimator.usable_memory_bytes(config, hardware.gpu, node_memory_bytes)
            does_fit = is_fitting(peak, usable_bytes, hardware.gpu.kind)
            rows.append(
                EstimateRow(config=config, step_time_s=step, peak_memory_bytes=peak, is_fitting=does_fit)
            )
    if not rows:
        raise PlannerError(
            f"nothing can be said of {hardware.gpu.name}: "
            + (known.profile.trace_note or "there is neither a measurement nor a trace; run `planner sweep`")
        )
    return sorted(rows, key=lambda row: (not row.is_fitting, row.step_time_s.expected))


def _cautions(known: EstimateInputs, chip: Gpu, rows: list[EstimateRow]) -> list[str]:
    cautions = []
    if not known.is_measured:
        cautions.append(
            f"No trial was run: these are predictions for {chip.name} from the operation trace alone."
        )
    elif not any(one.step_time_s.basis is Basis.MEASURED for one in rows):
        cautions.append(f"{chip.name} was not measured: this is predicted from other devices.")
    if not any(one.is_fitting for one in rows):
        cautions.append("Nothing fits: the upper bound of the peak memory is above the card's in every row.")
    return cautions


def _table(known: EstimateInputs, rows: list[EstimateRow], offer: Offer | None, prices: Prices) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("micro batch", "accum.", "technique"):
        table.add_column(name, justify="left" if name == "technique" else "right", no_wrap=True)
    for name in ("step time", "speed", "peak memory up to", "run", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("basis", no_wrap=True)
    if offer is not None:
        instances = formats.times(rows[0].config.node_count, offer.instance_type)
        table.caption = f"on {instances} from {offer.provider} ({offer.pricing})"
    pricer = _pricer(known, prices)
    for row in rows[:ROWS_SHOWN]:
        run = None
        if offer is not None:
            run = pricer.price(offer, row.config.node_count, row.config, row.step_time_s)
        duration_s = training_s(known.target, row.step_time_s) if run is None else run.duration_s
        speed = row.step_time_s.inverse(float(known.target.global_batch_size))
        bill = None if run is None else run.bill.breakdown.total_usd
        memory = formats.size(row.peak_memory_bytes.high) + ("" if row.is_fitting else " (too much)")
        table.add_row(
            str(row.config.micro_batch_size),
            str(row.config.accumulation),
            labels.technique(row.config),
            formats.interval(row.step_time_s, formats.duration),
            formats.interval(speed, lambda per_s: formats.rate(per_s, known.target.tokens_per_sample)),
            memory,
            formats.duration(duration_s.expected),
            formats.UNKNOWN if bill is None else formats.interval(bill, formats.usd),
            str(row.step_time_s.basis),
        )
    return table


def _pricer(known: EstimateInputs, prices: Prices) -> Pricer:
    terms = Terms(
        target=known.target,
        profile=known.profile,
        assumptions=prices.assumptions,
        sweep_usd=None,
        measurements=known.measurements,
        confidence=prices.confidence,
    )
    return Pricer(terms)
