"""Nodes as work: which sizes a node's shapes make, and what costs nothing but its dispatch."""

from __future__ import annotations

from math import prod
from typing import Any, get_args

import pytest

from placesim.core.dtypes import BFLOAT16, DOUBLE, FLOAT, HALF, INT32, QINT8, QUINT8, DataType
from placesim.machine.gpu_models import GPU_MODELS
from placesim.ops.kernels import load_kernels
from placesim.prediction.node_shapes import kernel_shapes
from placesim.prediction.node_work import NodeShapes, arithmetic_of, node_work
from placesim.prediction.processors import gpu_processor
from placesim.prediction.work_amounts import (
    HALF_FILTER_READS,
    Convolution,
    Direction,
    Product,
    RecurrentLayer,
    Rows,
    StreamedBytes,
    Work,
)

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
    ("left", "right", "attrs", "crosswise"),
    [
        ((3, 5), (5, 7), {"transpose_a": False, "transpose_b": False}, 1),
        ((5, 3), (5, 7), {"transpose_a": True, "transpose_b": False}, 2),
        ((3, 5), (7, 5), {"transpose_a": False, "transpose_b": True}, 0),
    ],
)
def test_a_product_knows_its_transposed_sides(left: Dims, right: Dims, attrs: dict[str, bool], crosswise: int) -> None:
    found = work_of("MatMul", [left, right], [(3, 7)], attrs)
    assert isinstance(found, Product)
    assert (found.batch, found.rows, found.columns, found.depth, found.crosswise) == (1, 3, 7, 5, crosswise)


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


def test_a_volume_is_an_image_of_all_its_slices() -> None:
    attrs = {"data_format": "NDHWC", "strides": (1, 1, 2, 2, 1)}
    found = work_of("Conv3D", [(1, 4, 8, 8, 3), (3, 3, 3, 3, 5)], [(1, 4, 4, 4, 5)], attrs)
    assert isinstance(found, Product)
    assert found.operations == 2 * 4 * 4 * 4 * 5 * 27 * 3


def test_images_are_transformed_and_volumes_are_not() -> None:
    image = work_of("Conv2D", [(1, 8, 8, 3), (5, 5, 3, 4)], [(1, 8, 8, 4)], {"data_format": "NHWC", "strides": (1,) * 4})
    volume_attrs = {"data_format": "NDHWC", "strides": (1,) * 5}
    volume = work_of("Conv3D", [(1, 4, 8, 8, 3), (5, 5, 5, 3, 4)], [(1, 4, 8, 8, 4)], volume_attrs)
    assert isinstance(image, Product)
    assert isinstance(volume, Product)
    assert image.fourier is not None
    assert volume.fourier is None


def test_a_reduction_along_the_last_axes_has_rows() -> None:
    for results in ((2, 8), (2, 8, 1, 1)):
        found = work_of("Mean", [(2, 8, 4, 5), (2,)], [results], dtype=HALF)
        assert found == Rows("reduction of rows", 16, 20, 2)


def test_softmax_has_rows() -> None:
    assert work_of("Softmax", [(6, 4, 100)], [(6, 4, 100)], dtype=HALF) == Rows("softmax", 24, 100, 2)


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


