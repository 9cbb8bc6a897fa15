"""What a traced step does in place of the CPU's own operations; on fake tensors, as a trace runs it."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from trials.trace.cuda import cuda_operations
from trials.trace.record import Recorder


@pytest.fixture
def as_cuda():
    recorder = Recorder()
    with FakeTensorMode(), cuda_operations(), recorder:
        yield recorder


def names(recorder: Recorder) -> list[str]:
    return [one.name for one in recorder.operations()]


def autocast(dtype=torch.bfloat16):
    return torch.autocast("cpu", dtype=dtype)


def low(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_run_in_fp32_under_autocast(as_cuda, dtype):
    layer = torch.nn.LayerNorm(8)
    with autocast(dtype):
        assert layer(torch.ones(4, 8, dtype=dtype)).dtype == torch.float32


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (functional.softmax, torch.bfloat16),
        (functional.softmax, torch.float16),
        (functional.log_softmax, torch.float16),
    ],
)
def test_a_softmax_into_fp32_is_one_kernel(as_cuda, function, dtype):
    scores = torch.ones(4, 8, dtype=dtype)
    before = len(names(as_cuda))
    with autocast(dtype):
        assert function(scores, dim=-1).dtype == torch.float32
    assert names(as_cuda)[before:] == [f"aten._{function.__name__}"]


def test_log_softmax_of_bf16_is_fp32(as_cuda):
    with autocast():
        assert functional.log_softmax(low(4, 8), dim=-1).dtype == torch.float32


def test_sums_and_powers_are_accumulated_in_fp32(as_cuda):
    with autocast():
        assert low(4).sum().dtype == torch.float32
        assert (low(4) ** 2).dtype == torch.float32
        assert low(4).exp().dtype == torch.float32


def test_matmuls_run_in_the_low_precision(as_cuda):
    with autocast():
        assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == torch.bfloat16


def test_what_cuda_leaves_alone_stays_as_it_is(as_cuda):
    with autocast():
        assert functional.max_pool3d(low(1, 1, 4, 4, 4), 2).dtype == torch.bfloat16


def test_cross_entropy_takes_its_logits_as_they_are(as_cuda):
    with autocast():
        loss = functional.cross_entropy(low(4, 8), torch.zeros(4, dtype=torch.int64))
    softmax = next(one for one in as_cuda.operations() if one.name == "aten._log_softmax")
    assert (softmax.dtype, loss.dtype) == ("bfloat16", torch.float32)


def test_without_autocast_nothing_is_cast(as_cuda):
    assert functional.layer_norm(low(4, 8), (8,)).dtype == torch.bfloat16


def test_dropout_is_one_kernel_with_a_mask_of_bytes(as_cuda):
    tensor = torch.ones(1000)
    functional.dropout(tensor, 0.1)
    dropout = as_cuda.operations()[-1]
    assert dropout.name == "aten.native_dropout"
    assert dropout.bytes == 1000 * (4 + 4 + 1)


def test_dropout_in_evaluation_is_nothing(as_cuda):
    tensor = torch.ones(10)
    before = names(as_cuda)
    functional.dropout(tensor, 0.1, training=False)
    assert names(as_cuda) == before


def heads(dtype: torch.dtype, count: int = 4) -> torch.Tensor:
    return torch.ones(2, count, 16, 8, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(
    ("dtype", "has_mask", "kernel"),
    [
        (torch.bfloat16, False, "flash"),
        (torch.float16, False, "flash"),
        (torch.float32, False, "efficient"),
        (torch.bfloat16, True, "efficient"),
    ],
)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_attention_is_the_kernel_that_cuda_takes(as_cuda, dtype, has_mask, kernel, dropout):
    mask = torch.ones(16, 16, dtype=torch.bool) if has_mask else None
    query, key, value = (heads(dtype) for _ in range(3))
    output = functional.scaled_dot_product_attention(query, key, value, mask, dropout)
    output.sum().backward()
    found = [name for name in names(as_cuda) if "attention" in name]
    assert found == [
        f"aten._scaled_dot_product_{kernel}_attention",
        f"aten._scaled_dot_product_{kernel}_attention_backward",
    ]
    assert query.grad.shape == key.grad.shape == (2, 4, 16, 8)


def test_a_mask_may_need_a_gradient(as_cuda):
    bias = torch.zeros(1, 4, 16, 16, requires_grad=True)
    query, key, value = (heads(torch.float32) for _ in range(3))
    functional.scaled_dot_product_attention(query, key, value, bias).sum().backward()
    assert bias.grad.shape == bias.shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_grouped_heads_are_attended(as_cuda, dtype):
    query, key, value = heads(dtype), heads(dtype, 2), heads(dtype, 2)
    output = functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    output.sum().backward()
    assert output.shape == query.shape
    assert key.grad.shape == key.shape


def test_attention_of_other_ranks_is_not_fused(as_cuda):
    tokens = torch.ones(2, 16, 8)
    assert functional.scaled_dot_product_attention(tokens, tokens, tokens).shape == (2, 16, 8)
    assert not any("attention" in name for name in names(as_cuda))


def test_afterwards_the_cpu_is_itself_again():
    with cuda_operations():
        pass
    with autocast():
        assert functional.layer_norm(low(4, 8), (8,)).dtype == torch.bfloat16
    dropped = functional.dropout(torch.ones(1000), 0.5)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    tokens = torch.randn(1, 2, 5, 8)
    attended = functional.scaled_dot_product_attention(tokens, tokens, tokens)
    expected = torch.softmax(tokens @ tokens.transpose(-1, -2) / 8**0.5, -1) @ tokens
    torch.testing.assert_close(attended, expected)
