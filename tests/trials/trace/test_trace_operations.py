import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from trials.profile import Operation, OperationClass
from trials.trace.lists import kernel_count
from trials.trace.operations import class_of
from trials.trace.record import Recorder

FLOAT = 4


def record(function) -> tuple[Operation, ...]:
    recorder = Recorder()
    with recorder:
        function()
    return recorder.operations()


def only(operations: tuple[Operation, ...]) -> Operation:
    (operation,) = operations
    return operation


def test_a_matmul_is_batch_m_n_k():
    left, right = torch.ones(3, 5), torch.ones(5, 7)
    operation = only(record(lambda: left @ right))
    assert operation.kind is OperationClass.MATMUL
    assert operation.shape == (1, 3, 7, 5)
    assert operation.flops == 2 * 3 * 5 * 7
    assert operation.bytes == FLOAT * (15 + 35 + 21)


def test_a_batched_matmul_counts_its_batch():
    left, right = torch.ones(2, 3, 5), torch.ones(2, 5, 7)
    operation = only(record(lambda: torch.bmm(left, right)))
    assert operation.shape == (2, 3, 7, 5)
    assert operation.flops == 2 * 2 * 3 * 5 * 7


def test_a_linear_layer_is_one_product_forward_and_two_backward():
    layer, rows = torch.nn.Linear(5, 7), torch.ones(3, 5, requires_grad=True)
    operations = record(lambda: layer(rows).sum().backward())
    products = {one.shape for one in operations if one.kind is OperationClass.MATMUL}
    assert products == {(1, 3, 7, 5), (1, 3, 5, 7), (1, 7, 5, 3)}


def test_equal_kernels_are_one_operation_with_a_count():
    tensor = torch.ones(8)
    operation = only(record(lambda: [tensor + 1 for _ in range(5)]))
    assert operation.count == 5


def test_views_and_allocations_are_no_kernels():
    tensor = torch.ones(4, 6)
    assert record(lambda: (tensor.t(), tensor.view(24), tensor[1:], tensor.detach(), torch.empty(9))) == ()


def test_an_operation_in_place_reads_and_writes():
    tensor, other = torch.ones(10), torch.ones(10)
    assert only(record(lambda: tensor.add_(other))).bytes == 3 * 10 * FLOAT


def test_what_only_writes_counts_once():
    tensor = torch.ones(10)
    assert only(record(lambda: tensor.fill_(2.0))).bytes == 10 * FLOAT


def test_a_copy_reads_its_source_and_writes_its_target():
    tensor, other = torch.ones(10), torch.ones(10, dtype=torch.float64)
    assert only(record(lambda: tensor.copy_(other))).bytes == 10 * FLOAT + 10 * 8


def test_a_tensor_given_twice_is_read_once():
    tensor = torch.ones(10)
    assert only(record(lambda: tensor * tensor)).bytes == 2 * 10 * FLOAT


def test_broadcast_dimensions_are_stored_once():
    tensor, row = torch.ones(100, 10), torch.ones(10)
    assert only(record(lambda: tensor * row.expand(100, 10))).bytes == FLOAT * (1000 + 10 + 1000)


def test_an_embedding_reads_the_rows_it_takes():
    table, ids = torch.ones(10_000, 16), torch.zeros(3, dtype=torch.int64)
    assert only(record(lambda: functional.embedding(ids, table))).bytes == 2 * 3 * 16 * FLOAT + 3 * 8


def test_the_three_products_of_a_convolution_have_equal_flops():
    layer = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1)
    images = torch.ones(2, 8, 10, 12, requires_grad=True)
    operations = record(lambda: layer(images).sum().backward())
    convolutions = [one for one in operations if one.kind is OperationClass.CONVOLUTION]
    assert [one.name for one in convolutions] == [
        "aten.convolution",
        "aten.convolution_backward.input",
        "aten.convolution_backward.weight",
    ]
    assert {one.flops for one in convolutions} == {2 * 2 * 5 * 6 * 16 * 8 * 9}
    assert {one.shape for one in convolutions} == {(2, 8, 16, 1, 10, 12, 5, 6, 3, 3, 2, 2)}


def test_a_depthwise_convolution_is_divided_by_its_groups_backward_too():
    layer = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
    images = torch.ones(1, 8, 6, 6, requires_grad=True)
    operations = record(lambda: layer(images).sum().backward())
    convolutions = [one for one in operations if one.kind is OperationClass.CONVOLUTION]
    assert {one.flops for one in convolutions} == {2 * 36 * 8 * 9}


@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_count_as_torch_counts_them(transposed):
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    layer, images = kind(4, 6, 3, stride=2), torch.ones(2, 4, 9, 9, requires_grad=True)
    operations = record(lambda: layer(images).sum().backward())
    with FlopCounterMode(display=False) as counter:
        layer(images).sum().backward()
    assert sum(one.flops * one.count for one in operations) == counter.get_total_flops()


def test_a_transformer_layer_counts_as_torch_counts_it():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    tokens = torch.ones(3, 5, 16)
    operations = record(lambda: layer(tokens).sum().backward())
    with FlopCounterMode(display=False) as counter:
        layer(tokens).sum().backward()
    assert sum(one.flops * one.count for one in operations) == counter.get_total_flops() > 0


def test_attention_counts_two_products_forward_and_five_backward():
    query = torch.ones(2, 4, 6, 8, requires_grad=True)
    key, value = torch.ones(2, 4, 10, 8), torch.ones(2, 4, 10, 8)
    operations = record(lambda: functional.scaled_dot_product_attention(query, key, value).sum().backward())
    forward, backward = (one for one in operations if one.kind is OperationClass.ATTENTION)
    assert forward.shape == backward.shape == (2, 4, 6, 10, 8, 4)
    product = 2 * 2 * 4 * 6 * 10 * 8
    assert (forward.flops, backward.flops) == (2 * product, 5 * product)


def test_an_optimizer_over_lists_moves_what_its_arithmetic_needs():
    parameter = torch.nn.Parameter(torch.ones(1000))
    parameter.grad = torch.ones(1000)
    optimizer = torch.optim.SGD([parameter], lr=0.1, foreach=True)
    operation = only(record(optimizer.step))
    assert operation.name == "aten._foreach_add_"
    assert operation.shape == (1, 1000)
    assert operation.bytes == 3 * 1000 * FLOAT


@pytest.mark.parametrize(
    ("sizes", "lists", "count"),
    [
        ([10], 1, 1),
        ([10] * 111, 1, 2),
        ([10] * 100, 4, 3),
        ([65_536 * 321], 2, 2),
        ([65_536 * 10] * 64, 2, 2),
    ],
)
def test_long_lists_and_large_tensors_need_several_kernels(sizes, lists, count):
    assert kernel_count(sizes, list_count=lists) == count


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("native_layer_norm_backward", OperationClass.NORMALISATION),
        ("_log_softmax_backward_data", OperationClass.SOFTMAX),
        ("embedding_dense_backward", OperationClass.EMBEDDING),
        ("gelu_backward", OperationClass.ELEMENTWISE),
        ("slice_backward", OperationClass.COPY),
        ("an_unknown_one", OperationClass.OTHER),
    ],
)
def test_operations_are_classed_by_name(name, kind):
    assert class_of(name, is_pointwise=False) is kind
