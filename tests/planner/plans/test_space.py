from hypothesis import given
from hypothesis import strategies as st

from planner.plans.space import Knobs, configs_for, divisors, exclusions, worker_counts
from tests.builders import make_cpu, make_gpu, make_profile, make_target
from trials.trial import Parallelism, Precision


@given(number=st.integers(1, 5000))
def test_divisors_are_all_of_them(number: int) -> None:
    assert list(divisors(number)) == [one for one in range(1, number + 1) if number % one == 0]


@given(batch=st.integers(1, 600), gpu_count=st.sampled_from([1, 2, 3, 8]))
def test_every_configuration_trains_exactly_the_global_batch(batch: int, gpu_count: int) -> None:
    target = make_target(global_batch_size=batch)
    configs = configs_for(target, make_gpu(), gpu_count, 1, make_profile())
    assert {one.global_batch_size for one in configs} == ({batch} if batch % gpu_count == 0 else set())
    assert len(set(configs)) == len(configs)


def test_one_worker_is_single_and_several_are_ddp_or_fsdp2() -> None:
    target, profile = make_target(), make_profile()
    assert {one.parallelism for one in configs_for(target, make_gpu(), 1, 1, profile)} == {Parallelism.SINGLE}
    assert {one.parallelism for one in configs_for(target, make_gpu(), 2, 1, profile)} == {
        Parallelism.DDP,
        Parallelism.FSDP2,
    }


def test_a_chip_is_not_asked_for_a_precision_it_lacks_and_the_reason_is_given() -> None:
    t4 = make_gpu("T4-16GB", bf16_flop_per_s=None, tf32_flop_per_s=None)
    configs = configs_for(make_target(), t4, 1, 1, make_profile())
    assert {one.precision for one in configs} == {Precision.FP32, Precision.FP16}
    reasons = {one.knob: one.reason for one in exclusions(t4, make_profile())}
    assert reasons["bf16"] == "T4-16GB has no bf16 tensor cores"
    assert "tf32" in reasons


def test_cpu_tries_fp32_and_bf16_and_no_compiler_means_no_compile() -> None:
    cpu = make_cpu()
    configs = configs_for(make_target(), cpu, 1, 1, make_profile())
    assert {one.precision for one in configs} == {Precision.FP32, Precision.BF16}
    assert not any(("compile" in one.techniques) for one in configs)
    assert {one.knob for one in exclusions(cpu, make_profile())} == {"tf32", "fp16", "torch.compile"}


def test_a_model_without_blocks_is_neither_checkpointed_nor_sharded() -> None:
    profile = make_profile(block_count=0)
    configs = configs_for(make_target(), make_gpu(), 2, 1, profile)
    assert not any(
        ("activation_checkpointing" in one.techniques) or one.parallelism == Parallelism.FSDP2
        for one in configs
    )
    assert {"fsdp2", "activation checkpointing"} <= {one.knob for one in exclusions(make_gpu(), profile)}


def test_compile_can_be_forbidden() -> None:
    knobs = Knobs(techniques={"compile": False})
    assert not any(
        ("compile" in one.techniques)
        for one in configs_for(make_target(), make_gpu(), 1, 1, make_profile(), knobs)
    )
    assert "not asked for" in [one.reason for one in exclusions(make_gpu(), make_profile(), knobs)]


def test_worker_counts_are_those_that_divide_the_batch() -> None:
    assert worker_counts(make_gpu(), 6, make_target(global_batch_size=24)) == (1, 2, 4, 6)
    assert worker_counts(make_gpu(), 8, make_target(global_batch_size=6)) == (1, 2)
    assert worker_counts(make_cpu(), 64, make_target(global_batch_size=64)) == (1, 2)
