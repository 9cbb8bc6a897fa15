"""A way to train is one file on each side: one that no product file knows goes all the way, to a trial."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from catalogs.gpus import Gpu, load_gpus
from planner import modes as planner_modes
from planner.codec import from_json, to_json
from planner.estimate import fit
from planner.estimate.values import Basis, Hardware
from planner.launch.files import launch_files
from planner.launch.wheel import Wheel
from planner.modes.parallelism import Parallelism
from planner.modes.precision import Precision
from planner.modes.technique import Technique
from planner.modes.terms import CollectiveOperation as Collective
from planner.modes.terms import Exchange, Group, RankBytes, Rounds, StateBytes, Traffic
from planner.plans.space import configs_for, exclusions
from planner.reports import labels, to_terminal
from planner.reports import to_json as report_to_json
from planner.reports.models import ConfigJson
from planner.search.params import distributions, params_of
from tests.builders import (
    FakeEstimator,
    make_config,
    make_gpu,
    make_measurement,
    make_profile,
    make_target,
    make_trace,
)
from tests.planner.reports.studies import make_report
from tests.planner.run_plans import make_run_plan
from tests.trials.files import PLAIN, on_cpu, write
from trials import modes as trials_modes
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings, measure
from trials.model_file.contract import Step
from trials.modes import parallelism as trial_parallelism
from trials.modes import precision as trial_precision
from trials.modes import technique as trial_technique
from trials.rank_context import RankContext

H100 = "H100-SXM5-80GB"
WHEEL = Wheel(name="gpu_planner-0.1.0-0abc-py3-none-any.whl", contents=b"a zip")


class Fp8(Precision):
    """As a file of planner/modes would have it."""

    name = "fp8"
    plainness = 3
    element_bytes = 1
    cpu_refusal = "a CPU has no fp8 units"
    rates_of = "bf16"  # type: ignore[assignment]

    def peak_flop_per_s(self, gpu: Gpu) -> float | None:
        has = gpu.compute_capability is not None and gpu.compute_capability >= 8.9
        return 2 * gpu.bf16_flop_per_s if has and gpu.bf16_flop_per_s else None


class Zero1(Parallelism):
    """Gradients reduced as under DDP, the optimizer's state divided, parameters gathered once per step."""

    name = "zero1"
    label = "ZeRO-1"
    plainness = 2
    keeps_gradients = True

    def shards(self, group: Group) -> int:
        return group.rank_count

    def rank_bytes(
        self, state: StateBytes, group: Group, block_count: int, precision: Precision
    ) -> RankBytes:
        return RankBytes(
            parameters=state.parameters,
            gradients=state.gradients,
            optimizer=state.optimizer / group.rank_count,
            copies=state.gradients,
        )

    def traffic(self, profile: Any, group: Group, precision: Precision) -> Traffic:
        size = 4.0 * (0 if profile is None else profile.parameter_count)
        exchanges = tuple(
            Exchange(collective=one, message_bytes=size)
            for one in (Collective.ALL_REDUCE, Collective.ALL_GATHER)
        )
        return Traffic(per_step=Rounds(count=1, exchanges=exchanges), is_known=profile is not None)


