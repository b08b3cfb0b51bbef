"""The counts of a host's kernels: laws over all rules, and numbers worked out by hand for shapes at which a rule turns."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from placesim.core.dtypes import DOUBLE, FLOAT, HALF, INT32, DataType
from placesim.prediction.host_loads.load import Load
from placesim.prediction.host_loads.rules import KNOWN_CHECK, host_load
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
    "volume pooling": (
        "AvgPool3D",
        [(2, 8, 8, 8, 16)],
        [(2, 4, 4, 4, 16)],
        {"ksize": (1, 2, 2, 2, 1), "strides": (1, 2, 2, 2, 1), "padding": "SAME", "data_format": "NDHWC"},
    ),
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


def test_a_pooling_passes_over_all_windows_for_each_tap() -> None:
    assert counts_of(load_of(*RULES["volume pooling"]))["plain"] == 8 * 2 * 4 * 4 * 4 * 16


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


@pytest.mark.parametrize(("channels", "is_whole"), [(4, False), (5, True)])
def test_patches_of_four_windows_are_copied_whole_where_channels_are_more(channels: int, is_whole: bool) -> None:
    load = load_of("Conv2D", [(1, 4, 4, 48), (5, 5, 48, channels)], [(1, 2, 2, channels)], TWO)
    assert ("copied" in load.alone.counts) == is_whole


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


def test_a_scatter_reads_and_writes_rows_among_the_whole_tables() -> None:
    table, rows = (1000, 64), (10, 64)
    cases: list[tuple[str, list[Dims], int]] = [
        ("ResourceScatterAdd", [table, (10,), rows], 1),
        ("ResourceScatterNdAdd", [table, (10, 1), rows], 1),
        ("ResourceSparseApplyMomentum", [table, table, (), rows, (10,), ()], 2),
    ]
    for op, inputs, tables in cases:
        load = load_of(op, inputs, [], {})
        assert (tables * 2.0 * 640 * 4, tables * 64_000.0 * 4) in load.alone.traffic
        assert load.alone.counts["gathered"] == tables * 2 * 10
        assert load.alone.counts["plain"] < 10 * 640


def test_a_large_table_gets_no_new_pages_where_its_rows_are_updated() -> None:
    table = (1 << 17, 128)
    assert "new" not in counts_of(load_of("ScatterAdd", [table, (10,), (10, 128)], [table], {}))
    assert "new" in counts_of(load_of("TensorScatterAdd", [table, (10, 1), (10, 128)], [table], {}))


@pytest.mark.parametrize(
    ("dims", "made", "rows", "name"),
    [
        ((300, 20), (300,), 300, "reduced"),  # a sum of each row
        ((300, 20), (300, 1), 300, "reduced"),
        ((300, 20), (20,), 300, "plain"),  # rows are added up
        ((4, 6, 6, 20), (4, 20), 144, "plain"),
        ((300, 20), (), 1, "reduced"),
        ((300, 20), (1, 1), 1, "reduced"),
    ],
)
def test_a_reduction_begins_anew_with_each_row(dims: Dims, made: Dims, rows: int, name: str) -> None:
    counts = load_of("Sum", [dims, (1,)], [made], {}).alone.counts
    assert (counts["row"], counts[name]) == (rows, prod(dims))
    assert {"reduced", "plain"} & counts.keys() == {name}


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


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "packed"),
    [
        (100, 100, 100, 0),  # a million multiplications: BLAS reads small operands where they are
        (100, 101, 100, 2 * 100 * 101),
        (1, 2000, 1000, (2000 + 2000 * 1000) / 4),
        (1000, 2000, 1, (2000 + 2000 * 1000) / 4),
    ],
)
def test_blas_packs_operands_that_are_neither_small_nor_vectors(rows: int, depth: int, columns: int, packed: float) -> None:
    counts = counts_of(load_of("MatMul", [(rows, depth), (depth, columns)], [(rows, columns)], PRODUCT))
    assert counts["packed"] == packed


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


# --- whole loads


class Counted(NamedTuple):
    """Counts in a kernel's own thread and in those that share its parts, and bytes with those among which they lie."""

    family: str
    alone: dict[str, float]
    shared: Mapping[str, float] = MappingProxyType({})
    traffic: tuple[tuple[float, float], ...] = ()
    parts: int = 1