def test_types_have_their_arithmetic() -> None:
    found = {dtype.name: arithmetic_of(dtype, K80) for dtype in (DOUBLE, HALF, BFLOAT16, QINT8, QUINT8, INT32, FLOAT)}
    assert list(found.values()) == ["float64", "float16", "bfloat16", "int8", "int8", "float32", "float32"]
    assert [arithmetic_of(dtype, A100) for dtype in (INT32, HALF)] == ["tf32", "float16"]


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "family"),
    [
        ("MaxPool", [(2, 8, 8, 4)], [(2, 4, 4, 4)], "pooling"),
        ("MaxPoolGrad", [(2, 8, 8, 4), (2, 4, 4, 4), (2, 4, 4, 4)], [(2, 8, 8, 4)], "pooling gradient"),
        ("AvgPoolGrad", [(4,), (2, 4, 4, 4)], [(2, 8, 8, 4)], "pooling gradient"),
        ("FusedBatchNormGradV3", [(8, 4)] * 2 + [(4,)] * 4, [(8, 4), (4,), (4,)], "batch normalization gradient"),
        ("AddV2", [(8, 4), (8, 4)], [(8, 4)], "elementwise"),
        ("Mul", [(8, 4), ()], [(8, 4)], "elementwise"),
        ("Sum", [(8, 4), (1,)], [(4,)], "reduction"),
        ("Sum", [(8, 4), (2,)], [()], "reduction"),
    ],
)
def test_what_streams_has_its_family_and_all_its_bytes(op: str, inputs: list[Dims], outputs: list[Dims], family: str) -> None:
    assert work_of(op, inputs, outputs) == StreamedBytes(family, 4.0 * sum(map(prod, (*inputs, *outputs))))


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "family"),
    [
        ("BiasAdd", [(8, 64), (64,)], [(8, 64)], "indexed"),
        ("ConcatV2", [(8, 4), (8, 6), ()], [(8, 10)], "indexed"),
        ("Transpose", [(8, 4, 6), (3,)], [(4, 8, 6)], "indexed"),
        ("Transpose", [(8, 6, 6), (3,)], [(6, 8, 6)], "indexed"),
    ],
)
def test_a_stream_finds_places_in_operands_of_other_dims(op: str, inputs: list[Dims], outputs: list[Dims], family: str) -> None:
    moved = 4.0 * sum(map(prod, (*inputs, *outputs)))
    assert work_of(op, inputs, outputs) == StreamedBytes(family, moved, float(prod(outputs[0])))


def test_what_computes_more_than_eight_operations_a_byte_is_a_product_of_as_many() -> None:
    moved = 4 * (100 + 50)
    assert work_of("Einsum", [(100,)], [(50,)], operations=8 * moved) == StreamedBytes("indexed", float(moved), 50.0)
    # seven by seven results, of 4801 operations in sums of 48 terms
    expected = Product("product", 1, 7, 7, 48, "float32", 4, float(moved))
    assert work_of("Einsum", [(100,)], [(50,)], operations=8 * moved + 1) == expected
    few = Product("product", 1, 1, 1, 100, "float64", 8, 24.0)
    assert work_of("Einsum", [(2,)], [()], dtype=DOUBLE, operations=200) == few


def test_a_product_of_nothing_is_its_bytes() -> None:
    found = work_of("MatMul", [(0, 4), (4, 5)], [(0, 5)], {"transpose_a": False, "transpose_b": False})
    assert found == StreamedBytes("elementwise", 80.0)


def test_a_product_knows_its_bytes_and_whether_its_sides_come_in_sixteen_bytes() -> None:
    for columns, depth, is_aligned in ((16, 24, True), (12, 20, True), (14, 24, False), (16, 18, False)):
        found = work_of(
            "BatchMatMulV2", [(6, 5, depth), (6, columns, depth)], [(6, 5, columns)], {"adj_x": False, "adj_y": True}
        )
        moved = 4.0 * 6 * (5 * depth + depth * columns + 5 * columns)
        assert found == Product("product", 6, 5, columns, depth, "float32", 4, moved, is_aligned=is_aligned)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "is_aligned"),
    [(16, 24, 32, True), (16, 24, 35, True), (17, 24, 32, False), (16, 25, 32, False)],
)
def test_a_product_of_a_transposed_matrix_is_aligned_by_its_rows(rows: int, columns: int, depth: int, is_aligned: bool) -> None:
    # both operands are [depth, ...] in memory, so the depth need not be a multiple of eight: the gradient of weights
    shapes: list[Dims] = [(depth, rows), (depth, columns)]
    found = work_of("MatMul", shapes, [(rows, columns)], {"transpose_a": True, "transpose_b": False})
    assert isinstance(found, Product)
    assert found.is_aligned == is_aligned


