from __future__ import annotations

import math

import numpy as np
import pytest

from planner.estimate.scaling.calibrate import Prior, fit_constants, unmeasured

SIZES = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
PRIORS = {"start": Prior(median=1.0, factor=10.0), "slope": Prior(median=1.0, factor=10.0)}


def line(constants):
    return constants["start"] + constants["slope"] * SIZES


def test_constants_are_recovered_from_exact_points() -> None:
    fit = fit_constants(PRIORS, line, 0.3 + 0.05 * SIZES, noise_fraction=0.01)

    assert fit.constants["start"] == pytest.approx(0.3, rel=0.01)
    assert fit.constants["slope"] == pytest.approx(0.05, rel=0.01)


def test_without_points_the_priors_stay() -> None:
    fit = fit_constants(PRIORS, line, np.array([]), noise_fraction=0.01)

    assert fit.constants == {"start": 1.0, "slope": 1.0}
    assert fit.covariance[0, 0] == pytest.approx(math.log(10.0) ** 2)


def test_a_fixed_constant_does_not_move() -> None:
    priors = {**PRIORS, "start": Prior(median=0.2, factor=1.0)}

    fit = fit_constants(priors, line, 0.3 + 0.05 * SIZES, noise_fraction=0.01)

    assert fit.constants["start"] == 0.2
    assert fit.free == ("slope",)


def test_bounds_are_kept() -> None:
    priors = {**PRIORS, "start": Prior(median=1.0, factor=10.0, low=0.5)}

    fit = fit_constants(priors, line, 0.3 + 0.05 * SIZES, noise_fraction=0.01)

    assert fit.constants["start"] == pytest.approx(0.5)


def test_one_stalled_run_does_not_bend_the_others() -> None:
    measured = 0.3 + 0.05 * SIZES
    stalled = measured.copy()
    stalled[2] *= 5.0

    fit = fit_constants(PRIORS, line, stalled, noise_fraction=0.02)

    assert line(fit.constants)[[0, 4]] == pytest.approx(measured[[0, 4]], rel=0.1)


def test_a_constant_that_no_point_speaks_about_keeps_the_width_of_its_prior() -> None:
    priors = {**PRIORS, "unused": Prior(median=3.0, factor=2.0)}

    fit = fit_constants(priors, line, 0.3 + 0.05 * SIZES, noise_fraction=0.01)

    assert fit.constants["unused"] == pytest.approx(3.0)
    below, above = fit.log_scale(lambda constants: constants["unused"])
    assert below == pytest.approx(math.log(2.0), rel=0.02)
    assert above == pytest.approx(math.log(2.0), rel=0.02)


def test_a_prediction_that_is_flat_on_one_side_has_a_one_sided_scale() -> None:
    fit = unmeasured({"wait": Prior(median=1.0, factor=3.0)})

    below, above = fit.log_scale(lambda constants: max(1.0, constants["wait"]))

    assert below == 0.0
    assert above == pytest.approx(math.log(3.0))


def test_more_points_make_a_narrower_fit() -> None:
    few = fit_constants(PRIORS, lambda c: line(c)[:2], (0.3 + 0.05 * SIZES)[:2], noise_fraction=0.05)
    many = fit_constants(PRIORS, line, 0.3 + 0.05 * SIZES, noise_fraction=0.05)

    def at_32(constants):
        return constants["start"] + 32 * constants["slope"]

    assert sum(many.log_scale(at_32)) < sum(few.log_scale(at_32))
