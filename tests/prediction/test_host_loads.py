"""The counts of a host's kernels: laws over all rules, and numbers worked out by hand for shapes at which a rule turns."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from placesim.core.dtypes import DOUBLE, FLOAT, HALF, INT32, DataType
from placesim.prediction.host_loads.load import Load
from placesim.prediction.host_loads.rules import host_load
from placesim.prediction.node_work import NodeShapes

Dims = tuple[int, ...]
SAME = {"padding": "SAME", "data_format": "NHWC"}
ONE = {**SAME, "strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1)}
TWO = {**SAME, "strides": (1, 2, 2, 1), "dilations": (1, 1, 1, 1)}
IMAGES, RESULTS = (4, 32, 32, 48), (4, 16, 16, 64)
PRODUCT = {"transpose_a": False, "transpose_b": False}
RULES: dict[str, tuple[str, list[Dims], list[Dims], dict[str, Any]]] = {
    "product": ("MatMul", [(64, 32), (32, 16)], [(64, 16)], PRODUCT),
    "batch": ("BatchMatMulV2", [(6, 64, 32), (6, 32, 16)], [(6, 64, 16)], {"adj_x": False, "adj_y": False}),
    "convolution": ("Conv2D", [IMAGES, (5, 5, 48, 64)], [RESULTS], TWO),
    "tiled": ("Conv2D", [IMAGES, (3, 3, 48, 64)], [(4, 32, 32, 64)], ONE),
    "pointwise": ("Conv2D", [IMAGES, (1, 1, 48, 64)], [(4, 32, 32, 64)], ONE),
    "pointwise, strided": ("Conv2D", [IMAGES, (1, 1, 48, 64)], [RESULTS], TWO),
    "few pixels": ("Conv2D", [(1, 4, 4, 48), (5, 5, 48, 640)], [(1, 2, 2, 640)], TWO),
    "grouped": ("Conv2D", [IMAGES, (5, 5, 24, 64)], [RESULTS], TWO),
    "small filter": ("Conv2DBackpropFilter", [(4, 32, 32, 3), (4,), (4, 16, 16, 8)], [(5, 5, 3, 8)], TWO),
    "large filter": ("Conv2DBackpropFilter", [IMAGES, (4,), RESULTS], [(5, 5, 48, 64)], TWO),
    "pointwise filter": ("Conv2DBackpropFilter", [IMAGES, (4,), (4, 32, 32, 64)], [(1, 1, 48, 64)], ONE),
    "tiled filter": ("Conv2DBackpropFilter", [IMAGES, (4,), (4, 32, 32, 64)], [(3, 3, 48, 64)], ONE),
    "input": ("Conv2DBackpropInput", [(4,), (5, 5, 48, 64), RESULTS], [IMAGES], TWO),
    "pointwise input": ("Conv2DBackpropInput", [(4,), (1, 1, 48, 64), (4, 32, 32, 64)], [IMAGES], ONE),
    "bias": ("BiasAddGrad", [RESULTS], [(64,)], SAME),
    "random": ("RandomUniform", [(2,)], [(300, 300)], {}),
    "sum": ("Sum", [(300, 300), (1,)], [(300,)], {"keep_dims": False}),
    "normalization": (
        "FusedBatchNormV3", [RESULTS, *[(64,)] * 4], [RESULTS, *[(64,)] * 5], {"is_training": True, "data_format": "NHWC"}
    ),
    "sum of two": ("AddV2", [(300, 300), (300, 300)], [(300, 300)], {}),
    "softmax": ("Softmax", [(300, 100)], [(300, 100)], {}),
}  # fmt: skip


def load_of(op: str, inputs: list[Dims], outputs: list[Dims], attrs: dict[str, Any], dtype: DataType = FLOAT) -> Load:
    moved = dtype.size * sum(map(prod, (*inputs, *outputs)))
    load = host_load(NodeShapes(op, attrs, inputs, outputs, dtype, 0, moved))
    assert load is not None
    return load


def counts_of(load: Load) -> dict[str, float]:
    found = dict(load.alone.counts)
    for name, count in load.shared.counts.items():
        found[name] = found.get(name, 0.0) + count
    return found


@pytest.mark.parametrize("rule", RULES)
def test_every_operand_and_result_passes_once(rule: str) -> None:
    op, inputs, outputs, attrs = RULES[rule]
    load = load_of(op, inputs, outputs, attrs)
    moved = 4.0 * sum(map(prod, (*inputs, *outputs)))
    once = 2.0 if rule == "grouped" else 1.0  # each group is a convolution of its own
    assert (once * moved, moved) in [*load.alone.traffic, *load.shared.traffic]


@pytest.mark.parametrize(
    ("rule", "operations"),
    [
        ("product", 64 * 32 * 16),
        ("batch", 6 * 64 * 32 * 16),
        ("convolution", 4 * 16 * 16 * 64 * 25 * 48),
        ("pointwise", 4 * 32 * 32 * 64 * 48),
        ("pointwise, strided", 4 * 16 * 16 * 64 * 48),
        ("few pixels", 4 * 640 * 25 * 48),
        ("grouped", 4 * 16 * 16 * 64 * 25 * 24),
        ("small filter", 4 * 16 * 16 * 8 * 25 * 3),
        ("large filter", 4 * 16 * 16 * 64 * 25 * 48),
        ("pointwise filter", 4 * 32 * 32 * 64 * 48),
        ("input", 4 * 16 * 16 * 64 * 25 * 48),
        ("pointwise input", 4 * 32 * 32 * 64 * 48),
    ],
)
def test_each_product_of_two_numbers_is_counted_once(rule: str, operations: int) -> None:
    assert counts_of(load_of(*RULES[rule]))["multiplied"] == operations


@pytest.mark.parametrize("rule", ["tiled", "tiled filter"])
def test_tiles_multiply_less_than_the_sum_of_a_convolution_has_terms(rule: str) -> None:
    assert counts_of(load_of(*RULES[rule]))["multiplied"] < 0.7 * 4 * 32 * 32 * 64 * 9 * 48


@pytest.mark.parametrize("rule", ["convolution", "few pixels", "small filter", "large filter"])
def test_a_patch_is_copied_in_as_many_pieces_as_its_window_has_rows(rule: str) -> None:
    op, inputs, outputs, attrs = RULES[rule]
    made, filters = (outputs[0], inputs[1]) if op == "Conv2D" else (inputs[2], outputs[0])
    counts = counts_of(load_of(op, inputs, outputs, attrs))
    pixels = prod(made[:-1])
    assert (counts["copied"], counts["piece"]) == (pixels * prod(filters[:-1]), pixels * 5)


def test_a_filter_of_many_blocks_is_added_up_and_calls_for_each() -> None:
    pixels, length = 4 * 128 * 128, 25 * 48
    load = load_of("Conv2DBackpropFilter", [(4, 256, 256, 48), (4,), (4, 128, 128, 64)], [(5, 5, 48, 64)], TWO)
    blocks = load.alone.counts["plain"] / (length * 64)
    assert blocks == int(blocks)
    assert blocks > 1
    assert load.shared.counts["call"] >= 20 * blocks + blocks
    assert (blocks * 3 * length * 64 * 4, 3 * length * 64 * 4) in load.alone.traffic
    assert load.shared.counts["multiplied"] == pytest.approx(pixels * length * 64, rel=1e-3)


@pytest.mark.parametrize(("size", "dtype"), [(4, FLOAT), (8, DOUBLE), (2, HALF)])
def test_a_gather_streams_the_taken_rows_twice_among_the_whole_table(size: int, dtype: DataType) -> None:
    load = load_of("GatherV2", [(1000, 64), (10,), ()], [(10, 64)], {"batch_dims": 0}, dtype)
    assert load.alone.traffic == [(2.0 * 10 * 64 * size, 1000.0 * 64 * size)]
    assert load.alone.counts["gathered"] == 10


def test_a_reduction_has_a_row_for_each_result_or_each_sum() -> None:
    assert load_of("Sum", [(300, 20), (1,)], [(300,)], {}).alone.counts["row"] == 20
    assert load_of("Sum", [(20, 300), (1,)], [(20,)], {}).alone.counts["row"] == 20


def test_channels_first_are_moved_to_the_end_and_back() -> None:
    attrs = {"is_training": False, "data_format": "NCHW"}
    last = load_of(*RULES["normalization"]).alone.counts
    tensor = (4, 64, 16, 16)
    first = load_of("FusedBatchNormV3", [tensor, *[(64,)] * 4], [tensor, *[(64,)] * 5], attrs).alone.counts
    assert "copied" not in last
    assert first["copied"] == 2 * prod(tensor)
    assert (last["plain"], first["plain"]) == (7 * prod(tensor), 3 * prod(tensor))


def test_rows_of_a_multiple_of_4096_bytes_drive_each_other_out_of_the_cache() -> None:
    aliased = counts_of(load_of("MatMul", [(64, 1024), (1024, 48)], [(64, 48)], PRODUCT))
    assert aliased["aliased"] == 64 * 1024
    assert "aliased" not in counts_of(load_of("MatMul", [(64, 1023), (1023, 48)], [(64, 48)], PRODUCT))


def test_a_sum_of_many_terms_is_written_back_in_pieces() -> None:
    for depth, pieces in ((384, 1), (385, 2), (769, 3)):
        counts = counts_of(load_of("MatMul", [(8, depth), (depth, 8)], [(8, 8)], PRODUCT))
        assert counts["accumulated"] == 64 * pieces
        assert counts["packed"] == 2 * 8 * depth


def test_counts_are_those_of_the_type() -> None:
    shapes: tuple[list[Dims], list[Dims]] = [(64, 32), (32, 16)], [(64, 16)]
    single, double = (counts_of(load_of("MatMul", *shapes, PRODUCT, dtype)) for dtype in (FLOAT, DOUBLE))
    assert double["multiplied"] == 2 * single["multiplied"]
    half = counts_of(load_of("MatMul", *shapes, PRODUCT, HALF))
    assert half["plain"] == 64 * 32 + 32 * 16 + 64 * 16  # widened and rounded
    whole = counts_of(load_of("MatMul", *shapes, PRODUCT, INT32))
    assert "multiplied" not in whole
    assert whole["plain"] == 64 * 32 * 16


def test_an_array_of_over_32_mib_is_given_to_the_process_page_by_page() -> None:
    large, small = (2900, 2900), (2890, 2890)
    assert counts_of(load_of("AddV2", [large, large], [large], {}))["new"] == prod(large) * 4
    assert "new" not in counts_of(load_of("AddV2", [small, small], [small], {}))
