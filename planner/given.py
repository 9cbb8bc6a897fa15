"""What the user gave on the command line, as values: commands take these and no flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFlags:
    """What only a sweep takes."""

    model: Path
    address: str | None
    wait: str
    max_trials: int
    max_minutes: float
    sweep_budget_usd: float | None
    is_compile_allowed: bool | None  # None: on GPUs only
    checkpoint_directory: str | None  # on the nodes; None: their own disk
    from_checkpoint: Path | None  # at whose weights the gradient noise scale is measured
    study: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BillFlags:
    """What the user says of the bill beside the price; None where nothing was said."""

    setup_minutes: float = 0.0
    evaluation_minutes: float = 0.0
    data_gib: float | None = None
    data_from: str | None = None
    egress_price: float | None = None
    storage_price: float | None = None
    checkpoint_gib_per_s: float | None = None
    checkpoint_minutes: float = 60.0
    spot_wait_minutes: float = 30.0
    interruptions_per_hour: float | None = None
    grid_g_per_kwh: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """What may be rented, and at which prices, as the user gave it."""

    catalog: Path | None
    prices: tuple[str, ...]  # "H100=2.10"
    providers: tuple[str, ...]
    regions: tuple[str, ...]
    gpus: tuple[str, ...]
    is_spot: bool | None
    is_reserved: bool
    confidence: float = 0.9
    provisioning_s: float = 300.0
    bill: BillFlags = BillFlags()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where the study lies and where the report goes."""

    storage: str | None
    out: Path
    is_json: bool
