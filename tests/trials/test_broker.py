"""The broker without Ray: what the driver gets when workers answer, fail, die or stay away."""

import asyncio

import pytest

from tests.builders import make_config, make_failure, make_measurement
from trials.trial import FailureKind
from trials.workers.broker import Broker
from trials.workers.crash_record import CrashRecord
from trials.workers.trial_request import TrialReply, TrialRequest

CONFIG = make_config(gpu_count=2)
MEASURED = make_measurement(CONFIG)


def request(**changes):
    facts = {"trial_id": 1, "config": CONFIG, "ranks": (0, 1), "limit_s": 60.0, "restart_limit_s": 60.0}
    return TrialRequest(**{**facts, **changes})


def record(rank, **changes):
    facts = {"trial_id": 1, "is_finished": False, "stacks": "", "kernel_kill_count": 0}
    return CrashRecord(rank=rank, **{**facts, **changes})


async def begin(broker, given):
    """A trial under way: the driver's waiting task and the epoch of the workers that have it."""
    running = asyncio.create_task(broker.run(given))
    epoch = await broker.hello(())
    assert await broker.next_request(epoch) == given
    await broker.begun(given.trial_id)
    return running, epoch


def test_a_trial_goes_to_the_workers_and_its_outcome_to_the_driver():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        await broker.done(1, MEASURED)
        return await running

    assert asyncio.run(story()) == TrialReply(outcome=MEASURED)


def test_trials_follow_each_other_in_one_epoch():
    async def story():
        broker = Broker()
        running, epoch = await begin(broker, request())
        await broker.done(1, MEASURED)
        await running
        second = asyncio.create_task(broker.run(request(trial_id=2)))
        found = await broker.next_request(epoch)
        await broker.done(2, MEASURED)
        await second
        return found.trial_id

    assert asyncio.run(story()) == 2


def test_workers_wait_until_a_trial_comes():
    async def story():
        broker = Broker()
        epoch = await broker.hello(())
        waiting = asyncio.create_task(broker.next_request(epoch))
        await asyncio.wait({waiting}, timeout=0.01)
        was_waiting = not waiting.done()
        running = asyncio.create_task(broker.run(request()))
        found = await waiting
        await broker.done(1, MEASURED)
        await running
        return was_waiting, found

    assert asyncio.run(story()) == (True, request())


def test_a_rank_that_died_in_a_trial_is_named_when_its_successors_come():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        await broker.failed(1, 0, make_failure(CONFIG, kind=FailureKind.WORKER_LOST, reason="peer is gone"))
        await broker.lost({1: "the actor died"})
        await broker.hello((record(0, is_finished=True), record(1)))
        return await running

    reply = asyncio.run(story())
    assert reply.outcome.kind is FailureKind.WORKER_LOST
    assert reply.outcome.reason.startswith("rank 1 of 2 ended without a word")
    assert "the actor died" in reply.outcome.detail
    assert not reply.is_broken


def test_a_worker_lost_before_the_trial_began_costs_nothing():
    async def story():
        broker = Broker()
        running = asyncio.create_task(broker.run(request()))
        epoch = await broker.hello(())
        await broker.next_request(epoch)
        await broker.lost({1: "died while idle"})
        new = await broker.hello(())
        again = await broker.next_request(new)
        await broker.begun(1)
        await broker.done(1, MEASURED)
        return again, await running

    again, reply = asyncio.run(story())
    assert again == request()
    assert reply.outcome == MEASURED


def test_workers_that_die_before_every_beginning_are_not_tried_for_ever():
    async def story():
        broker = Broker()
        running = asyncio.create_task(broker.run(request()))
        for _ in range(3):
            await broker.next_request(await broker.hello(()))
        await broker.hello(())
        return await running

    reply = asyncio.run(story())
    assert reply.outcome.kind is FailureKind.WORKER_LOST
    assert "before the trial could begin" in reply.outcome.reason


def test_an_order_is_not_swallowed_by_a_worker_that_was_replaced():
    async def story():
        broker = Broker()
        old = await broker.hello(())
        asleep = asyncio.create_task(broker.next_request(old))
        await asyncio.sleep(0)
        new = await broker.hello(())
        running = asyncio.create_task(broker.run(request()))
        found = await broker.next_request(new)
        await broker.done(1, MEASURED)
        await running
        return await asleep, found

    assert asyncio.run(story()) == (None, request())