def test_narrower_elements_are_aligned_in_larger_numbers() -> None:
    """Multiples of 16 bytes: 4 of float32, 8 of float16, 16 of int8."""
    for dtype, size in ((FLOAT, 4), (HALF, 8), (QINT8, 16)):
        products = [
            work_of("MatMul", [(3, side), (side, side)], [(3, side)], {}, dtype) for side in (size, 3 * size, size // 2)
        ]
        assert [isinstance(product, Product) and product.is_aligned for product in products] == [True, True, False]


IMAGES, FILTERS, RESULTS = (2, 9, 12, 16), (3, 4, 16, 24), (2, 5, 4, 24)
STRIDED = {"data_format": "NHWC", "strides": (1, 2, 3, 1)}
PIXELS, CONVOLVED = 2 * 5 * 4, 4.0 * (2 * 9 * 12 * 16 + 3 * 4 * 16 * 24 + 2 * 5 * 4 * 24)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "expected"),
    [
        ("Conv2D", [IMAGES, FILTERS], [RESULTS], ("forward", 1, PIXELS, 24, 16 * 12)),
        # six phases, the largest of which has two of three rows and two of four columns of the filter
        ("Conv2DBackpropInput", [(4,), FILTERS, RESULTS], [IMAGES], ("input gradient", 1, PIXELS, 16 * 6, 24 * 4)),
        ("Conv2DBackpropFilter", [IMAGES, (4,), RESULTS], [FILTERS], ("filter gradient", 1, 24, 16 * 12, PIXELS)),
    ],
)
def test_a_convolution_is_a_product_with_patches(
    op: str, inputs: list[Dims], outputs: list[Dims], expected: tuple[str, int, int, int, int]
) -> None:
    direction, batch, rows, columns, depth = expected
    found = Product(f"convolution {direction}", batch, rows, columns, depth, "float32", 4, CONVOLVED)
    assert work_of(op, inputs, outputs, STRIDED) == found


def test_groups_are_convolved_by_themselves() -> None:
    attrs = {"data_format": "NHWC", "strides": (1, 1, 1, 1)}
    found = work_of("Conv2D", [(2, 9, 12, 32), (3, 3, 8, 64)], [(2, 9, 12, 64)], attrs)
    assert isinstance(found, Product)
    assert (found.batch, found.rows, found.columns, found.depth) == (4, 2 * 9 * 12, 16, 8 * 9)
    assert (found.is_winograd, found.is_aligned) == (False, True)
    assert found.moved_bytes == 4 * (2 * 9 * 12 * 32 + 64 * 8 * 9 + 2 * 9 * 12 * 64)


def test_each_result_of_a_depthwise_convolution_reads_as_many_elements_as_its_filter_has() -> None:
    images, filters, made = (2, 9, 12, 16), (3, 3, 16, 2), (2, 9, 12, 32)
    moved = 4.0 * (prod(images) + prod(filters) + prod(made))
    cases: list[tuple[str, list[Dims], list[Dims]]] = [
        ("DepthwiseConv2dNative", [images, filters], [made]),
        ("DepthwiseConv2dNativeBackpropInput", [(4,), filters, made], [images]),
        ("DepthwiseConv2dNativeBackpropFilter", [images, (4,), made], [filters]),
    ]
    for op, inputs, outputs in cases:
        found = work_of(op, inputs, outputs, {"data_format": "NHWC", "strides": (1, 1, 1, 1)})
        assert found == StreamedBytes("depthwise convolution", moved, prod(made) * 9.0)
    planes, apart = (2, 16, 9, 12), (2, 32, 9, 12)
    found = work_of("DepthwiseConv2dNative", [planes, filters], [apart], {"data_format": "NCHW", "strides": (1, 1, 1, 1)})
    assert found == StreamedBytes("depthwise convolution of planes", moved, prod(made) * 9.0)
    half = work_of(
        "DepthwiseConv2dNative", [planes, filters], [apart], {"data_format": "NCHW", "strides": (1, 1, 1, 1)}, dtype=HALF
    )
    assert half == StreamedBytes("depthwise convolution", moved / 2, prod(made) * 9.0)
    strided = {"data_format": "NHWC", "strides": (1, 3, 3, 1)}
    gradient = work_of("DepthwiseConv2dNativeBackpropInput", [(4,), filters, (2, 3, 4, 32)], [images], strided)
    assert gradient == StreamedBytes("depthwise convolution", 4.0 * (3456 + 288 + 768), 3456 * 2 * 9.0)


