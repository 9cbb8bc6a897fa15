"""Energy of a run from measured power, and what the grid emits for it."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import PlannerError
from planner.estimate.values import Estimate

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Of the whole run; ``co2_kg`` is None where no grid intensity was given."""

    energy_j: Estimate
    co2_kg: Estimate | None
    formula: str


def run_energy(
    power_w: float | None,
    device_count: int,
    held_s: Estimate,
    *,
    overhead_factor: float = 1.0,
    grid_g_per_kwh: float | None = None,
) -> Energy | None:
    """Energy of ``device_count`` devices at ``power_w`` each for as long as they are held.

    Args:
        power_w: median that NVML reported while steps were timed; None where nothing was measured.
        device_count: of all instances.
        held_s: start included, at the power of training, which overstates it.
        overhead_factor: power usage effectiveness of the data centre and the share of the host; 1.0 counts
            the devices alone, which is what was measured.
        grid_g_per_kwh: grams of CO2 equivalent per kWh where the instances stand; None gives no CO2.

    None where no power was measured: a data sheet's maximum is no measurement.
    """
    if power_w is None:
        return None
    if power_w < 0 or overhead_factor < 1 or (grid_g_per_kwh is not None and grid_g_per_kwh < 0):
        raise PlannerError("power and grid intensity must not be negative, the overhead factor not below 1")
    energy_j = held_s.scaled(power_w * device_count * overhead_factor)
    co2_kg = None
    if grid_g_per_kwh is not None:
        co2_kg = energy_j.scaled(grid_g_per_kwh / 1000 / JOULES_PER_KWH)
    overhead = f" x {overhead_factor:g}" if overhead_factor != 1 else ""
    return Energy(energy_j=energy_j, co2_kg=co2_kg, formula=f"measured power x devices x time held{overhead}")
