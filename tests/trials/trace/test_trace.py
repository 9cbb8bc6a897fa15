from math import prod
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from trials.errors import TrialsError
from trials.model_file.source import hash_workload
from trials.model_file.workload import load
from trials.profile import OperationClass, Trace, TraceMode
from trials.trace.tracing import Built, trace_built, trace_step, trace_workload
from trials.trial import Precision

EXAMPLES = Path(__file__).parents[3] / "examples"
FLOAT = 4
BATCH, TOKENS, WIDTH, DEPTH, VOCABULARY = 4, 32, 64, 3, 128


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 3 * WIDTH)
        self.outer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        heads = self.inner(self.norm(x)).view(*x.shape[:2], 3, 4, WIDTH // 4)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + self.outer(mixed.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def build_transformer(clip_norm: float | None = None) -> Built:
    model = Transformer()
    return Built(
        module=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        batch=torch.randint(VOCABULARY, (BATCH, TOKENS)),
        clip_norm=clip_norm,
    )


def traced(build=build_transformer, **changes) -> Trace:
    return trace_built(build, micro_batch_size=BATCH, **changes)


@pytest.fixture(scope="module")
def training() -> Trace:
    return traced()


def flops_of(trace: Trace, kind: OperationClass) -> float:
    return sum(one.flops * one.count for one in trace.operations if one.kind is kind)


def multiplied_parameters() -> int:
    return DEPTH * 4 * WIDTH * WIDTH + WIDTH * VOCABULARY


def test_matmul_flops_are_six_per_parameter_and_token(training):
    assert flops_of(training, OperationClass.MATMUL) == 6 * multiplied_parameters() * BATCH * TOKENS


def test_attention_flops_are_seven_products(training):
    assert flops_of(training, OperationClass.ATTENTION) == 7 * DEPTH * 2 * BATCH * TOKENS * TOKENS * WIDTH


def test_parameters_gradients_and_moments(training):
    norms = DEPTH * 2 * WIDTH
    biases = DEPTH * 4 * WIDTH + VOCABULARY
    count = multiplied_parameters() + norms + biases + VOCABULARY * WIDTH
    assert training.parameter_bytes == FLOAT * count
    assert training.gradient_bytes == training.parameter_bytes
    assert training.optimizer_bytes == 2 * training.parameter_bytes
    assert training.batch_bytes == 8 * BATCH * TOKENS


def test_the_peak_holds_the_state_and_keeping_gradients_adds_to_it(training):
    state = training.parameter_bytes + training.optimizer_bytes
    assert training.peak_bytes > state + training.gradient_bytes
    assert training.peak_bytes < training.peak_accumulating_bytes
    assert training.peak_accumulating_bytes == max(training.passes_bytes, training.update_bytes)
    assert training.peak_accumulating_bytes <= training.peak_bytes + training.gradient_bytes


def test_matmuls_know_their_shapes_forward_and_backward(training):
    rows = BATCH * TOKENS
    shapes = {one.shape for one in training.operations if one.kind is OperationClass.MATMUL}
    assert (1, rows, 3 * WIDTH, WIDTH) in shapes
    assert (1, rows, WIDTH, 3 * WIDTH) in shapes
    assert (1, 3 * WIDTH, WIDTH, rows) in shapes
    for one in training.operations:
        if one.kind is OperationClass.MATMUL:
            assert one.flops == 2 * prod(one.shape)


def test_checkpointing_repeats_the_forward_pass_of_blocks_and_saves_memory(training):
    from torch.utils.checkpoint import checkpoint

    def build() -> Built:
        built = build_transformer()
        for block in built.module.blocks:
            block.forward = lambda x, run=block.forward: checkpoint(run, x, use_reentrant=False)
        return built

    trace = traced(build, techniques=("activation_checkpointing",))
    again = 2 * DEPTH * 4 * WIDTH * WIDTH * BATCH * TOKENS
    repeated = flops_of(trace, OperationClass.MATMUL) - flops_of(training, OperationClass.MATMUL)
    # the output of a block's last layer is not needed again, so the recomputation may stop before it
    assert again * 3 / 4 <= repeated <= again
    assert trace.peak_bytes < training.peak_bytes
    assert "activation_checkpointing" in trace.techniques


@pytest.mark.parametrize(("precision", "dtype"), [(Precision.BF16, "bfloat16"), (Precision.FP16, "float16")])
def test_autocast_multiplies_in_the_low_precision_and_keeps_fp32_state(training, precision, dtype):
    trace = traced(precision=precision)
    assert {one.dtype for one in trace.operations if one.kind is OperationClass.MATMUL} == {dtype}
    assert {one.dtype for one in trace.operations if one.kind is OperationClass.NORMALISATION} == {"float32"}
    assert trace.flops == training.flops
    assert trace.optimizer_bytes == training.optimizer_bytes
    assert "aten._scaled_dot_product_flash_attention" in {one.name for one in trace.operations}


def test_fp16_unscales_its_gradients():
    names = {one.name for one in traced(precision=Precision.FP16).operations}
    assert "aten._amp_foreach_non_finite_check_and_unscale_" in names


def test_clipping_reads_every_gradient(training):
    def norms(trace: Trace) -> list[str]:
        return [
            one.name
            for one in trace.operations
            if "norm" in one.name and one.kind is OperationClass.OPTIMIZER
        ]

    assert not norms(training)
    assert norms(traced(lambda: build_transformer(clip_norm=1.0)))


def test_inference_is_a_third_of_the_products_and_needs_no_state(training):
    trace = traced(mode=TraceMode.INFERENCE)
    assert flops_of(trace, OperationClass.MATMUL) == flops_of(training, OperationClass.MATMUL) / 3
    assert (trace.gradient_bytes, trace.optimizer_bytes) == (0, 0)
    assert not any("backward" in one.name for one in trace.operations)


def test_gradients_alone_are_added_to_those_before(training):
    trace = traced(mode=TraceMode.GRADIENTS)
    assert flops_of(trace, OperationClass.MATMUL) == flops_of(training, OperationClass.MATMUL)
    assert not any(one.kind is OperationClass.OPTIMIZER for one in trace.operations)
    added = [one for one in trace.operations if one.name == "aten.add_"]
    parameter_count = len(list(Transformer().parameters()))
    assert sum(one.count for one in added) == parameter_count


def test_the_cpu_takes_its_own_operations():
    def build() -> Built:
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
        module = WithSum(model)
        return Built(module=module, optimizer=torch.optim.SGD(model.parameters()), batch=torch.ones(2, 8))

    as_cuda = {one.name for one in traced(build).operations}
    as_cpu = {one.name for one in traced(build, is_cuda=False).operations}
    assert "aten.native_dropout" in as_cuda - as_cpu
    assert "aten.bernoulli_" in as_cpu - as_cuda


def test_an_lstm_shows_its_products():
    def build() -> Built:
        module = Recurrent()
        return Built(module=module, optimizer=None, batch=torch.ones(2, 16, 8))

    products = 2 * 16 * 2 * (4 * 8) * (8 + 8)
    unneeded = 2 * 2 * (4 * 8) * 8 + 2 * 16 * 2 * (4 * 8) * 8  # gradients of the first state and of the batch
    trace = traced(build, mode=TraceMode.GRADIENTS)
    assert 3 * products - unneeded <= flops_of(trace, OperationClass.MATMUL) <= 3 * products


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, batch):
        return self.lstm(batch)[0].sum()


