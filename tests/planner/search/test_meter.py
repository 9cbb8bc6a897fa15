from dataclasses import dataclass, field

import pytest

from planner.search.meter import Meter


@dataclass
class Garage:
    """A clock and what is held, set by hand."""

    now_s: float = 0.0
    held: dict[str, int] = field(default_factory=dict)

    def meter(self) -> Meter:
        return Meter(held=lambda: self.held, clock=lambda: self.now_s)


def test_trials_side_by_side_pay_together_for_what_is_held() -> None:
    garage = Garage()
    meter = garage.meter()
    meter.begin(1, "L4", 1)
    garage.held = {"L4": 4}
    garage.now_s = 10.0
    meter.begin(2, "L4", 1)
    garage.held = {"L4": 8}  # the second node
    garage.now_s = 30.0
    first = meter.end(1, 30.0)
    garage.now_s = 40.0
    second = meter.end(2, 30.0)
    assert (first, second) == ({"L4": 4 * 10 + 8 * 20 / 2}, {"L4": 8 * 20 / 2 + 8 * 10})


def test_a_trial_pays_its_share_by_its_own_devices_and_for_what_another_type_holds_idle() -> None:
    garage = Garage(held={"L4": 4, "T4": 2})
    meter = garage.meter()
    meter.begin(1, "T4", 2)
    garage.now_s = 5.0
    assert meter.end(1, 5.0) == {"T4": 10.0, "L4": 20.0}
    meter.begin(2, "L4", 3)
    meter.begin(3, "L4", 1)
    garage.now_s = 15.0
    assert meter.end(2, 10.0) == {"L4": 30.0, "T4": 20.0}
    assert meter.end(3, 10.0) == {"L4": 10.0}


def test_what_holds_nothing_between_trials_is_billed_for_its_own_time() -> None:
    meter = Garage().meter()
    meter.begin(1, "L4", 2)
    assert meter.end(1, 30.0) == {"L4": 60.0}


def test_a_trial_that_came_to_nothing_pays_nothing() -> None:
    garage = Garage()
    meter = garage.meter()
    meter.begin(1, "L4", 2)
    meter.drop(1)
    garage.now_s = 9.0
    meter.begin(2, "L4", 1)
    assert sum(meter.end(2, 1.0).values()) == pytest.approx(1.0)
