"""Nodes as work: which sizes a node's shapes make, and what costs nothing but its dispatch."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from placesim.core.dtypes import DOUBLE, FLOAT, HALF, DataType
from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction.node_work import NodeShapes, arithmetic_of, node_work
from placesim.prediction.processors import gpu_processor
from placesim.prediction.work_amounts import Convolution, Product, RecurrentLayer, Rows, StreamedBytes, Work

K80 = gpu_processor(GPU_MODELS["Tesla K80"])
A100 = gpu_processor(GPU_MODELS["A100-SXM4-40GB"])
Dims = tuple[int, ...]


def work_of(
    op: str,
    inputs: list[Dims],
    outputs: list[Dims],
    attrs: dict[str, Any] | None = None,
    dtype: DataType = FLOAT,
    operations: int = 0,
) -> Work | None:
    moved = dtype.size * sum(map(prod, (*inputs, *outputs)))
    return node_work(NodeShapes(op, attrs or {}, inputs, outputs, dtype, operations, moved), K80)


@pytest.mark.parametrize("op", ["Identity", "Reshape", "Squeeze", "Switch", "Const", "Placeholder", "_Recv", "ReadVariableOp"])
def test_what_renames_a_buffer_is_no_work(op: str) -> None:
    assert work_of(op, [(4, 4)], [(4, 4)]) is None


def test_a_node_without_elements_is_no_work() -> None:
    assert work_of("Add", [(0, 4), (0, 4)], [(0, 4)]) is None


@pytest.mark.parametrize(
    ("left", "right", "attrs"),
    [
        ((3, 5), (5, 7), {"transpose_a": False, "transpose_b": False}),
        ((5, 3), (5, 7), {"transpose_a": True, "transpose_b": False}),
        ((3, 5), (7, 5), {"transpose_a": False, "transpose_b": True}),
    ],
)
def test_a_product_knows_its_transposed_sides(left: Dims, right: Dims, attrs: dict[str, bool]) -> None:
    found = work_of("MatMul", [left, right], [(3, 7)], attrs)
    assert isinstance(found, Product)
    assert (found.batch, found.rows, found.columns, found.depth) == (1, 3, 7, 5)


def test_a_batch_of_products_is_broadcast() -> None:
    found = work_of("BatchMatMulV2", [(6, 1, 3, 5), (1, 4, 5, 7)], [(6, 4, 3, 7)], {"adj_x": False, "adj_y": False})
    assert isinstance(found, Product)
    assert (found.batch, found.operations) == (24, 2 * 24 * 3 * 5 * 7)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_convolution_and_its_gradients(layout: str) -> None:
    def placed(n: int, c: int, h: int, w: int) -> Dims:
        return (n, h, w, c) if layout == "NHWC" else (n, c, h, w)

    images, results, filters = placed(8, 32, 28, 30), placed(8, 64, 14, 15), (5, 3, 32, 64)
    attrs = {"data_format": layout, "strides": placed(1, 1, 2, 2)}
    expected = Convolution(8, 32, 28, 30, 64, 5, 3, 2, 2, 14, 15)
    apart = layout == "NCHW"
    found = work_of("Conv2D", [images, filters], [results], attrs)
    assert found == expected.work("forward", "float32", 4, has_channels_apart=apart)
    back = work_of("Conv2DBackpropInput", [(4,), filters, results], [images], attrs)
    assert back == expected.work("input gradient", "float32", 4, has_channels_apart=apart)
    filter_gradient = work_of("Conv2DBackpropFilter", [images, (4,), results], [filters], attrs)
    assert filter_gradient == expected.work("filter gradient", "float32", 4, has_channels_apart=apart)
    assert isinstance(found, Product)
    assert found.rearranged_bytes == (4 * (8 * 32 * 28 * 30 + 8 * 64 * 14 * 15) if apart else 0)


@pytest.mark.parametrize(
    ("filters", "stride", "is_winograd"), [(3, 1, True), (2, 1, False), (5, 1, False), (1, 1, False), (3, 2, False)]
)
def test_fewer_multiplications_are_for_three_by_three_filters_that_skip_nothing(
    filters: int, stride: int, is_winograd: bool
) -> None:
    side = 12 // stride
    attrs = {"data_format": "NHWC", "strides": (1, stride, stride, 1)}
    found = work_of("Conv2D", [(2, 12, 12, 8), (filters, filters, 8, 16)], [(2, side, side, 16)], attrs)
    assert isinstance(found, Product)
    assert found.is_winograd == is_winograd


def test_normalization_without_statistics_is_elementwise() -> None:
    dims: list[Dims] = [(8, 5, 5, 64), (64,), (64,), (64,), (64,)]
    made = [dims[0], *[(64,)] * 5]
    for training, family in ((True, "batch normalization"), (False, "elementwise")):
        found = work_of("FusedBatchNormV3", dims, made, {"is_training": training})
        assert found is not None
        assert found.family == family


def test_each_channel_of_a_depthwise_convolution_is_a_group() -> None:
    attrs = {"data_format": "NHWC", "strides": (1, 1, 1, 1)}
    found = work_of("DepthwiseConv2dNative", [(2, 10, 10, 16), (3, 3, 16, 2)], [(2, 10, 10, 32)], attrs)
    assert found == Convolution(2, 16, 10, 10, 32, 3, 3, 1, 1, 10, 10, 16).work("forward", "float32", 4)
    assert isinstance(found, Product)
    assert found.operations == 2 * 2 * 10 * 10 * 32 * 9


def test_a_volume_is_an_image_of_all_its_slices() -> None:
    attrs = {"data_format": "NDHWC", "strides": (1, 1, 2, 2, 1)}
    found = work_of("Conv3D", [(1, 4, 8, 8, 3), (3, 3, 3, 3, 5)], [(1, 4, 4, 4, 5)], attrs)
    assert isinstance(found, Product)
    assert found.operations == 2 * 4 * 4 * 4 * 5 * 27 * 3


def test_softmax_has_rows() -> None:
    assert work_of("Softmax", [(6, 4, 100)], [(6, 4, 100)], dtype=HALF) == Rows("softmax", 24, 100, 2)


def test_a_gather_reads_no_more_of_its_table_than_it_takes() -> None:
    found = work_of("GatherV2", [(1_000_000, 64), (10,), ()], [(10, 64)])
    assert isinstance(found, StreamedBytes)
    assert found.moved_bytes < 3 * 10 * 64 * 4


def test_an_lstm_has_four_gates() -> None:
    shapes = [(), (20, 8, 32), (8, 64), (8, 64), (96, 256), (64,), (64,), (64,), (256,)]
    found = work_of("BlockLSTM", shapes, [(20, 8, 64)] * 7)
    assert found == RecurrentLayer("recurrent forward", 4, 64, 8, 20, "float32", 4)


def test_an_op_without_a_formula_is_its_bytes_or_its_operations() -> None:
    assert work_of("Einsum", [(8, 8)], [(8, 8)], operations=100) == StreamedBytes("elementwise", 512.0)
    found = work_of("Einsum", [(512, 512), (512, 512)], [(512, 512)], operations=2 * 512**3)
    assert isinstance(found, Product)
    assert found.operations == 2 * 512**3


def test_float32_is_tf32_where_there_are_cores_for_it() -> None:
    assert [arithmetic_of(FLOAT, processor) for processor in (K80, A100)] == ["float32", "tf32"]
    assert arithmetic_of(DOUBLE, A100) == "float64"
