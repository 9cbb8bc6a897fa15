"""`planner estimate`: every GPU of the catalog ranked, or one type and count in detail; measured or not."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from catalogs.gpus import DeviceKind, Gpu, Link, find_gpu
from catalogs.offers import Offer
from planner.cli_values import EstimateFlags, OfferFlags, OutputFlags
from planner.commands.answer import corrections, estimator_of, knobs_of, publish, report_of, retargeted
from planner.commands.first_answer import traced_study
from planner.commands.prices import Prices, read_prices
from planner.cost.bill.price_run import Pricer, Terms
from planner.cost.hours import training_s
from planner.errors import PlannerError
from planner.estimate import Basis, Estimator, Hardware
from planner.estimate.memory.usable_memory import is_fitting
from planner.exits import Exit
from planner.modes import TECHNIQUES
from planner.plans.plan import hardware_of
from planner.plans.space import Knobs, configs_for
from planner.reports import to_terminal
from planner.reports.one_device import EstimateRow, OneDevice, to_json, to_section
from planner.study.reading import read_peers, read_study
from planner.study.saved import SavedStudy
from planner.study.storage import default_storage_url
from planner.target import Target, TargetFlags, resolve_target
from trials.api import Measurement, TrialConfig, check, hash_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateInputs:
    """What the estimates of one GPU type start from: a study, its fitted estimator and the target."""

    study: SavedStudy
    estimator: Estimator
    target: Target
    knobs: Knobs
    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...] = ()


def run(own: EstimateFlags, flags: TargetFlags, pricing: OfferFlags, output: OutputFlags) -> Exit:
    """Print the ranking, or the configurations of --gpu; NOTHING_FITS when none does."""
    prices = read_prices(pricing)
    if own.gpu is None and own.gpu_count is not None:
        raise PlannerError(f"--gpus {own.gpu_count}: name the type as well, such as --gpu L4-24GB")
    chip = None if own.gpu is None else find_gpu(own.gpu, prices.gpus)
    sizes = flags.batch_range
    if sizes is not None and chip is not None:
        raise PlannerError(
            f"--global-batch-size {sizes.low}:{sizes.high}: with --gpu this command takes one size; "
            "`planner report` and `planner sweep` choose from a range"
        )
    study, target = _study_of(own.study_or_model, flags, output)
    if chip is None:
        return publish(report_of(study, target, prices), output)
    found = _one_device(_inputs(study, target, prices), chip, own.gpu_count or 1, prices)
    stream = sys.stderr if output.is_json else sys.stdout
    if output.is_json:
        sys.stdout.write(to_json(found))
    width = to_terminal.width_of(stream)
    print(to_terminal.render_sections([to_section(found)], width, is_coloured=stream.isatty()), file=stream)
    return Exit.PLAN if any(row.is_fitting for row in found.rows) else Exit.NOTHING_FITS


def _study_of(study_or_model: str, flags: TargetFlags, output: OutputFlags) -> tuple[SavedStudy, Target]:
    """What a study measured, or what a model file's trace says as a study without trials."""
    url = output.storage or default_storage_url()
    if not study_or_model.endswith(".py"):
        study = read_study(url, study_or_model)
        return study, retargeted(study.target, flags, study.profile, study.workload.path)
    print(f"tracing {study_or_model} on CPU", file=sys.stderr)
    workload = hash_workload(Path(study_or_model))
    profile = check(workload)
    target = resolve_target(flags, profile, study_or_model)
    return traced_study(workload, profile, target, url), target


def _inputs(study: SavedStudy, target: Target, prices: Prices) -> EstimateInputs:
    trials = study.trials()
    peers = read_peers(study) if trials else {}
    return EstimateInputs(
        study=study,
        estimator=estimator_of(study, prices, peers),
        target=target,
        knobs=knobs_of(trials)
        if trials
        else Knobs(techniques={one.name: True for one in TECHNIQUES if one.is_shown_first}),
        measurements=tuple(one.outcome for one in trials if isinstance(one.outcome, Measurement)),
        notes=corrections(peers),
    )


