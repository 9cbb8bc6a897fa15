"""`planner estimate --gpu`: the configurations of one GPU type and count, as a section of a report."""

from __future__ import annotations

from dataclasses import dataclass

from catalogs.offers import Offer
from planner.cost.bill.priced import PricedRun
from planner.estimate.values import Estimate
from planner.modes import TECHNIQUES
from planner.reports import formats, labels
from planner.reports.content import Cell, Column, Row, Section, Table, texts
from planner.reports.models import SCHEMA_VERSION, ConfigJson, JsonModel, OfferJson
from trials.api import TrialConfig

ROWS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRow:
    """One configuration and what is expected of it."""

    config: TrialConfig
    step_time_s: Estimate
    samples_per_s: Estimate
    peak_memory_bytes: Estimate  # of one worker
    is_fitting: bool  # by the high end of the peak
    duration_s: Estimate  # of the whole run
    run: PricedRun | None  # None where no offer has so many of these devices


class RowJson(JsonModel):
    """One configuration; the rows that fit come first, the fastest first."""

    config: ConfigJson
    step_time_s: Estimate
    samples_per_s: Estimate
    peak_memory_bytes: Estimate
    is_fitting: bool
    duration_s: Estimate
    cost_usd: Estimate | None


class OneDeviceJson(JsonModel):
    """What `planner estimate --gpu --json` prints."""

    schema_version: int
    device: str
    device_count: int
    offer: OfferJson | None
    notes: tuple[str, ...]
    rows: tuple[RowJson, ...]


COLUMNS = (
    Column(name="micro batch", is_number=True),
    Column(name="accum.", is_number=True, drop=2),
    Column(name="technique", wrap_to=16),
    Column(name="step time", is_number=True, drop=3),
    Column(name="speed", is_number=True, drop=4),
    Column(name="memory up to", is_number=True),
    Column(name="run", is_number=True),
    Column(name="cost", is_number=True),
    Column(name="basis", drop=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneDevice:
    """What is expected of a GPU type and count."""

    device: str
    device_count: int
    offer: Offer | None  # by which the rows are priced; None where there is none
    rows: tuple[EstimateRow, ...]  # those that fit first, the fastest first; never empty
    notes: tuple[str, ...]
    tokens_per_sample: int | None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What a reader must know before the rows."""
        there = {name for row in self.rows for name in row.config.techniques}
        assumed = (
            f"Rows with {technique.label} assume that it works for this model; the time it takes to compile "
            "is in the cost only where a trial measured it."
            for technique in TECHNIQUES
            if technique.is_shown_first and technique.name in there
        )
        return (*self.notes, *assumed)


def to_section(found: OneDevice) -> Section:
    """The notes, then a row for each of the first configurations."""
    where = ""
    if found.offer is not None:
        instances = formats.times(found.rows[0].config.node_count, found.offer.instance_type)
        where = f", on {instances} from {found.offer.provider} ({found.offer.pricing})"
    title = f"{formats.times(found.device_count, found.device)}{where}"
    rows = tuple(_row(row, found.tokens_per_sample) for row in found.rows[:ROWS_SHOWN])
    table = Table(label=title, columns=COLUMNS, rows=rows)
    return Section(title=title, blocks=(*texts(*found.all_notes), table))


def to_json(found: OneDevice) -> str:
    """The same as JSON, every configuration in it."""
    document = OneDeviceJson(
        schema_version=SCHEMA_VERSION,
        device=found.device,
        device_count=found.device_count,
        offer=None if found.offer is None else OfferJson.model_validate(found.offer),
        notes=found.all_notes,
        rows=tuple(_row_json(row) for row in found.rows),
    )
    return document.model_dump_json(indent=2) + "\n"


def _row_json(row: EstimateRow) -> RowJson:
    return RowJson(
        config=ConfigJson.model_validate(row.config),
        step_time_s=row.step_time_s,
        samples_per_s=row.samples_per_s,
        peak_memory_bytes=row.peak_memory_bytes,
        is_fitting=row.is_fitting,
        duration_s=row.duration_s,
        cost_usd=None if row.run is None else row.run.bill.breakdown.total_usd,
    )


def _row(row: EstimateRow, tokens_per_sample: int | None) -> Row:
    cost = None if row.run is None else row.run.bill.breakdown.total_usd
    shown = (
        str(row.config.micro_batch_size),
        str(row.config.accumulation),
        labels.technique(row.config),
        formats.interval(row.step_time_s, formats.duration),
        formats.interval(row.samples_per_s, lambda per_s: formats.rate(per_s, tokens_per_sample)),
        formats.size(row.peak_memory_bytes.high) + ("" if row.is_fitting else " (too much)"),
        formats.duration(row.duration_s.expected),
        formats.UNKNOWN if cost is None else formats.interval(cost, formats.usd),
        str(row.step_time_s.basis),
    )
    return Row(cells=tuple(Cell(text=text) for text in shown))