class WithSum(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch):
        return self.model(batch).sum()


def test_a_model_larger_than_memory_is_traced():
    side = 2**20  # a matrix of 4 TiB

    def build() -> Built:
        module = WithSum(nn.Linear(side, side))
        return Built(
            module=module, optimizer=torch.optim.AdamW(module.parameters()), batch=torch.ones(1, side)
        )

    trace = traced(build)
    assert trace.parameter_bytes == FLOAT * (side * side + side)
    assert trace.peak_bytes > 4 * trace.parameter_bytes


def test_a_model_that_can_only_be_built_for_real_is_made_fake_afterwards():
    def build() -> Built:
        layer = nn.Linear(4, 4)
        layer.weight.data = torch.tensor(layer.weight.tolist())  # reads values: impossible with fake tensors
        tied = nn.Linear(4, 4)
        tied.weight = layer.weight
        module = WithSum(nn.Sequential(layer, nn.BatchNorm1d(4), tied))
        return Built(module=module, optimizer=torch.optim.AdamW(module.parameters()), batch=torch.randn(2, 4))

    trace = traced(build)
    assert trace.is_fake
    assert trace.parameter_bytes == FLOAT * (16 + 4 + 4 + 8)
    assert trace.optimizer_bytes == 2 * trace.parameter_bytes
    assert flops_of(trace, OperationClass.MATMUL) > 0