def test_a_batch_normalization_of_planes_has_a_row_for_each_channel() -> None:
    """Its statistics are empty inputs where it computes them; adjacent channels are a stream."""
    planes, vector, none = (2, 16, 9, 16), (16,), (0,)
    for op, inputs, family in (
        ("FusedBatchNormV3", [planes, vector, vector, none, none], "batch normalization of planes"),
        ("FusedBatchNormGradV3", [planes, planes, vector, vector, vector, none], "batch normalization gradient of planes"),
    ):
        found = work_of(op, inputs, [planes, vector, vector], {"data_format": "NCHW", "is_training": True})
        assert found == Rows(family, 16, 2 * 9 * 16, 4)
    images = (2, 9, 12, 16)
    found = work_of(
        "FusedBatchNormV3", [images, vector, vector, none, none], [images], {"data_format": "NHWC", "is_training": True}
    )
    assert found == StreamedBytes("batch normalization", 4.0 * (2 * prod(images) + 32))


def test_octets_are_of_a_groups_channels_and_filters() -> None:
    for channels, filters, octets in ((16, 24, True), (12, 24, False), (16, 20, False)):
        made = Convolution(1, channels, 8, 8, filters, 3, 3, 1, 1, 8, 8)
        assert made.work("forward", "float16", 2).is_aligned == octets
        assert (
            made._replace(channels=2 * channels, filters=2 * filters, groups=2).work("forward", "float16", 2).is_aligned
            == octets
        )


def test_an_lstms_gradient_is_recurrent() -> None:
    shapes = [(), (20, 8, 32), (8, 64), (8, 48), (96, 256), (64,), (64,), (64,), (256,)]
    found = work_of("BlockLSTMGrad", shapes, [(20, 8, 32)], dtype=HALF)
    assert found == RecurrentLayer("recurrent input gradient", 4, 48, 8, 20, "float16", 2)


@pytest.mark.parametrize(
    ("channels", "groups", "forward", "gradient"),
    [(128, 32, True, True), (1024, 32, True, True), (2048, 32, True, False), (2048, 64, True, True),
     (1536, 32, False, False), (512, 16, False, False), (512, 1, True, True)],
)  # fmt: skip
def test_even_groups_are_like_those_of_resnext(channels: int, groups: int, forward: bool, gradient: bool) -> None:
    made = Convolution(1, channels, 8, 8, channels, 3, 3, 1, 1, 8, 8, groups)
    evens = [not made.work(direction, "float16", 2).has_uneven_groups for direction in get_args(Direction)]
    assert evens == [forward, gradient, gradient]


def test_the_gradient_of_a_depthwise_filter_reads_more_in_half_precision_with_channels_last() -> None:
    made = Convolution(2, 16, 8, 8, 16, 3, 3, 1, 1, 8, 8, 16)
    reads = [
        work.placed
        if isinstance(work := made.depthwise_work("filter gradient", size, has_channels_apart=apart), StreamedBytes)
        else 0
        for size, apart in ((2, False), (2, True), (4, False), (4, True))
    ]
    once = 2 * 8 * 8 * 16 * 9
    assert reads == [HALF_FILTER_READS * once, once, once, 0]


_TENSOR, _NUMBER = (10, 10), ()


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "passes"),
    [
        ("AssignVariableOp", [_TENSOR] * 2, 0, 2),
        ("AssignAddVariableOp", [_TENSOR] * 2, 0, 3),
        ("AssignAdd", [_TENSOR] * 2, 1, 3),
        ("ResourceApplyGradientDescent", [_TENSOR, _NUMBER, _TENSOR], 0, 3),
        ("ResourceApplyMomentum", [_TENSOR, _TENSOR, _NUMBER, _TENSOR, _NUMBER], 0, 5),
        ("ApplyMomentum", [_TENSOR, _TENSOR, _NUMBER, _TENSOR, _NUMBER], 1, 5),
        ("ResourceApplyAdam", [*[_TENSOR] * 3, *[_NUMBER] * 6, _TENSOR], 0, 7),
    ],
)
def test_an_update_writes_all_variables_that_it_reads(op: str, inputs: list[Dims], outputs: int, passes: int) -> None:
    taken, given = tuple((dims, FLOAT) for dims in inputs), ((_TENSOR, FLOAT),) * outputs
    shapes = kernel_shapes(op, load_kernels()[op], {}, taken, given)
    numbers = inputs.count(_NUMBER) * 4
    assert shapes.moved_bytes == passes * 400 + numbers
    assert shapes.accessed_bytes == (inputs.count(_TENSOR) + outputs) * 400 + numbers
    work = node_work(shapes, K80)
    assert isinstance(work, StreamedBytes)
    assert work.moved_bytes == shapes.moved_bytes