POOL = {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), **SAME}
DENSE_POOL = {"ksize": (1, 3, 3, 1), "strides": (1, 1, 1, 1), **SAME}
SMALL, BIG = (2, 16, 16, 64), (8, 32, 32, 64)
PLANES = {"strides": (1, 1, 1, 1), "padding": "SAME", "data_format": "NCHW"}
LARGE = (1000, 1000)
SCALARS: list[Dims] = [()] * 6
WHOLE: dict[str, tuple[tuple[str, list[Dims], list[Dims], dict[str, Any]], Counted]] = {
    "a product": (RULES["product"], Counted(
        "product", {"call": 5, "checked": KNOWN_CHECK},
        {"call": 1, "multiplied": 64 * 32 * 16, "accumulated": 64 * 16}, ((14336, 14336),))),
    "a product in parts of rows, each of which packs all of the right side": (
        ("MatMul", [(1024, 520), (520, 512)], [(1024, 512)], PRODUCT), Counted(
            "product", {"call": 5, "checked": KNOWN_CHECK},
            {"call": 2, "multiplied": 1024 * 520 * 512, "packed": 1024 * 520 + 2 * 520 * 512, "accumulated": 2 * 1024 * 512},
            ((5292032, 5292032),), 2)),
    "a product in parts of columns, each of which packs all of the left side; both have rows of pages": (
        ("MatMul", [(16, 2048), (2048, 1024)], [(16, 1024)], PRODUCT), Counted(
            "product", {"call": 5, "checked": KNOWN_CHECK},
            {"call": 2, "multiplied": 16 * 2048 * 1024, "packed": 2 * 16 * 2048 + 2048 * 1024, "accumulated": 6 * 16 * 1024,
             "aliased": 2 * 16 * 2048 + 2048 * 1024},
            ((8585216, 8585216),), 2)),
    "a product in four parts of the terms, whose sums are added: each of 2048 terms, in six pieces": (
        ("MatMul", [(64, 8192), (8192, 64)], [(64, 64)], PRODUCT), Counted(
            "product", {"call": 5, "checked": KNOWN_CHECK},
            {"call": 4, "multiplied": 64 * 8192 * 64, "packed": 2 * 64 * 8192, "accumulated": 4 * 6 * 64 * 64,
             "aliased": 64 * 8192, "plain": 3 * 64 * 64},
            ((4210688, 4210688),), 4)),
    "a product of a transposed side, whose rows in memory are the product's columns": (
        ("MatMul", [(48, 1024), (48, 30)], [(1024, 30)], {"transpose_a": True}), Counted(
            "product", {"call": 5, "checked": KNOWN_CHECK},
            {"call": 1, "multiplied": 1024 * 48 * 30, "packed": 1024 * 48 + 48 * 30, "accumulated": 1024 * 30,
             "aliased": 1024 * 48},
            ((4 * (48 * 1024 + 48 * 30 + 1024 * 30),) * 2,))),
    "a product whose left side is one row": (("MatMul", [(1, 1024), (1024, 10)], [(1, 10)], PRODUCT), Counted(
        "product", {"call": 5, "checked": KNOWN_CHECK},
        {"call": 1, "multiplied": 1024 * 10, "packed": (1024 + 1024 * 10) / 4, "accumulated": 3 * 10}, ((45096, 45096),))),
    "products, shared by the batch": (
        ("BatchMatMulV2", [(6, 256, 320), (6, 320, 128)], [(6, 256, 128)], {"adj_x": False, "adj_y": False}), Counted(
            "product", {"call": 28, "checked": KNOWN_CHECK},
            {"call": 1 + 5 / 4, "multiplied": 6 * 256 * 320 * 128, "packed": 6 * (256 * 320 + 320 * 128),
             "accumulated": 6 * 256 * 128},
            ((3735552, 3735552),), 4)),
    "patches in two blocks of 512": (RULES["convolution"], Counted(
        "convolution", {"call": 150, "checked": KNOWN_CHECK},
        {"call": 2 * (10 + 1), "multiplied": 1024 * 1200 * 64, "packed": 2 * (512 * 1200 + 1200 * 64),
         "accumulated": 2 * 4 * 512 * 64, "copied": 1024 * 1200, "piece": 1024 * 5},
        ((1355776, 1355776),), 2)),
    "two groups of such": (RULES["grouped"], Counted(
        "convolution", {"call": 150, "checked": KNOWN_CHECK},
        {"call": 2 * 2 * (10 + 1), "multiplied": 1024 * 600 * 64, "packed": 2 * 2 * (512 * 600 + 600 * 32),
         "accumulated": 2 * 2 * 2 * 512 * 32, "copied": 2 * 1024 * 600, "piece": 2 * 1024 * 5},
        ((2 * 1202176, 1202176),), 2)),
    # 256 tiles of 4 by 4: from 6 by 6 cells to 7 by 7 factors, along rows and along columns
    "tiles, in two blocks of 128": (RULES["tiled"], Counted(
        "convolution", {"call": 80, "checked": KNOWN_CHECK},
        {"call": 2 * (40 + 49), "accumulated": 2 * 49 * 128 * 64,
         "multiplied": 49 * 256 * 48 * 64 + 3.3 * (256 * 7 * (48 * 6 * (4 + 7) + 64 * 4 * (4 + 7)) + 49 * 9 * 48 * 64),
         "piece": 256 * (2 * 7 + 4)},
        ((2 * 49 * 256 * (48 + 64) * 4, 49 * 256 * (48 + 64) * 4), (1945600, 1945600)), 2)),
    "a pointwise convolution": (RULES["pointwise"], Counted(
        "convolution", {"call": 70, "checked": KNOWN_CHECK},
        {"call": 1, "multiplied": 4096 * 48 * 64, "packed": 4096 * 48 + 48 * 64, "accumulated": 4096 * 64},
        ((1847296, 1847296),))),
    "a strided one copies the cells": (RULES["pointwise, strided"], Counted(
        "convolution", {"call": 70, "checked": KNOWN_CHECK, "copied": 1024 * 48, "piece": 1024},
        {"call": 1, "multiplied": 1024 * 48 * 64, "packed": 1024 * 48 + 48 * 64, "accumulated": 1024 * 64},
        ((1060864, 1060864),))),
    "patches of fewer windows than channels are one block": (RULES["few pixels"], Counted(
        "convolution", {"call": 150, "checked": KNOWN_CHECK, "copied": 4 * 1200, "piece": 4 * 5},
        {"call": 1, "multiplied": 4 * 1200 * 640, "packed": 4 * 1200 + 1200 * 640, "accumulated": 4 * 4 * 640},
        ((3085312, 3085312),))),
    "channels first": (("Conv2D", [(2, 3, 40, 40), (5, 5, 3, 8)], [(2, 8, 40, 40)], PLANES), Counted(
        "convolution", {"call": 150, "checked": KNOWN_CHECK},
        {"call": 10 + 1, "multiplied": 3200 * 75 * 8, "packed": 3200 * 75 + 75 * 8, "accumulated": 3200 * 8,
         "copied": 3200 * 75, "piece": 3200 * 5},
        ((143200, 143200),))),
    "a volume, whose patches have a piece for each row of each slice": (
        ("Conv3D", [(1, 4, 16, 16, 4), (3, 3, 3, 4, 8)], [(1, 4, 16, 16, 8)],
         {"strides": (1,) * 5, "padding": "SAME", "data_format": "NDHWC"}), Counted(
            "convolution", {"call": 150, "checked": KNOWN_CHECK},
            {"call": 10 + 1, "multiplied": 1024 * 108 * 8, "accumulated": 1024 * 8,
             "copied": 1024 * 108, "piece": 1024 * 9},
            ((52608, 52608),))),
    "a small filter's gradient in four blocks of 4096 windows": (
        ("Conv2DBackpropFilter", [(4, 64, 64, 3), (4,), (4, 64, 64, 16)], [(5, 5, 3, 16)], ONE), Counted(
            "convolution filter gradient", {"call": 190, "checked": KNOWN_CHECK, "plain": 4 * 75 * 16},
            {"call": 4 * (10 + 1), "multiplied": 16384 * 75 * 16, "packed": 4 * (75 * 4096 + 4096 * 16),
             "accumulated": 4 * 11 * 75 * 16, "copied": 16384 * 75, "piece": 16384 * 5},
            ((1250000, 1250000),), 4)),
    "a large filter's gradient in one block, whose product has two parts": (RULES["large filter"], Counted(
        "convolution filter gradient", {"call": 190, "checked": KNOWN_CHECK, "plain": 1200 * 64},
        {"call": 20 + 2, "multiplied": 1024 * 1200 * 64, "packed": 1200 * 1024 + 2 * 1024 * 64, "accumulated": 3 * 1200 * 64,
         "aliased": 1200 * 1024, "copied": 1024 * 1200, "piece": 1024 * 5},
        ((3 * 1200 * 64 * 4, 3 * 1200 * 64 * 4), (1355792, 1355792)), 2)),
    "a pointwise filter's gradient": (RULES["pointwise filter"], Counted(
        "convolution filter gradient", {"call": 66, "checked": KNOWN_CHECK},
        {"call": 1, "multiplied": 4096 * 48 * 64, "packed": 48 * 4096 + 4096 * 64, "accumulated": 11 * 48 * 64,
         "aliased": 48 * 4096},
        ((1847312, 1847312),))),
    "few results of many terms are cut along these: a filter's gradient over 262144 windows": (
        ("Conv2DBackpropFilter", [(4, 256, 256, 16), (4,), (4, 256, 256, 24)], [(1, 1, 16, 24)], ONE), Counted(
            "convolution filter gradient", {"call": 66, "checked": KNOWN_CHECK},
            {"call": 8, "multiplied": 262144 * 16 * 24, "packed": 262144 * (16 + 24), "accumulated": 8 * 86 * 16 * 24,
             "aliased": 262144 * 16, "plain": 7 * 16 * 24},
            ((41944592, 41944592),), 8)),
    "a pointwise convolution of one window": (
        ("Conv2D", [(1, 1, 1, 65536), (1, 1, 65536, 640)], [(1, 1, 1, 640)], ONE), Counted(
            "convolution", {"call": 70, "checked": KNOWN_CHECK},
            {"call": 4, "multiplied": 65536 * 640, "packed": 65536 * (1 + 640) / 4,
             "accumulated": 4 * 43 * 640, "plain": 3 * 640},
            ((168036864, 168036864),), 4)),
    "patches of few windows": (
        ("Conv2D", [(1, 4, 4, 2048), (5, 5, 2048, 640)], [(1, 2, 2, 640)], TWO), Counted(
            "convolution", {"call": 150, "checked": KNOWN_CHECK, "copied": 4 * 51200, "piece": 4 * 5},
            {"call": 8, "multiplied": 4 * 51200 * 640, "packed": 51200 * (4 + 640), "accumulated": 8 * 17 * 4 * 640,
             "plain": 7 * 4 * 640, "aliased": 4 * 51200},
            ((131213312, 131213312),), 8)),
    "an input's gradient of few windows": (
        ("Conv2DBackpropInput", [(4,), (1, 1, 16, 65536), (1, 4, 4, 65536)], [(1, 4, 4, 16)], ONE), Counted(
            "convolution input gradient", {"call": 70, "checked": KNOWN_CHECK},
            {"call": 2, "multiplied": 256 * 65536, "packed": 65536 * 32, "accumulated": 2 * 86 * 256, "plain": 256,
             "aliased": 16 * 65536},
            ((8389648, 8389648),), 2)),
    # of the output's gradients tiles are transformed as well, and each of the 49 products is one over all 256 tiles
    "a filter's gradient in tiles": (RULES["tiled filter"], Counted(
        "convolution filter gradient", {"call": 80, "checked": KNOWN_CHECK},
        {"call": 2 * 40 + 49, "accumulated": 49 * 48 * 64,
         "multiplied": 49 * 256 * 48 * 64 + 3.3 * (256 * 7 * (48 * 6 * (4 + 7) + 64 * 4 * (4 + 7)) + 49 * 9 * 48 * 64),
         "piece": 256 * (2 * 7 + 4)},
        ((2 * 49 * 256 * (48 + 64) * 4,) * 2, (1945616, 1945616)), 2)),
    "an input's gradient of two images a part, whose products are cut along the patch": (RULES["input"], Counted(
        "convolution input gradient", {"call": 230, "checked": KNOWN_CHECK},
        {"call": 2 * (10 + 25 * 5 * 3 + 2), "multiplied": 1024 * 64 * 1200, "packed": 2 * (2 * 512 * 64 + 64 * 1200),
         "accumulated": 1024 * 1200, "added": 1024 * 1200, "added_piece": 1024 * 5},
        ((1355792, 1355792),), 2)),
    "rows of a window that are shorter than those of the output are added the other way": (
        ("Conv2DBackpropInput", [(4,), (3, 3, 8, 24), (2, 32, 32, 24)], [(2, 32, 32, 8)], ONE), Counted(
            "convolution input gradient", {"call": 230, "checked": KNOWN_CHECK},
            {"call": 10 + 25 * 3 + 1, "multiplied": 2048 * 24 * 72, "packed": 2048 * 24 + 24 * 72, "accumulated": 2048 * 72,
             "added": 2048 * 72, "added_piece": 2048 * 72 / 32},
            ((269072, 269072),))),
    "a strided pointwise input's gradient": (
        ("Conv2DBackpropInput", [(4,), (1, 1, 48, 64), RESULTS], [IMAGES], TWO), Counted(
            "convolution input gradient", {"call": 70, "checked": KNOWN_CHECK, "copied": 1024 * 48, "piece": 1024},
            {"call": 1, "multiplied": 1024 * 64 * 48, "packed": 1024 * 64 + 64 * 48, "accumulated": 1024 * 48},
            ((1060880, 1060880),))),
    "depthwise: two results a channel widen the images first; a run is a row of windows": (
        ("DepthwiseConv2dNative", [(2, 64, 64, 16), (3, 3, 16, 2)], [(2, 64, 64, 32)], ONE), Counted(
            "depthwise", {"call": 120, "checked": KNOWN_CHECK, "copied": 262144, "piece": 131072},
            {"call": 2 * 12, "plain": 9 * 262144, "run": 9 * 262144 / (64 * 32), "copied": 262144, "piece": 2 * 64},
            ((4 * 9 * 262144 * 4, 262144 * 4), (1574016, 1574016)), 2)),
    "depthwise, strided: a run is a window's channels": (
        ("DepthwiseConv2dNative", [(2, 64, 64, 16), (3, 3, 16, 1)], [(2, 32, 32, 16)], TWO), Counted(
            "depthwise", {"call": 120, "checked": KNOWN_CHECK},
            {"call": 12, "plain": 9 * 32768, "run": 9 * 32768 / 16, "copied": 131072, "piece": 2 * 64},
            ((4 * 9 * 32768 * 4, 2 * 32768 * 4), (655936, 655936)))),
    "depthwise, strided input's gradient: four correlations of rows of the output": (
        ("DepthwiseConv2dNativeBackpropInput", [(4,), (3, 3, 16, 1), (2, 32, 32, 16)], [(2, 64, 64, 16)], TWO), Counted(
            "depthwise", {"call": 200, "checked": KNOWN_CHECK},
            {"call": 4 * 12, "plain": 9 * 32768, "run": 9 * 32768 / (32 * 16), "copied": 131072, "piece": 2 * 64},
            ((4 * 9 * 32768 * 4, 2 * 32768 * 4 / 4), (655952, 655952)))),
    "depthwise filter's gradient": (
        ("DepthwiseConv2dNativeBackpropFilter", [(2, 64, 64, 16), (4,), (2, 32, 32, 16)], [(3, 3, 16, 1)], TWO), Counted(
            "depthwise", {"call": 120, "checked": KNOWN_CHECK},
            {"call": 12, "plain": 9 * 32768, "run": 9 * 32768 / 16, "copied": 131072, "piece": 2 * 64},
            ((4 * 9 * 32768 * 4, 2 * 32768 * 4), (655952, 655952)))),
    "pooling: a pass for each tap, in runs of a window's channels": (
        ("MaxPool", [(2, 64, 64, 8)], [(2, 32, 32, 8)], POOL), Counted(
            "pooling", {"call": 60, "checked": KNOWN_CHECK}, {"call": 4 * 35, "plain": 4 * 16384, "run": 4 * 2048},
            ((4 * 3 * 16384 * 4, (65536 + 16384) * 4), (327680, 327680)))),
    "pooling without a stride: in runs of a row": (
        ("AvgPool", [(2, 64, 64, 8)], [(2, 64, 64, 8)], DENSE_POOL), Counted(
            "pooling", {"call": 60, "checked": KNOWN_CHECK}, {"call": 9 * 35, "plain": 9 * 65536, "run": 9 * 128},
            ((9 * 3 * 65536 * 4, 2 * 65536 * 4), (524288, 524288)))),
    "pooling in parts of its images": (
        ("MaxPool", [(40, 64, 64, 8)], [(40, 32, 32, 8)], POOL), Counted(
            "pooling", {"call": 60, "checked": KNOWN_CHECK}, {"call": 2 * 4 * 35, "plain": 4 * 327680, "run": 4 * 40960},
            ((4 * 3 * 327680 * 4, (1310720 + 327680) / 2 * 4), (6553600, 6553600)), 2)),
    "maximum's gradient: six steps a tap, after the largest cells are found": (
        ("MaxPoolGrad", [(40, 64, 64, 8), (40, 32, 32, 8), (40, 32, 32, 8)], [(40, 64, 64, 8)], POOL), Counted(
            "pooling gradient", {"call": 60, "checked": KNOWN_CHECK, "plain": 2 * 1310720},
            {"call": 2 * 4 * 71, "plain": 4 * 7 * 327680, "run": 4 * 7 * 40960},
            ((4 * 6 * 3 * 327680 * 4, 3276800), (4 * 3 * 327680 * 4, 3276800), (13107200, 13107200)), 2)),
    "mean's gradient: a step a tap; its parts are those of the results": (
        ("AvgPoolGrad", [(4,), (40, 32, 32, 8)], [(40, 64, 64, 8)], POOL), Counted(
            "pooling gradient", {"call": 60, "checked": KNOWN_CHECK}, {"call": 4 * 47, "plain": 4 * 327680, "run": 4 * 40960},
            ((4 * 3 * 327680 * 4, 6553600), (6553616, 6553616)))),
    "local normalization: the sums of neighbours are products": (("LRN", [SMALL], [SMALL], {"depth_radius": 5}), Counted(
        "local normalization", {"call": 40, "checked": KNOWN_CHECK},
        {"call": 8 + 1, "plain": 5 * 32768, "exponential": 3 * 32768, "multiplied": 512 * 64 * 64,
         "packed": 512 * 64 + 64 * 64, "accumulated": 512 * 64},
        ((262144, 262144), (7 * 3 * 131072, 3 * 131072)))),
    "local normalization in eight parts": (("LRN", [BIG], [BIG], {"depth_radius": 5}), Counted(
        "local normalization", {"call": 40, "checked": KNOWN_CHECK},
        {"call": 8 * (8 + 1), "plain": 5 * 524288, "exponential": 3 * 524288, "multiplied": 8192 * 64 * 64,
         "packed": 8 * (1024 * 64 + 64 * 64), "accumulated": 8192 * 64},
        ((4194304, 4194304), (7 * 3 * 2097152, 3 * (1 << 18))), 8)),
    "its gradient: four passes for each neighbour, and two more": (
        ("LRNGrad", [BIG] * 3, [BIG], {"depth_radius": 5}), Counted(
            "local normalization", {"call": 90, "checked": KNOWN_CHECK},
            {"call": 8 * 34, "plain": (8 + 22) * 524288, "divided": 524288, "exponential": 3 * 524288, "run": 22 * 8192},
            ((8388608, 8388608), (33 * 3 * 2097152, 3 * (1 << 18))), 8)),
    "its gradient over fewer channels than the radius": (
        ("LRNGrad", [(2, 4, 4, 4)] * 3, [(2, 4, 4, 4)], {"depth_radius": 5}), Counted(
            "local normalization", {"call": 90},
            {"call": 26, "plain": (8 + 14) * 128, "divided": 128, "exponential": 3 * 128, "run": 14 * 32},
            ((2048, 2048), (25 * 3 * 512, 2048)))),
    "batch normalization: sums are products with ones": (RULES["normalization"], Counted(
        "batch normalization", {"call": 7 + 60 + 25, "plain": 7 * 65536, "run": 3 * 1024, "checked": KNOWN_CHECK},
        {}, ((526592, 526592), (6 * 3 * 262144, 3 * 262144)))),
    "a small optimizer's update": (
        ("ApplyAdam", [*[(100, 100)] * 3, *SCALARS, (100, 100)], [(100, 100)], {}), Counted(
            "optimizer", {"call": 12 + 10 + 5 * 10, "plain": 10 * 10000, "divided": 10000, "rooted": 10000,
             "checked": KNOWN_CHECK},
            {}, ((200024, 200024), (11 * 2.5 * 40000, 200024)))),
    "a large one's, part by part: four arrays are read, and three written": (
        ("ApplyAdam", [*[LARGE] * 3, *SCALARS, LARGE], [LARGE], {}), Counted(
            "optimizer", {"call": 10 + 5 * 10, "checked": KNOWN_CHECK},
            {"call": 8 * 12, "plain": 10 * 10**6, "divided": 10**6, "rooted": 10**6},
            ((12 * 2.5 * 4 * 10**6, 3 * (1 << 19)), (7 * 4 * 10**6, 7 * 4 * 10**6)), 8)),
    "passes over a tensor": (("Sigmoid", [(300, 300)], [(300, 300)], {}), Counted(
        "elementwise", {"call": 4 + 3, "plain": 2 * 90000, "divided": 90000, "exponential": 90000},
        {}, ((720000, 720000), (3 * 3 * 360000, 3 * 360000)))),
    "passes over eight parts of a tensor, into which the result is put": (("Sigmoid", [LARGE], [LARGE], {}), Counted(
        "elementwise", {"call": 4}, {"call": 5 + 7 * 4, "plain": 3 * 10**6, "divided": 10**6, "exponential": 10**6},
        ((8 * 10**6, 8 * 10**6), (4 * 3 * 4 * 10**6, 3 * (1 << 19))), 8)),
    "rows": (RULES["softmax"], Counted(
        "softmax",
        {"call": 3 + 5 + 6 + 2 * 12, "plain": 2 * 30000, "exponential": 30000, "reduced": 2 * 30000, "row": 600, "run": 600,
         "checked": KNOWN_CHECK},
        {}, ((240000, 240000), (2 * 3 * 120000, 3 * 120000)))),
    "rows in eight parts": (("Softmax", [LARGE], [LARGE], {}), Counted(
        "softmax", {"call": 4, "checked": KNOWN_CHECK},
        {"call": 4 + 7 * 3 + 6 + 2 * 12, "plain": 3 * 10**6, "exponential": 10**6, "reduced": 2 * 10**6, "row": 2 * 1000,
         "run": 2 * 1000},
        ((8 * 10**6, 8 * 10**6), (3 * 3 * 4 * 10**6, 3 * (1 << 19))), 8)),
    "one stretch of two operands": (RULES["sum of two"], Counted(
        "elementwise", {"call": 1, "plain": 90000, "run": 1, "checked": 1}, {}, ((1080000, 1080000),))),
    "a stretch for each row to which another is added": (("BiasAdd", [(300, 30), (30,)], [(300, 30)], SAME), Counted(
        "elementwise", {"call": 1 + 5, "plain": 9000, "run": 300, "checked": KNOWN_CHECK}, {}, ((72120, 72120),))),
    "copies": (("ConcatV2", [(300, 30), (300, 30), ()], [(300, 60)], {}), Counted(
        "copy", {"call": 1 + 5 + 25, "plain": 18000, "run": 1, "checked": KNOWN_CHECK}, {}, ((144004, 144004),))),
    "views": (("Split", [(), (10, 20)], [(10, 10), (10, 10)], {}), Counted("elementwise", {"call": 2 + 2})),
    "a transpose": (("Transpose", [(10, 20), (2,)], [(20, 10)], {}), Counted("elementwise", {"call": 12})),
    "nothing": (("MatMul", [(0, 4), (4, 5)], [(0, 5)], PRODUCT), Counted("elementwise", {"call": 1})),
    "random numbers": (RULES["random"], Counted("random", {"call": 260, "random": 90000}, {}, ((360008, 360008),))),
    "sums of rows": (RULES["sum"], Counted(
        "reduction", {"call": 7 + 12, "plain": 90000, "row": 300, "checked": KNOWN_CHECK}, {}, ((361204, 361204),))),
    "sums of columns": (RULES["bias"], Counted(
        "reduction", {"call": 14, "plain": 65536, "checked": KNOWN_CHECK}, {}, ((262400, 262400),))),
}  # fmt: skip


