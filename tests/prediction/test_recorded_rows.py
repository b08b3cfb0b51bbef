"""Recorded kernels and published products become work, and the shipped constants hold for the published ones."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from placesim.machine.gpu_models import GPU_MODELS
from placesim.prediction.cost_formulas import predict
from placesim.prediction.processors import gpu_processor
from placesim.prediction.work_amounts import Convolution, Product, Rows, StreamedBytes, Work, matrix_product
from tests.benchmarks.gpu_times_bench import recorded_networks
from tests.benchmarks.recorded_rows import read_fit_rows, read_judged, read_published, read_recording

HEADER = "device,arithmetic,m,n,k,tflops,source\n"


CARD = {"card": "NVIDIA H200"}
CONVOLUTION = {"n": 32, "c": 256, "h": 14, "w": 14, "k": 1024, "fh": 1, "fw": 1, "stride": 2, "oh": 7, "ow": 7, "groups": 1}
DEPTHWISE = {"n": 2, "c": 16, "h": 8, "w": 8, "k": 16, "fh": 3, "fw": 3, "stride": 2, "oh": 4, "ow": 4, "groups": 16}
POOLED = {"n": 1, "c": 64, "h": 112, "w": 112, "bytes": 4014080}


@pytest.mark.parametrize(
    ("line", "work"),
    [
        (
            {"op": "matmul", "arithmetic": "bfloat16", "batch": 2, "m": 3, "n": 8, "k": 16, "layout": "TN"},
            matrix_product(2, 3, 8, 16, "bfloat16", 2)._replace(crosswise=2),
        ),
        (  # operands of 3 * 16 + 16 * 8 bytes, and 3 * 8 sums of two
            {"op": "matmul", "arithmetic": "float8", "batch": 1, "m": 3, "n": 8, "k": 16, "layout": "NT"},
            matrix_product(1, 3, 8, 16, "float8", 1)._replace(moved_bytes=48.0 + 128 + 48),
        ),
        (
            {"op": "conv", "direction": "input gradient", "arithmetic": "tf32", "channels_last": False, **CONVOLUTION},
            Convolution(32, 256, 14, 14, 1024, 1, 1, 2, 2, 7, 7).work("input gradient", "tf32", 4, has_channels_apart=True),
        ),
        ({"op": "sum of columns", "type": "float32", "rows": 8, "columns": 4, "bytes": 160}, StreamedBytes("reduction", 160.0)),
        ({"op": "sum of rows", "type": "float32", "rows": 8, "columns": 4, "bytes": 160}, Rows("reduction of rows", 8, 4, 4)),
        ({"op": "softmax", "type": "bfloat16", "rows": 128, "columns": 1000, "bytes": 512000}, Rows("softmax", 128, 1000, 2)),
        ({"op": "max pooling gradient", "type": "float32", **POOLED}, StreamedBytes("pooling gradient", 4014080.0)),
        ({"op": "add", "type": "float32", "elements": 1024, "bytes": 12288}, StreamedBytes("elementwise", 12288.0)),
        ({"op": "slice", "type": "float32", "rows": 8, "columns": 4, "bytes": 128}, StreamedBytes("indexed", 128.0, 16.0)),
        (
            {"op": "batch normalization", "type": "float32", "channels_last": True, **POOLED},
            StreamedBytes("batch normalization", 4014080.0),
        ),
        (
            {"op": "batch normalization gradient", "type": "float16", "channels_last": False, **POOLED},
            Rows("batch normalization gradient of planes", 64, 112 * 112, 2),
        ),
        (  # each pixel of the images is made of nine products
            {"op": "conv", "direction": "input gradient", "arithmetic": "tf32", "channels_last": False, **DEPTHWISE},
            StreamedBytes("depthwise convolution of planes", 4.0 * (2 * 16 * 64 + 2 * 16 * 16 + 16 * 9), 2 * 16 * 64 * 9.0),
        ),
    ],
)
def test_kernels_become_work(line: dict[str, Any], work: Work, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl.gz"
    step = {"op": "network", "network": "resnet50", "seconds": 1.0}
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(part) + "\n" for part in (CARD, {**line, "seconds": 2e-6}, step, {"recorded": "end"}))
    (row,) = read_recording(path)
    assert (row.work, row.seconds, row.device) == ((work,), 2e-6, "H200-SXM5-141GB")
    assert row.processor == gpu_processor(GPU_MODELS["H200-SXM5-141GB"])


def test_each_card_has_its_rows() -> None:
    rows = Counter(row.device for row in read_recording())
    assert rows == {"H100-SXM5-80GB": 2210, "H200-SXM5-141GB": 1451}


def test_the_fit_sees_no_kernel_that_holds_the_board_at_its_limit() -> None:
    """A float16 product of 8192 takes 1.1 ms at 989 T/s, one of 2048 17 us."""
    sizes = {row.sizes for row in read_fit_rows()}
    assert not any('"m": 8192, "n": 8192, "k": 8192' in text for text in sizes)
    assert any('"m": 2048, "n": 2048, "k": 2048' in text for text in sizes)


def test_a_product_that_stays_in_the_cache_is_left_out(tmp_path: Path) -> None:
    """On a B200: 34 MB that move in 4 us and compute in 1 us; 201 MB, which no cache holds; 67 MB that compute for 31 us."""
    path = tmp_path / "published.csv"
    sizes = ((64, 4096, 4096), (64, 28672, 3500), (2048, 4096, 4096))
    lines = [f"B200-SXM6-180GB,bfloat16,{m},{n},{k},1000,someone" for m, n, k in sizes]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    rows = list(read_published(path))
    assert [row.sizes for row in rows] == ["matmul 64 28672 3500", "matmul 2048 4096 4096"]
    assert rows[1].seconds == 2 * 2048 * 4096 * 4096 / 1000e12


def test_published_products_lie_in_their_intervals() -> None:
    rows = list(read_published())
    found = [(predict(row.work[0], row.processor), row.seconds) for row in rows]
    assert sum(time.low <= seconds <= time.high for time, seconds in found) >= 0.8 * len(rows)
    assert median(abs(time.seconds / seconds - 1) for time, seconds in found) < 0.15


def test_products_that_no_constant_is_fitted_to_are_predicted_within_15_percent() -> None:
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in read_judged():
        work = row.work[0]
        assert isinstance(work, Product)
        seconds = predict(work, row.processor, row.launch_seconds).seconds
        errors[row.device, work.arithmetic].append(abs(seconds / row.seconds - 1))
    assert {kind: len(found) for kind, found in errors.items()} == {
        ("B200-SXM6-180GB", "bfloat16"): 375,
        ("B200-SXM6-180GB", "float8"): 375,
        ("B200-SXM6-180GB", "tf32"): 375,
        ("H100-SXM5-80GB", "bfloat16"): 375,
        ("H100-SXM5-80GB", "tf32"): 375,
        ("H100-SXM5-80GB", "float8"): 7,
        ("H100-SXM5-80GB", "float16"): 7,
    }
    assert all(median(found) < 0.15 for found in errors.values())


def test_networks_that_are_built_are_compared() -> None:
    assert Counter(row.run.network for row in recorded_networks()) == {
        "resnet50": 6,
        "alexnet_owt": 8,
        "bert-base": 12,
        "gpt2": 6,
    }