class Looking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, batch):
        loss = self.layer(batch).square().sum()
        return loss * 2 if loss.item() > 0 else loss


def test_a_model_that_looks_at_values_is_refused_with_the_reason():
    def build() -> Built:
        return Built(module=Looking(), optimizer=None, batch=torch.ones(2, 4))

    with pytest.raises(TrialsError, match="looks at the values of tensors"):
        traced(build)


def test_a_step_without_a_scalar_loss_is_refused():
    with pytest.raises(TrialsError, match="scalar loss"):
        traced(lambda: Built(module=nn.Linear(4, 4), optimizer=None, batch=torch.ones(2, 4)))


def test_an_error_of_the_model_is_told():
    with pytest.raises(TrialsError, match=r"RuntimeError: .*dim"):
        traced(lambda: Built(module=nn.Linear(4, 4), optimizer=None, batch=torch.ones(2, 5)))


def workload(file: Path):
    return load(hash_workload(file))


@pytest.mark.parametrize("name", ["gpt", "convnet", "hugging_face", "lightning_module"])
def test_examples_are_traced(name):
    outcome = trace_workload(workload(EXAMPLES / f"{name}.py"), micro_batch_sizes=(2,))
    assert outcome.note == ""
    assert [(one.precision, ("activation_checkpointing" in one.techniques)) for one in outcome.traces] == [
        (Precision.FP32, False),
        (Precision.FP32, True),
        (Precision.BF16, False),
        (Precision.BF16, True),
    ]
    plain, checkpointed = outcome.traces[:2]
    assert checkpointed.flops > plain.flops > 0
    assert plain.is_fake


def test_a_workload_costs_twice_the_flops_for_twice_the_batch():
    loaded = workload(EXAMPLES / "gpt.py")
    once, twice = (trace_step(loaded, micro_batch_size=size, precision=Precision.FP32) for size in (2, 4))
    assert twice.flops == 2 * once.flops
    assert twice.kernel_count == once.kernel_count
    assert twice.parameter_bytes == once.parameter_bytes


MODEL_FILE = """
import torch
from torch import nn

def batch(size):
    return torch.ones(size, 4)

def loss(model, batch):
    found = model(batch).square().mean()
    {line}
    return found

def model():
    return nn.Linear(4, 4)
"""


def write(folder: Path, line: str) -> Path:
    file = folder / "model.py"
    file.write_text(MODEL_FILE.format(line=line))
    return file


def test_where_a_trace_is_impossible_one_real_step_is_recorded_and_it_says_so(tmp_path):
    outcome = trace_workload(workload(write(tmp_path, "assert found.item() >= 0")))
    (trace,) = outcome.traces
    assert not trace.is_fake
    assert trace.micro_batch_size == 2
    assert flops_of(trace, OperationClass.MATMUL) > 0
    assert "looks at the values of tensors" in outcome.note
    assert "one real CPU step at batch size 2" in outcome.note


def test_where_the_real_step_fails_too_there_is_no_trace(tmp_path):
    outcome = trace_workload(workload(write(tmp_path, "raise ValueError('broken')")))
    assert outcome.traces == ()
    assert "broken" in outcome.note


def test_what_the_workload_refuses_is_left_out_and_named(tmp_path):
    outcome = trace_workload(workload(write(tmp_path, "pass")), micro_batch_sizes=(2,))
    assert [("activation_checkpointing" in one.techniques) for one in outcome.traces] == [False, False]
    assert "no repeated blocks" in outcome.note