def test_the_others_learn_at_once_which_rank_failed_first():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        watching = asyncio.create_task(broker.first_failed(1))
        await asyncio.sleep(0)
        await broker.failed(1, 1, make_failure(CONFIG))
        first = await watching
        await broker.done(1, make_failure(CONFIG))
        await running
        return first, await broker.first_failed(1)

    assert asyncio.run(story()) == (1, None)


def test_a_rank_that_follows_a_failed_one_leaves_the_blame_with_it():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        await broker.failed(1, 1, make_failure(CONFIG, reason="CUDA out of memory"))
        await broker.follow(1, 0)
        await broker.hello((record(0), record(1, is_finished=True)))
        return await running

    outcome = asyncio.run(story()).outcome
    assert outcome.kind is FailureKind.OUT_OF_MEMORY
    assert outcome.reason == "CUDA out of memory (rank 1 of 2)"


def test_steps_that_every_rank_has_reported_outlive_what_comes_after_them():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        await broker.measured(1, 0, MEASURED)
        await broker.measured(1, 1, MEASURED)
        await broker.failed(1, 1, make_failure(CONFIG, reason="CUDA out of memory"))
        await broker.hello((record(0), record(1, is_finished=True)))
        return await running

    outcome = asyncio.run(story()).outcome
    assert outcome.step_time_s == MEASURED.step_time_s
    (warning,) = outcome.warnings
    assert warning.startswith(
        "incomplete: once its steps were timed, the trial ended (out of memory: CUDA out"
    )


def test_steps_that_one_rank_has_reported_are_no_trial():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        await broker.measured(1, 0, MEASURED)
        await broker.done(1, make_failure(CONFIG))
        return await running

    assert asyncio.run(story()) == TrialReply(outcome=make_failure(CONFIG))


def test_reported_steps_of_a_device_that_is_lost_afterwards_end_its_workers():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        for rank in (0, 1):
            await broker.measured(1, rank, MEASURED)
        await broker.done(1, make_failure(CONFIG, kind=FailureKind.USER_CODE, reason="CUDA error: assert"))
        return await running

    assert asyncio.run(story()).is_broken


def test_workers_that_do_not_come_back_break_the_group():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request(restart_limit_s=0.01))
        await broker.lost({0: "node left"})
        return await running

    reply = asyncio.run(story())
    assert reply.is_broken
    assert "did not come back" in reply.outcome.reason
    assert reply.outcome.kind is FailureKind.WORKER_LOST


def test_silence_beyond_the_limit_breaks_the_group():
    async def story():
        broker = Broker(answer_margin_s=0.0)
        running, _ = await begin(broker, request(limit_s=0.01))
        return await running

    reply = asyncio.run(story())
    assert reply.is_broken
    assert reply.outcome.kind is FailureKind.TIMED_OUT


@pytest.mark.parametrize("late", [True, False])
def test_stopping_sends_idle_workers_home(late):
    async def story():
        broker = Broker()
        epoch = await broker.hello(())
        stopping = asyncio.create_task(broker.stop())
        if late:
            await asyncio.sleep(0)
        found = await broker.next_request(epoch)
        await stopping
        return found

    assert asyncio.run(story()) is None


def test_workers_that_die_before_they_say_hello_are_given_up_with_what_they_said():
    async def story():
        broker = Broker()
        starting = asyncio.create_task(broker.ready())
        for _ in range(3):
            await broker.lost({0: "ModuleNotFoundError: No module named 'model_data'"})
        return await starting

    assert asyncio.run(story()) == "ModuleNotFoundError: No module named 'model_data'"


def test_successors_that_die_before_they_say_hello_break_the_group():
    async def story():
        broker = Broker()
        running, _ = await begin(broker, request())
        for _ in range(3):
            await broker.lost({0: "no space left on device"})
        return await running

    reply = asyncio.run(story())
    assert reply.is_broken
    assert reply.outcome.reason.endswith("no space left on device")