@pytest.mark.parametrize("case", WHOLE)
def test_a_whole_load_is_what_its_kernel_does(case: str) -> None:
    rule, expected = WHOLE[case]
    load = load_of(*rule)
    assert (load.family, load.parts) == (expected.family, expected.parts)
    assert nonzero(load.alone.counts) == pytest.approx(expected.alone)
    assert nonzero(load.shared.counts) == pytest.approx(expected.shared)
    assert sorted([*load.alone.traffic, *load.shared.traffic]) == sorted(expected.traffic)


def nonzero(counts: dict[str, float]) -> dict[str, float]:
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    ("op", "inputs", "is_checked"),
    [
        ("Neg", [(1024, 1024)], False),
        ("Neg", [(1024, 1025)], True),
        ("AddV2", [(1024,), (1024,)], False),
        ("AddV2", [(1024,), (1025,)], True),
        ("Softmax", [(32, 32)], False),
        ("Softmax", [(32, 33)], True),
        ("Reshape", [(2000, 1000)], None),
    ],
)
def test_an_output_that_could_be_large_is_looked_at(op: str, inputs: list[Dims], is_checked: bool | None) -> None:
    moved = 4 * sum(map(prod, (*inputs, inputs[0])))
    load = host_load(NodeShapes(op, {}, inputs, inputs[:1], FLOAT, 0, moved))
    assert (None if load is None else "checked" in load.alone.counts) == is_checked