class Tensor2(Parallelism):
    """Two workers share each matrix; copies of such pairs all-reduce their gradients."""

    name = "tensor2"
    label = "tensor parallel 2"
    plainness = 4
    is_sharded = True

    def takes(self, group: Group) -> bool:
        return group.rank_count % 2 == 0

    def replicas(self, group: Group) -> int:
        return group.rank_count // 2

    def worker_step(self, work: Any, group: Group) -> Any:
        return replace(work, micro_batch_s=work.micro_batch_s / 2)

    def activation_fraction(self, group: Group) -> float:
        return 0.5

    def traffic(self, profile: Any, group: Group, precision: Precision) -> Traffic:
        pair = Exchange(collective=Collective.ALL_REDUCE, message_bytes=1e6, group=Group(rank_count=2))
        between = Exchange(
            collective=Collective.ALL_REDUCE,
            message_bytes=4e6,
            group=Group(rank_count=group.rank_count // 2, node_count=group.node_count),
        )
        return Traffic(
            per_micro_batch=Rounds(count=4, exchanges=(pair,)), per_step=Rounds(count=1, exchanges=(between,))
        )


class HalfGradients(Technique):
    """DDP's communication hook that sends gradients in bf16."""

    name = "bf16_gradients"
    label = "bf16 gradients"
    short_label = "bf16 gradients"
    plainness = 1
    has_own_numerics = True

    def goes_with(self, parallelism: str, precision: str) -> bool:
        return parallelism == "ddp"

    def traffic(self, traffic: Traffic) -> Traffic:
        halved = tuple(
            replace(one, message_bytes=one.message_bytes / 2) for one in traffic.per_step.exchanges
        )
        return replace(traffic, per_step=replace(traffic.per_step, exchanges=halved))


class TrialFp8(trial_precision.Precision):
    """As a file of trials/modes would have it; here it computes in bf16 and rounds the weights first."""

    name = "fp8"
    dtype = torch.bfloat16

    def prepare(self, step: Step) -> None:
        for one in step.parameters():
            one.data = one.data.bfloat16().float()


class TrialZero1(trial_parallelism.Parallelism):
    """One worker is enough for the test; its optimizer is built by the mode."""

    name = "zero1"

    def refusal(self, context: RankContext) -> str | None:
        return None

    def wrap(self, plan: trial_parallelism.Plan) -> nn.Module:
        return trial_parallelism.on_device(plan)

    def build_optimizer(self, build: Any, step: Step, module: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(module.parameters(), lr=0.0)


class ChannelsLast(trial_technique.Technique):
    """Changes the model before it is wrapped."""

    name = "bf16_gradients"

    def on_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        optimizer.param_groups[0]["lr"] = 0.1
        return optimizer


ROOT = Path(__file__).parent.parent
NAMED_ELSEWHERE = {
    "planner/commands/available_devices.py": {"compile"},  # --compile
    "planner/commands/catalog.py": {"fp32", "tf32", "bf16", "fp16"},  # columns of the chips' figures
    "planner/reports/models.py": {"activation_checkpointing", "compile"},  # older keys of the JSON
    "trials/older.py": {"activation_checkpointing", "compile"},
    "trials/trial.py": {"fp32", "tf32", "bf16", "fp16", "single", "ddp", "fsdp2"},  # names for scripts
}
"""Files outside the modes that name one, each for a reason that a new mode does not share."""
REFERENCES = {"fp32"}  # that numerics are compared with, and traces begin with


@pytest.mark.parametrize("package", ["planner", "trials"])
def test_no_other_product_file_names_a_mode(package: str) -> None:
    registries = (planner_modes.PRECISIONS, planner_modes.PARALLELISMS, planner_modes.TECHNIQUES)
    names = {name for registry in registries for name in registry.names} - REFERENCES
    named = {}
    for file in (ROOT / package).rglob("*.py"):
        if "modes" in file.relative_to(ROOT).parts:
            continue
        constants = {
            one.value for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Constant)
        }
        found = {one for one in constants if isinstance(one, str)} & names
        path = file.relative_to(ROOT).as_posix()
        if found - NAMED_ELSEWHERE.get(path, set()):
            named[path] = found
    assert named == {}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The modes above, as if their files lay beside the others."""
    with ExitStack() as stack:
        for registry, mode in (
            (planner_modes.PRECISIONS, Fp8()),
            (planner_modes.PARALLELISMS, Zero1()),
            (planner_modes.PARALLELISMS, Tensor2()),
            (planner_modes.TECHNIQUES, HalfGradients()),
            (trials_modes.PRECISIONS, TrialFp8()),
            (trials_modes.PARALLELISMS, TrialZero1()),
            (trials_modes.TECHNIQUES, ChannelsLast()),
        ):
            stack.enter_context(registry.holding(mode))  # type: ignore[attr-defined]
        yield


def h100() -> Gpu:
    return load_gpus()[H100]


def admitted(gpu_count: int = 4) -> tuple[Any, ...]:
    return configs_for(make_target(), h100(), gpu_count, 1, make_profile(block_count=4))


def test_the_search_space_has_them_where_they_can_be() -> None:
    configs = admitted()
    assert {"fp8"} < {one.precision for one in configs}
    assert {"zero1", "tensor2"} < {one.parallelism for one in configs}
    assert all(one.global_batch_size == make_target().global_batch_size for one in configs)
    assert {one.workers_per_replica for one in configs if one.parallelism == "tensor2"} == {2}
    assert {one.parallelism for one in configs if "bf16_gradients" in one.techniques} == {"ddp"}
    assert "fp8" not in {
        one.precision
        for one in configs_for(make_target(), make_gpu(bf16_flop_per_s=None), 1, 1, make_profile())
    }
    old = replace(h100(), compute_capability=8.0)
    reasons = {one.knob: one.reason for one in exclusions(old, make_profile())}
    assert reasons["fp8"] == f"{H100} has no fp8 tensor cores"
    assert set(params_of(configs[0])) == set(distributions(load_gpus()))


def test_time_and_memory_are_estimated_by_what_the_file_says() -> None:
    traces = tuple(make_trace(micro_batch_size=size, precision="bf16") for size in (2, 8))
    profile = make_profile(traces=traces, block_count=4)
    measured = make_measurement(make_config(H100, precision="bf16"))
    estimator = fit([measured], gpus=load_gpus(), profile=profile)
    hardware = Hardware(gpu=h100(), link=h100().link)
    plain = make_config(H100, gpu_count=4, precision="bf16", parallelism="ddp", accumulation=1)
    found = {}
    for name, config in {
        "ddp": plain,
        "hook": replace(plain, techniques=("bf16_gradients",)),
        "fp8": replace(plain, precision="fp8"),
        "zero1": replace(plain, parallelism="zero1"),
        "tensor2": replace(plain, parallelism="tensor2", workers_per_replica=2),
    }.items():
        step, peak = (
            estimator.step_time_s(config, hardware),
            estimator.peak_memory_bytes(config, hardware),
        )
        assert step is not None
        assert peak is not None
        assert step.basis is peak.basis is Basis.PREDICTED
        found[name] = (step.low, peak.expected)
    assert found["zero1"][1] < found["ddp"][1]  # of the optimizer's state a quarter
    assert found["zero1"][0] > 0
    assert found["hook"][0] < found["ddp"][0]
    assert found["fp8"][0] < found["ddp"][0]
    assert found["tensor2"][0] < found["ddp"][0]


def test_they_have_words_and_json_in_reports_and_come_back_from_a_study() -> None:
    config = make_config(H100, precision="fp8", parallelism="zero1", techniques=("bf16_gradients",))
    assert labels.techniques(config) == ("fp8", "ZeRO-1", "bf16 gradients")
    assert ConfigJson.model_validate(config).techniques == ("bf16_gradients",)
    assert from_json(to_json(config), type(config), where="here") == config
    tried = replace(config, gpu="L4-24GB")
    report = make_report(outcomes=(make_measurement(tried),), estimator=FakeEstimator(measured=(tried,)))
    assert "ZeRO-1" in to_terminal.render(report, 200, is_coloured=False)
    assert '"zero1"' in report_to_json.render(report)


def test_the_launch_files_run_them() -> None:
    config = make_config(H100, precision="fp8", parallelism="zero1", techniques=("bf16_gradients",))
    run = make_run_plan(config=config)
    text = launch_files(run, h100(), {"model.py": PLAIN}, [], wheel=WHEEL, has_requirements=False).texts[
        "train.py"
    ]
    ast.parse(text)
    for line in ('precision="fp8"', 'parallelism="zero1"', "techniques=('bf16_gradients',)"):
        assert line in text


def test_a_trial_runs_them(tmp_path: Path) -> None:
    settings = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf)
    config = on_cpu(precision="fp8", parallelism="zero1", techniques=("bf16_gradients",))
    outcome = measure(write(tmp_path, PLAIN), config, RankContext(threads=1), settings)
    assert isinstance(outcome, Measurement), outcome
    still = measure(write(tmp_path, PLAIN), replace(config, techniques=()), RankContext(threads=1), settings)
    assert isinstance(still, Measurement)
    assert outcome.losses[0] == still.losses[0]
    assert outcome.losses[:10] != still.losses[:10]  # the technique's learning rate, in the mode's optimizer
