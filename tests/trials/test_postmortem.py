"""Why workers ended, told from what they left behind."""

from tests.builders import make_config, make_failure
from trials.trial import FailureKind
from trials.workers.crash_record import CrashRecord
from trials.workers.postmortem import explain_loss

CONFIG = make_config(gpu_count=2)


def record(rank, **changes):
    facts = {"trial_id": 1, "is_finished": False, "stacks": "", "kernel_kill_count": 0}
    return CrashRecord(rank=rank, **{**facts, **changes})


def explain(*, records, failed=None, followers=(), lost=None, ranks=(0, 1)):
    return explain_loss(
        CONFIG,
        ranks=ranks,
        limit_s=30.0,
        records=records,
        failed=failed or {},
        followers=followers,
        lost=lost or {},
    )


def test_stacks_mean_that_the_limit_ended_it():
    failure = explain(
        records=[record(0, stacks="File model.py, line 3"), record(1, stacks="File model.py, line 9")]
    )
    assert failure.kind is FailureKind.TIMED_OUT
    assert failure.reason == "not done within its limit of 30 s"
    assert "stacks of rank 1:\nFile model.py, line 9" in failure.detail


def test_a_kernel_kill_is_out_of_memory():
    failure = explain(records=[record(0, is_finished=True), record(1, kernel_kill_count=1)])
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert failure.reason == "the kernel killed rank 1 of 2 because the host's memory ran out"


def test_a_kernel_kill_elsewhere_does_not_excuse_a_rank_that_told_its_own_reason():
    told = make_failure(CONFIG, kind=FailureKind.USER_CODE, reason="ValueError: no")
    failure = explain(
        records=[record(0, is_finished=True, kernel_kill_count=1), record(1, is_finished=True)],
        failed={1: told},
    )
    assert failure.kind is FailureKind.USER_CODE
    assert failure.reason == "ValueError: no (rank 1 of 2)"


def test_the_memory_monitor_of_ray_is_out_of_memory():
    text = "Task was killed due to the node running low on memory."
    failure = explain(records=[record(0), record(1)], lost={1: text})
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert text in failure.detail


def test_the_hint_at_the_kernel_in_every_lost_worker_of_ray_is_no_proof_of_it():
    text = "Some common causes include: (1) the process was killed by the OOM killer due to high memory usage"
    assert explain(records=[record(0), record(1)], lost={1: text}).kind is FailureKind.WORKER_LOST


def test_a_rank_without_box_or_report_is_lost():
    failure = explain(records=[record(0, is_finished=True)])
    assert failure.kind is FailureKind.WORKER_LOST
    assert failure.reason.startswith("rank 1 of 2 ended without a word")


def test_ranks_that_took_no_part_are_not_suspected():
    told = make_failure(CONFIG, reason="CUDA out of memory")
    failure = explain(records=[record(2), record(3)], failed={4: told}, followers=(0,), ranks=(0, 4))
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert failure.reason == "CUDA out of memory (rank 4 of 2)"


def test_a_reported_out_of_memory_outweighs_peers_that_ended_without_a_word():
    told = make_failure(CONFIG, kind=FailureKind.OUT_OF_MEMORY, reason="CUDA out of memory")
    failure = explain(
        records=[record(0), record(1, is_finished=True)], failed={1: told}, lost={0: "actor died"}
    )
    assert failure.kind is FailureKind.OUT_OF_MEMORY
    assert failure.reason == "CUDA out of memory (rank 1 of 2)"


def test_what_a_rank_sees_of_another_is_no_cause():
    seen = make_failure(CONFIG, kind=FailureKind.COMMUNICATION_FAILED, reason="NCCL error")
    told = make_failure(CONFIG, kind=FailureKind.OUT_OF_MEMORY, reason="CUDA out of memory")
    assert explain(records=[], failed={0: seen, 1: told}).kind is FailureKind.OUT_OF_MEMORY
    killed = explain(records=[record(0, is_finished=True), record(1, kernel_kill_count=1)], failed={0: seen})
    assert killed.reason == "the kernel killed rank 1 of 2 because the host's memory ran out"
    alone = explain(records=[record(0, is_finished=True)], failed={0: seen}, followers=(1,))
    assert alone.kind is FailureKind.COMMUNICATION_FAILED
