"""What the JSON of sections and commands shares: base units in the keys, nothing rounded, null is unknown.

A key is written here on purpose, with the attribute it is read from where that has another name: the schema
does not follow internal names.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, computed_field

from catalogs.offers import Pricing
from planner.cost.hours import CostTerm
from planner.estimate.values import Basis, Estimate

SCHEMA_VERSION = 1  # raised when a key changes its meaning or goes; new keys do not raise it

TextOrNone = Annotated[str | None, BeforeValidator(lambda text: text or None)]


def of_answer(*path: str) -> Any:
    """A key that is read from a report's recommendation."""
    return Field(validation_alias=AliasPath("recommendation", *path))


class JsonModel(BaseModel):
    """A part of a JSON document, read from the attributes of a value."""

    model_config = ConfigDict(
        from_attributes=True,
        populate_by_name=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        json_schema_serialization_defaults_required=True,
    )


class ConfigJson(JsonModel):
    """Every knob of a configuration, the device included."""

    device: str = Field(validation_alias="gpu")
    worker_count: int = Field(validation_alias="gpu_count")
    node_count: int
    micro_batch_size: int
    accumulation: int
    global_batch_size: int
    precision: str
    parallelism: str
    techniques: tuple[str, ...]
    loader_worker_count: int | None
    loader_prefetch_count: int | None
    is_pinned: bool | None

    @computed_field  # type: ignore[prop-decorator]  # this and the next: older names for two of the techniques
    @property
    def is_checkpointed(self) -> bool:
        """Whether activation checkpointing is one of the techniques."""
        return "activation_checkpointing" in self.techniques

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_compiled(self) -> bool:
        """Whether torch.compile is one of the techniques."""
        return "compile" in self.techniques


class OfferJson(JsonModel):
    """A row of the catalog."""

    provider: str
    instance_type: str
    region: str
    pricing: Pricing
    device: str = Field(validation_alias="gpu")
    device_count: int = Field(validation_alias="gpu_count")
    vcpus: int
    memory_bytes: int
    price_usd_per_hour: float
    billing_increment_s: int
    as_of: date
    source: str


class RestartJson(JsonModel):
    """What coming back after an interruption takes."""

    provisioning_s: float
    set_up_s: float
    load_s: float
    start_up_s: float
    compile_s: float
    total_s: float


class SpotJson(JsonModel):
    """What interruptions do to a plan; null where nobody publishes how often they come."""

    is_rate_known: bool
    is_rate_stated: bool
    interruptions_per_s: float | None
    interruption_count: float | None
    restart: RestartJson = Field(validation_alias=AliasPath("job", "restart"))
    mean_wait_s: float = Field(validation_alias=AliasPath("job", "wait_s"))
    rent_p10_usd: float | None = Field(validation_alias="cost_usd_p10")
    rent_p90_usd: float | None = Field(validation_alias="cost_usd_p90")
    deadline_missed_fraction: float | None = Field(validation_alias="miss_probability")
    break_even_interruptions_per_s: float | None = Field(validation_alias="break_even_rate_per_s")


class PlanRowJson(JsonModel):
    """One plan: an offer, so many instances of it, the best configuration on them and what the run costs."""

    rank: int
    offer: OfferJson
    instance_count: int
    device_count: int
    price_usd_per_hour: float
    configuration: ConfigJson = Field(validation_alias="config")
    basis: Basis
    step_time_s: Estimate
    throughput_samples_per_s: Estimate = Field(validation_alias="throughput_per_s")
    duration_s: Estimate
    held_s: Estimate
    checkpoint_interval_s: float
    checkpoint_stall_s: float = Field(validation_alias=AliasPath("saving", "stall_s"))
    spot: SpotJson | None
    energy_j: Estimate | None = Field(default=None, validation_alias=AliasPath("energy", "energy_j"))
    co2_kg: Estimate | None = Field(default=None, validation_alias=AliasPath("energy", "co2_kg"))
    cost_usd: Estimate
    cost_with_waiting_usd: Estimate = Field(validation_alias="weighed_usd")
    total_with_sweep_usd: Estimate = Field(validation_alias="total_usd")
    peak_memory_bytes: Estimate
    memory_bytes: int
    memory_headroom_fraction: float
    is_within_budget: bool
    is_within_deadline: bool
    is_tied_with_best: bool
    host_fraction: float | None


class PlanJson(PlanRowJson):
    """A plan with its bill and its notes."""

    breakdown: tuple[CostTerm, ...] = Field(validation_alias=AliasPath("breakdown", "terms"))
    not_counted: tuple[str, ...] = Field(validation_alias=AliasPath("bill", "not_counted"))
    notes: tuple[str, ...]


class LeftOutJson(JsonModel):
    """Offers that carry no plan."""

    reason: str
    offer_count: int


class LeastMemoryJson(JsonModel):
    """What the device nearest to fitting has, and what would be needed."""

    needed_bytes: float | None
    memory_bytes: float
