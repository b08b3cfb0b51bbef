"""Convolutions beside the bare product of matrices with the same multiplications: `python -m tests.benchmarks.conv_bench`.

Both sides run in turn in the same process, the product with BLAS's own threads, and the best of several runs counts.  The
product's left side (the matrix of patches) stands ready; the convolution has to make it.  `--only TEXT` takes the layers whose
name has it; `!` marks a ratio over its limit.  Depthwise convolutions and poolings stand beside numpy's
multiplications, maxima or sums of whole arrays, as many as there are taps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import FLOAT
from placesim.graph.session_steps import Config
from placesim.ops.kernels import load_kernels
from placesim.ops.kernels.nn.correlation import correlate, correlate_back, correlate_filter
from placesim.ops.kernels.nn.windows import windows_of
from placesim.ops.process.denormals import flushing_denormals
from placesim.runtime.executors.thread_pools import PROCESS_POOLS

LIMITS = {"forward": 1.4, "input": 2.0, "filter": 2.0}
"""How many times the product's time a convolution and its gradients may take."""
TURNS = 3
"""How often either side is measured: what else the machine does comes and goes."""
SETTLING_SECONDS = 0.3
"""How long a side runs at least: only after a while has the system given each thread a processor."""
SPINNING_SECONDS = 0.2
"""Twice as long as OpenBLAS's threads look for more work before they sleep."""


class Layer(NamedTuple):
    """A convolution of square images by square filters, float32."""

    name: str
    size: int
    channels: int
    kernel: int
    stride: int
    padding: str
    filters: int


LAYERS = (
    Layer("alexnet conv1", 227, 3, 11, 4, "VALID", 96),
    Layer("alexnet conv2", 27, 96, 5, 1, "SAME", 256),
    Layer("alexnet conv3", 13, 256, 3, 1, "SAME", 384),
    Layer("alexnet conv4", 13, 384, 3, 1, "SAME", 384),
    Layer("alexnet conv5", 13, 384, 3, 1, "SAME", 256),
    Layer("resnet50 conv1", 224, 3, 7, 2, "SAME", 64),
    Layer("resnet50 2 reduce", 56, 256, 1, 1, "SAME", 64),
    Layer("resnet50 2 3x3", 56, 64, 3, 1, "SAME", 64),
    Layer("resnet50 2 expand", 56, 64, 1, 1, "SAME", 256),
    Layer("resnet50 3 shortcut", 56, 256, 1, 2, "SAME", 512),
    Layer("resnet50 3 3x3/2", 56, 128, 3, 2, "SAME", 128),
    Layer("resnet50 3 3x3", 28, 128, 3, 1, "SAME", 128),
    Layer("resnet50 4 shortcut", 28, 512, 1, 2, "SAME", 1024),
    Layer("resnet50 4 3x3/2", 28, 256, 3, 2, "SAME", 256),
    Layer("resnet50 4 3x3", 14, 256, 3, 1, "SAME", 256),
    Layer("resnet50 5 shortcut", 14, 1024, 1, 2, "SAME", 2048),
    Layer("resnet50 5 3x3/2", 14, 512, 3, 2, "SAME", 512),
    Layer("resnet50 5 3x3", 7, 512, 3, 1, "SAME", 512),
    Layer("resnet50 5 expand", 7, 512, 1, 1, "SAME", 2048),
    Layer("mobilenetv2 conv1", 224, 3, 3, 2, "SAME", 32),
    Layer("mobilenetv2 1 project", 112, 32, 1, 1, "SAME", 16),
    Layer("mobilenetv2 2 expand", 112, 16, 1, 1, "SAME", 96),
    Layer("mobilenetv2 2 project", 56, 96, 1, 1, "SAME", 24),
    Layer("mobilenetv2 4 expand", 28, 32, 1, 1, "SAME", 192),
    Layer("mobilenetv2 6 expand", 14, 96, 1, 1, "SAME", 576),
    Layer("mobilenetv2 7 project", 7, 960, 1, 1, "SAME", 320),
    Layer("mobilenetv2 head", 7, 320, 1, 1, "SAME", 1280),
)


class Neighbourhood(NamedTuple):
    """A depthwise convolution or a pooling of square images by square windows, float32."""

    name: str
    op: str
    size: int
    channels: int
    kernel: int
    stride: int
    padding: str


