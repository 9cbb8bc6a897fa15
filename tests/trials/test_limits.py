"""How long a trial may take, from those seen."""

from tests.builders import make_config, make_measurement
from trials.workers.limits import FIRST_LIMIT_S, LEAST_LIMIT_S, limit_s

SMALL = make_config(micro_batch_size=8, accumulation=1)


def seen(config=SMALL, *, trial_s, startup_s=0.0, first_step_s=0.0):
    return make_measurement(config, trial_s=trial_s, startup_s=startup_s, first_step_s=first_step_s)


def test_the_first_trial_has_the_longest_limit():
    assert limit_s(SMALL, []) == FIRST_LIMIT_S


def test_a_batch_twice_as_large_may_take_twice_as_long_beyond_the_start():
    known = [seen(trial_s=40.0, startup_s=10.0, first_step_s=2.0)]
    assert limit_s(SMALL, known) == 4 * 40.0
    assert limit_s(make_config(micro_batch_size=16, accumulation=1), known) == 4 * (12.0 + 2 * 28.0)


def test_the_slowest_seen_counts():
    assert limit_s(SMALL, [seen(trial_s=20.0), seen(trial_s=50.0)]) == 4 * 50.0


def test_what_was_measured_besides_the_steps_says_nothing_of_the_next_trial():
    with_extras = make_measurement(SMALL, trial_s=70.0, extras_s=30.0, startup_s=0.0, first_step_s=0.0)
    assert limit_s(SMALL, [with_extras]) == 4 * 40.0


def test_short_trials_have_a_minute():
    assert limit_s(SMALL, [seen(trial_s=0.5)]) == LEAST_LIMIT_S


def test_nothing_is_known_of_compilation_before_the_first_one():
    compiled = make_config(techniques=("compile",))
    assert limit_s(compiled, [seen(trial_s=0.5)]) == FIRST_LIMIT_S
    assert limit_s(compiled, [seen(compiled, trial_s=30.0)]) == 4 * 30.0


def test_no_limit_is_longer_than_the_first():
    assert limit_s(make_config(micro_batch_size=4096), [seen(trial_s=100.0)]) == FIRST_LIMIT_S