def _one_device(known: EstimateInputs, chip: Gpu, gpu_count: int, prices: Prices) -> OneDevice:
    hardware, node_count, offer = _hardware(chip, gpu_count, prices)
    rows = _rows(known, hardware, gpu_count, node_count, offer, _pricer(known, prices))
    return OneDevice(
        device=chip.name,
        device_count=gpu_count,
        offer=offer,
        rows=tuple(rows),
        notes=(*_cautions(known, chip, rows), *known.notes, *prices.notes),
        tokens_per_sample=known.target.tokens_per_sample,
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


def _rows(
    known: EstimateInputs,
    hardware: Hardware,
    gpu_count: int,
    node_count: int,
    offer: Offer | None,
    pricer: Pricer,
) -> list[EstimateRow]:
    """Every configuration that something can be said of; those that fit first, the fastest first."""
    target, profile = known.target, known.study.profile
    configs = configs_for(target, hardware.gpu, gpu_count, node_count, profile, known.knobs)
    if not configs:
        raise PlannerError(
            f"--gpus {gpu_count} does not divide the global batch size {target.global_batch_size}; name a "
            "count that does"
        )
    node_memory_bytes = hardware.gpu.memory_bytes
    if hardware.gpu.kind is DeviceKind.CPU:  # the catalog's figure is per vCPU
        node_memory_bytes *= hardware.vcpus or 1
    rows = [
        row
        for config in configs
        if (row := _row(known, config, hardware, node_memory_bytes, offer, pricer)) is not None
    ]
    if not rows:
        raise PlannerError(
            f"nothing can be said of {hardware.gpu.name}: "
            + (profile.trace_note or "there is neither a measurement nor a trace; run `planner sweep`")
        )
    return sorted(rows, key=lambda row: (not row.is_fitting, row.step_time_s.expected))


def _row(
    known: EstimateInputs,
    config: TrialConfig,
    hardware: Hardware,
    node_memory_bytes: int,
    offer: Offer | None,
    pricer: Pricer,
) -> EstimateRow | None:
    """What is expected of one configuration; None where nothing can be said of it."""
    step_time_s = known.estimator.step_time_s(config, hardware)
    peak = known.estimator.peak_memory_bytes(config, hardware)
    if step_time_s is None or peak is None:
        return None
    priced = None if offer is None else pricer.price(offer, config.node_count, config, step_time_s)
    usable_bytes = known.estimator.usable_memory_bytes(config, hardware.gpu, node_memory_bytes)
    return EstimateRow(
        config=config,
        step_time_s=step_time_s,
        samples_per_s=step_time_s.inverse(float(known.target.global_batch_size)),
        peak_memory_bytes=peak,
        is_fitting=is_fitting(peak, usable_bytes, hardware.gpu.kind),
        duration_s=training_s(known.target, step_time_s) if priced is None else priced.duration_s,
        run=priced,
    )


def _cautions(known: EstimateInputs, chip: Gpu, rows: list[EstimateRow]) -> list[str]:
    cautions = []
    if not known.measurements:
        cautions.append(
            f"No trial was run: these are predictions for {chip.name} from the operation trace alone."
        )
    elif not any(row.step_time_s.basis is Basis.MEASURED for row in rows):
        cautions.append(f"{chip.name} was not measured: this is predicted from other devices.")
    if not any(row.is_fitting for row in rows):
        cautions.append("Nothing fits: the upper bound of the peak memory is above the card's in every row.")
    return cautions


def _pricer(known: EstimateInputs, prices: Prices) -> Pricer:
    terms = Terms(
        target=known.target,
        profile=known.study.profile,
        assumptions=prices.assumptions,
        sweep_usd=None,
        measurements=known.measurements,
        confidence=prices.confidence,
    )
    return Pricer(terms)