@pytest.mark.parametrize(
    ("op", "inputs", "name"),
    [
        ("Relu", [(30, 30)], "compared"),
        ("Maximum", [(30, 30), ()], "compared"),
        ("Minimum", [(30, 30), (30, 30)], None),
        ("Sqrt", [(30, 30)], "rooted"),
        ("RealDiv", [(30, 30), (30, 30)], "divided"),
    ],
)
def test_comparisons_with_a_number_and_roots_have_figures_of_their_own(op: str, inputs: list[Dims], name: str | None) -> None:
    counts = counts_of(load_of(op, inputs, [(30, 30)], {}))
    assert {key for key in ("compared", "rooted", "divided") if counts.get(key)} == ({name} if name else set())
    assert name is None or counts[name] == 900


@pytest.mark.parametrize(("elements", "compared"), [(8191, 8191), (8192, 0)])
def test_a_large_relu_compares_no_single_number(elements: int, compared: int) -> None:
    counts = counts_of(load_of("Relu", [(elements,)], [(elements,)], {}))
    assert (counts.get("compared", 0), counts["plain"], counts["call"]) == (compared, elements, 1 + 3)


def test_a_batch_that_is_normalized_by_its_own_statistics_has_a_load() -> None:
    attrs = {"is_training": True, "data_format": "NHWC"}
    without = load_of("FusedBatchNormV3", [RESULTS, (64,), (64,), (0,), (0,)], [RESULTS, *[(64,)] * 5], attrs)
    assert counts_of(without)["plain"] == counts_of(load_of(*RULES["normalization"]))["plain"]
    gradient = load_of("FusedBatchNormGradV3", [RESULTS] * 2 + [(64,)] * 4, [RESULTS, (64,), (64,), (0,), (0,)], attrs)
    assert gradient.family == "batch normalization"
    assert counts_of(gradient)["plain"] == 10 * prod(RESULTS)


