"""`planner check`: one step of the model on CPU, and what was found."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from planner.exits import Exit
from planner.reports import formats
from trials.api import RealStep, TargetHint, WorkloadProfile, check, hash_workload


def run(model: Path) -> Exit:
    """Check and print."""
    profile = check(hash_workload(model), how=RealStep.ALWAYS)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, text in rows(profile):
        table.add_row(name, text)
    console = Console()
    kind = "a traced step" if profile.loss is None else "one step on CPU"
    console.print(f"{model}: {kind} at batch size 2 went well")
    console.print(table)
    return Exit.PLAN


def rows(profile: WorkloadProfile) -> list[tuple[str, str]]:
    """What was found, a line each."""
    blocks = f"{profile.block_count} repeated blocks" if profile.block_count else "no repeated blocks"
    trainable = ""
    if profile.trainable_parameter_count != profile.parameter_count:
        trainable = f", {formats.count(profile.trainable_parameter_count)} of them trained"
    traced = profile.trace_note or f"{len(profile.traces)} traces of one step, without a GPU"
    found = [
        ("adapter", str(profile.adapter)),
        ("parameters", formats.count(profile.parameter_count) + trainable),
        ("sample", profile.sample_shape),
        ("loss", "not known: no real step was run" if profile.loss is None else f"{profile.loss:.4g}"),
        ("data set", _or_none(profile.dataset_size, "samples", "batches are made by batch(size)")),
        ("tokens per sample", _or_none(profile.tokens_per_sample, "", "not said")),
        ("target", _hint(profile.hint)),
        ("blocks", blocks),
        ("trace", traced),
    ]
    return [*found, *(("note", one) for one in profile.notes)]


def _or_none(number: int | None, unit: str, otherwise: str) -> str:
    return otherwise if number is None else f"{number:,} {unit}".strip()


def _hint(hint: TargetHint) -> str:
    parts = [
        f"{value:g} {name}"
        for name, value in (("samples", hint.samples), ("epochs", hint.epochs), ("tokens", hint.tokens))
        if value is not None
    ]
    if hint.global_batch_size is not None:
        parts.append(f"global batch size {hint.global_batch_size}")
    return ", ".join(parts) or "not in the file: give --samples and --global-batch-size"