NEIGHBOURHOODS = (
    Neighbourhood("mobilenetv2 1 depthwise", "DepthwiseConv2dNative", 112, 32, 3, 1, "SAME"),
    Neighbourhood("mobilenetv2 2 depthwise", "DepthwiseConv2dNative", 112, 96, 3, 2, "SAME"),
    Neighbourhood("mobilenetv2 4 depthwise", "DepthwiseConv2dNative", 28, 192, 3, 1, "SAME"),
    Neighbourhood("mobilenetv2 7 depthwise", "DepthwiseConv2dNative", 7, 960, 3, 1, "SAME"),
    Neighbourhood("alexnet pool1", "MaxPool", 55, 96, 3, 2, "VALID"),
    Neighbourhood("alexnet pool2", "MaxPool", 27, 256, 3, 2, "VALID"),
    Neighbourhood("alexnet pool5", "MaxPool", 13, 256, 3, 2, "VALID"),
    Neighbourhood("resnet50 pool1", "MaxPool", 112, 64, 3, 2, "SAME"),
    Neighbourhood("resnet50 pool5", "AvgPool", 7, 2048, 7, 1, "VALID"),
    Neighbourhood("mobilenetv2 pool", "AvgPool", 7, 1280, 7, 1, "VALID"),
)
_STEPS = {"DepthwiseConv2dNative": np.multiply, "MaxPool": np.maximum, "AvgPool": np.add}
"""What is done to each cell under a window."""


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def best_seconds(function: Callable[[], Any], rounds: int) -> float:
    """The best of so many runs, and of as many as it takes for the system to give each thread a processor."""
    times: list[float] = []
    end = time.perf_counter() + SETTLING_SECONDS
    while len(times) < rounds or time.perf_counter() < end:
        times.append(seconds(function))
    return min(times)


def best_ratio(work: Callable[[], Any], product: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """(the product's milliseconds, the work's time as a multiple of it), each the best of several runs.

    The work runs as in a step.  Between the sides stands a pause: BLAS's threads spin for a while after a product.
    """
    products, works = [], []
    for _ in range(TURNS):
        products.append(best_seconds(product, rounds))
        time.sleep(SPINNING_SECONDS)
        with PROCESS_POOLS.intra_op(Config()).serving(), flushing_denormals():
            works.append(best_seconds(work, rounds))
    return min(products) * 1e3, min(works) / min(products)


def measure(layer: Layer, batch: int, rounds: int) -> Iterator[tuple[str, float, float]]:
    """(what, the product's milliseconds, ratio) for the convolution and its two gradients."""
    random = np.random.default_rng(0)
    size, kernel, stride = layer.size, layer.kernel, layer.stride
    windows = windows_of((size, size), (kernel, kernel), (stride, stride), (1, 1), layer.padding)
    outputs = windows[0].outputs
    tensor = random.random((batch, layer.size, layer.size, layer.channels), np.float32)
    filters = random.random((layer.kernel, layer.kernel, layer.channels, layer.filters), np.float32)
    grads = random.random((batch, outputs, outputs, layer.filters), np.float32)
    matrix, rows = filters.reshape(-1, layer.filters), grads.reshape(-1, layer.filters)
    patches = random.random((len(rows), len(matrix)), np.float32)
    yield "forward", *best_ratio(lambda: correlate(tensor, filters, windows), lambda: patches @ matrix, rounds)
    yield "input", *best_ratio(lambda: correlate_back(grads, filters, windows), lambda: rows @ matrix.T, rounds)
    yield "filter", *best_ratio(lambda: correlate_filter(tensor, grads, windows), lambda: patches.T @ rows, rounds)


def measure_neighbourhood(layer: Neighbourhood, batch: int, rounds: int) -> tuple[float, float]:
    """(the steps' milliseconds, the op's time as a multiple of them): the same steps on whole arrays, one a tap."""
    random = np.random.default_rng(0)
    kernel = load_kernels()[layer.op]
    tensor = random.random((batch, layer.size, layer.size, layer.channels), np.float32)
    filters = random.random((layer.kernel, layer.kernel, layer.channels, 1), np.float32)
    attrs = {
        "T": FLOAT,
        "padding": layer.padding,
        "data_format": "NHWC",
        "ksize": (1, layer.kernel, layer.kernel, 1),
        "strides": (1, layer.stride, layer.stride, 1),
        "dilations": (1, 1, 1, 1),
        "explicit_paddings": (),
    }
    inputs = (tensor, filters) if layer.op.startswith("Depthwise") else (tensor,)
    result = kernel.compute(inputs, attrs)[0]
    step, other, buffer = _STEPS[layer.op], random.random(result.shape, np.float32), np.empty_like(result)

    def steps() -> None:
        for _ in range(layer.kernel**2):
            step(result, other, out=buffer)

    return best_ratio(lambda: kernel.compute(inputs, attrs), steps, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'layer':22}" + "".join(f"{f'{what} (<= {limit})':>24}" for what, limit in LIMITS.items()))
    for layer in LAYERS:
        if options.only not in layer.name:
            continue
        cells = [
            f"{milliseconds:7.1f} ms x {ratio:4.2f}" + (" !" if ratio > LIMITS[what] else "  ")
            for what, milliseconds, ratio in measure(layer, options.batch, options.rounds)
        ]
        print(f"{layer.name:22}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
    print("beside the same steps on whole arrays")
    for row in NEIGHBOURHOODS:
        if options.only in row.name:
            milliseconds, ratio = measure_neighbourhood(row, options.batch, options.rounds)
            print(f"{row.name:26}{row.op:24}{milliseconds:7.1f} ms x {ratio:4.2f}", flush=True)


if __name__ == "__main__":
    main()