def test_labels_for_each_class_take_more_passes_than_an_index() -> None:
    logits, losses = (32, 10), [(32,), (32, 10)]
    index = counts_of(load_of("SparseSoftmaxCrossEntropyWithLogits", [logits, (32,)], losses, {}))
    rows = counts_of(load_of("SoftmaxCrossEntropyWithLogits", [logits, logits], losses, {}))
    assert (rows["plain"], index["plain"]) == (6 * 320, 2 * 320)
    assert (rows["row"], index["row"]) == (3 * 32, 2 * 32)
    assert rows["call"] > index["call"]


def test_an_entropy_is_a_softmax_and_a_constant_nothing() -> None:
    inputs: list[Dims] = [(32, 10), (32,)]
    assert load_of("SparseSoftmaxCrossEntropyWithLogits", inputs, [(32,), (32, 10)], {}).family == "softmax"
    assert host_load(NodeShapes("Const", {}, [], [(32,)], FLOAT, 0, 128)) is None


def test_an_update_of_up_to_half_a_mebibyte_is_one_part() -> None:
    for elements, parts in ((1 << 17, 1), ((1 << 17) + 1, 2)):
        assert load_of("ApplyGradientDescent", [(elements,), (), (elements,)], [(elements,)], {}).parts == parts


def test_new_pages_are_given_to_the_threads_that_share_the_work() -> None:
    whole, more = (1024, 8192), (1024, 8200)
    assert "new" not in counts_of(load_of("Sigmoid", [whole], [whole], {}))
    load = load_of("Sigmoid", [more], [more], {})
    assert load.shared.counts["new"] == prod(more) * 4
    assert "new" not in load.alone.counts
