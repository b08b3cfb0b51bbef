"""Times of single kernels and whole steps on a GPU, as JSON lines: `python record_gpu.py --output FILE [--seconds 330]`.

Needs PyTorch with torchvision and nothing of placesim.  The first line names card, driver, versions, date and method; each
other line is a measurement.  A kernel's time is that of a CUDA graph with many launches of it, divided by their number: random
operands, several sets of them in turn where one would stay in the cache, the median of many replays after a warm-up.  Steps of
networks are launched by PyTorch one after another, and timed by events; `captured` is the time of a step whose launches are one
CUDA graph, so that nothing waits for the host.  Each section has a share of the seconds; its rows are in a shuffled order, so
what a late section leaves out is a sample.  With a seed other than 0 most sizes are drawn near the usual ones, so that rows can
be kept apart from those that constants are fitted to.  The clock and power are read while the last replays run.
`step kernel` lines are all kernels of a training step by PyTorch's op and its shapes, as PyTorch's profiler timed them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import gzip
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
import torchvision
from torch import nn

aten = torch.ops.aten
DEVICE = "cuda"
ROTATED_BYTES = 200e6
"""What the sets of operands hold together, so that no cache of 50 to 60 MiB keeps one until its next turn."""
MOST_SETS = 32
GRAPH_SECONDS = 2e-3
MOST_LAUNCHES = 256
WARM_SECONDS, TIMED_SECONDS = 0.01, 0.02
LONG_KERNEL = 1e-4
"""From here on a kernel may draw so much power that the clock falls: it is run three times as long."""
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8": torch.float8_e4m3fn,
    "int8": torch.int8,
}


class Row(NamedTuple):
    """A kernel to measure: what identifies it, and what makes a set of operands and launches the kernel on one."""

    labels: dict[str, Any]
    operands: Callable[[], tuple[Any, ...]]
    launch: Callable[..., Any]


class Board:
    """Clock (MHz) and power (W), where NVML answers."""

    def __init__(self) -> None:
        self._nvml: Any = None
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            self._nvml = pynvml

    def state(self) -> dict[str, int]:
        if self._nvml is None:
            return {}
        clock = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)
        return {"clock_mhz": clock, "watts": round(self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000)}

    def facts(self) -> dict[str, Any]:
        if self._nvml is None:
            return {}
        nvml, handle = self._nvml, self._handle
        return {
            "driver": nvml.nvmlSystemGetDriverVersion(),
            "most_clock_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "power_limit_watts": nvml.nvmlDeviceGetEnforcedPowerLimit(handle) // 1000,
            "celsius": nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        }


BOARD = Board()
STREAM = torch.cuda.Stream()
DRAWN = random.Random(0)
IS_VARIED = False
"""Whether sizes are drawn; `main` seeds `DRAWN`."""


def varied(*sizes: int, multiple: int = 8) -> tuple[int, ...]:
    """Sizes within half an octave of these; a multiple of `multiple` stays one, and an odd size needs not be odd."""
    if not IS_VARIED:
        return sizes
    found = []
    for size in sizes:
        drawn = size * 2 ** DRAWN.uniform(-0.5, 0.5)
        whole = multiple if size % multiple == 0 else 1
        found.append(max(1, round(drawn / whole)) * whole if size > 1 else 1)
    return tuple(found)


def set_tf32(is_on: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = is_on
    torch.backends.cudnn.allow_tf32 = is_on


def time_kernel(row: Row, *, as_graph: bool = True) -> dict[str, Any]:
    """Seconds of one launch: median, tenth and ninetieth percentile of the replays."""
    first = row.operands()
    held = sum(part.numel() * part.element_size() for part in first if isinstance(part, torch.Tensor))
    sets = [first] + [row.operands() for _ in range(min(MOST_SETS, math.ceil(ROTATED_BYTES / max(held, 1))) - 1)]
    torch.cuda.synchronize()  # the operands were made on another stream
    with torch.cuda.stream(STREAM):
        for operands in (first, sets[-1], first):
            row.launch(*operands)
        STREAM.synchronize()
        guess = between_events(lambda: [row.launch(*operands) for operands in (first, sets[-1])], 1)[0] / 2
        launches = max(1, min(MOST_LAUNCHES, math.ceil(GRAPH_SECONDS / guess)))
        launches = math.ceil(launches / len(sets)) * len(sets) if guess < LONG_KERNEL else launches
        sequence = [sets[number % len(sets)] for number in range(launches)]

        def launch_all() -> None:
            for operands in sequence:
                row.launch(*operands)

        run: Callable[[], Any] = launch_all
        graph = None
        if as_graph and guess < 0.05:
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            try:
                run()
            finally:
                graph.capture_end()
            run = graph.replay
        longer = 3 if guess > LONG_KERNEL else 1
        # the guess holds what PyTorch costs on the host: the replay tells
        once = between_events(run, 2)[1]
        for _ in range(min(400, math.ceil(longer * WARM_SECONDS / once))):
            run()
        times = between_events(run, max(3, min(200, math.ceil(longer * TIMED_SECONDS / once))), look=True)
        state = times.pop()
        if graph is not None:
            graph.reset()
    low, *_, high = statistics.quantiles(times, n=10, method="inclusive")
    return {
        "seconds": statistics.median(times) / launches,
        "low": low / launches,
        "high": high / launches,
        "launches": launches,
        "replays": len(times),
        "sets": len(sets),
        "graph": graph is not None,
        **state,
    }


def between_events(run: Callable[[], Any], times: int, *, look: bool = False) -> list[Any]:
    """Seconds of each of `times` runs; at the end, if `look`, the board's state while they ran."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    state = [BOARD.state()] if look else []
    events[-1].synchronize()
    return [start.elapsed_time(end) * 1e-3 for start, end in pairwise(events)] + state


def normal(*sizes: int, dtype: str, transposed: bool = False, last: bool = False) -> torch.Tensor:
    """Random numbers; `transposed`: the last two axes lie the other way round; `last`: channels are adjacent in memory."""
    shape = (*sizes[:-2], sizes[-1], sizes[-2]) if transposed else sizes
    if dtype == "int8":
        made = torch.randint(-128, 127, shape, dtype=torch.int8, device=DEVICE)
    else:
        made = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16 if dtype == "float8" else DTYPES[dtype]).to(DTYPES[dtype])
    made = made.mT if transposed else made
    return made.contiguous(memory_format=torch.channels_last) if last else made


# matrix products ------------------------------------------------------------------------------------------------------------

SQUARES = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
TALL = [(tokens, h, k) for tokens in (512, 2048, 8192) for hidden in (768, 1024, 2048, 4096)
        for h, k in ((hidden, hidden), (4 * hidden, hidden), (hidden, 4 * hidden))]  # fmt: skip
LARGE = ((4096, 14336, 4096), (4096, 4096, 14336), (8192, 28672, 8192), (2048, 24576, 1536), (4096, 7168, 16384))
THIN = [(m, n, k) for m in (1, 8, 16, 64) for n, k in ((1024, 1024), (4096, 4096), (16384, 4096), (4096, 16384), (32000, 1024))]
WAVES = [(m, 4096, 4096) for m in range(1920, 2945, 128)] + [(m, 1024, 1024) for m in (128, 640, 1152, 2176, 4224)]
# fmt: off
ODD = ((1000, 1000, 1000), (1023, 1023, 1023), (1025, 1025, 1025), (2047, 2047, 2047), (2049, 2049, 2049), (4095, 4095, 4095),
       (4097, 4097, 4097), (5000, 5000, 5000), (8192, 50257, 768), (8192, 50304, 768), (4100, 4100, 4100),
       (4104, 4104, 4104))
# fmt: on
DEPTHS = [(4096, 4096, k) for k in (64, 128, 256, 512, 1024, 2048)] + [(1024, 1024, k) for k in (256, 4096, 16384, 65536)]
MAIN_PRODUCTS = tuple(dict.fromkeys([*((n, n, n) for n in SQUARES), *TALL, *LARGE, *THIN, *WAVES, *ODD, *DEPTHS]))
BATCHED = ((96, 128, 128, 64), (96, 128, 64, 128), (96, 512, 512, 64), (96, 512, 64, 512), (384, 128, 128, 64),
           (384, 512, 512, 64), (192, 1024, 1024, 64), (192, 1024, 64, 1024), (64, 2048, 2048, 128), (64, 2048, 128, 2048),
           (64, 128, 128, 128), (64, 256, 256, 256), (64, 512, 512, 512), (64, 1024, 1024, 1024), (16, 2048, 2048, 2048),
           (1024, 64, 64, 64), (4096, 32, 32, 32))  # fmt: skip


def products() -> Iterator[Row]:
    for arithmetic in ("bfloat16", "tf32", "float16", "float32"):
        for m, n, k in MAIN_PRODUCTS:
            yield product((1, *varied(m, n, k)), arithmetic)
        for sizes in BATCHED:
            yield product(varied(*sizes), arithmetic)
    for size in [(n, n, n) for n in (2048, 4096, 8192)] + [(8192, 4096, 1024), (1024, 4096, 8192), (64, 4096, 4096)]:
        for arithmetic in ("bfloat16", "float32", "tf32"):
            for layout in ("NT", "TN"):
                yield product((1, *varied(*size)), arithmetic, layout)
    for m, n, k in MAIN_PRODUCTS:
        if m % 16 == n % 16 == k % 16 == 0:
            for fast in (True, False) if (m, n, k) in TALL or m == n == k else (True,):
                yield float8_product(varied(m, n, k, multiple=16), fast)
    for n in SQUARES[:-1]:
        if n >= 512:
            yield product((1, *varied(n, n, n)), "int8")
        if n <= 8192:
            yield product((1, *varied(n, n, n)), "float64")
    for n in (1000, 1023, 1536):
        yield product((1, *varied(n, 2 * n, n)), "float64")
    if IS_VARIED:
        for m, n, k in (*TALL, *THIN, *DEPTHS):
            if max(m, n, k) <= 16384:
                yield product((1, *varied(m, n, k)), "float64")
                if m >= 64:
                    yield product((1, *varied(m, n, k)), "int8")
        for _ in range(DRAWN_PRODUCTS):
            m, n, k = (16 * round(2 ** DRAWN.uniform(1, 9)) for _ in range(3))
            yield product((1, m, n, k), "int8")
            yield float8_product((m, n, k), True)
        for _ in range(30):
            short = tuple(8 * round(2 ** DRAWN.uniform(2, 7)) for _ in range(3))
            for arithmetic in ("tf32", "float32", "float64", "bfloat16"):
                yield product((1, *short), arithmetic)


DRAWN_PRODUCTS = 60


def product(sizes: tuple[int, ...], arithmetic: str, layout: str = "NN") -> Row:
    """`[m, k] @ [k, n]`, as often as the first size says; a `T` of the layout is an operand that lies transposed in memory."""

    batch, m, n, k = sizes
    outer = (batch,) if batch > 1 else ()

    def operands() -> tuple[torch.Tensor, torch.Tensor]:
        return (
            normal(*outer, m, k, dtype=arithmetic, transposed=layout[0] == "T"),
            normal(*outer, k, n, dtype=arithmetic, transposed=layout[1] == "T" or arithmetic == "int8"),
        )

    labels = {"op": "matmul", "arithmetic": arithmetic, "batch": batch, "m": m, "n": n, "k": k, "layout": layout}
    return Row(labels, operands, torch._int_mm if arithmetic == "int8" else torch.matmul)


def float8_product(sizes: tuple[int, ...], fast: bool) -> Row:
    m, n, k = sizes

    def operands() -> tuple[torch.Tensor, ...]:
        one = torch.ones((), device=DEVICE)
        return normal(m, k, dtype="float8"), normal(k, n, dtype="float8", transposed=True), one, one

    def launch(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, b, scale_a=x, scale_b=y, out_dtype=torch.bfloat16, use_fast_accum=fast)

    labels = {"op": "matmul", "arithmetic": "float8", "batch": 1, "m": m, "n": n, "k": k, "layout": "NT", "fast": fast}
    return Row(labels, operands, launch)


# convolutions ---------------------------------------------------------------------------------------------------------------

LAYERS = (
    # network, channels, side of the image, filters, side of the filter, stride, groups
    ("resnet50", 3, 224, 64, 7, 2, 1), ("resnet50", 64, 56, 64, 1, 1, 1), ("resnet50", 64, 56, 64, 3, 1, 1),
    ("resnet50", 64, 56, 256, 1, 1, 1), ("resnet50", 256, 56, 128, 1, 1, 1), ("resnet50", 128, 56, 128, 3, 2, 1),
    ("resnet50", 256, 56, 512, 1, 2, 1), ("resnet50", 128, 28, 128, 3, 1, 1), ("resnet50", 512, 28, 128, 1, 1, 1),
    ("resnet50", 256, 14, 256, 3, 1, 1), ("resnet50", 256, 14, 1024, 1, 1, 1), ("resnet50", 1024, 14, 512, 1, 1, 1),
    ("resnet50", 512, 7, 512, 3, 1, 1), ("resnet50", 512, 7, 2048, 1, 1, 1),
    ("alexnet", 3, 224, 64, 11, 4, 1), ("alexnet", 64, 27, 192, 5, 1, 1), ("alexnet", 192, 13, 384, 3, 1, 1),
    ("alexnet", 384, 13, 256, 3, 1, 1),
    ("vgg16", 3, 224, 64, 3, 1, 1), ("vgg16", 64, 224, 64, 3, 1, 1), ("vgg16", 128, 112, 128, 3, 1, 1),
    ("vgg16", 256, 56, 256, 3, 1, 1), ("vgg16", 512, 28, 512, 3, 1, 1), ("vgg16", 512, 14, 512, 3, 1, 1),
    ("mobilenet", 32, 112, 32, 3, 1, 32), ("mobilenet", 96, 112, 96, 3, 2, 96), ("mobilenet", 192, 28, 192, 3, 1, 192),
    ("mobilenet", 960, 7, 960, 3, 1, 960), ("resnext50", 128, 56, 128, 3, 1, 32), ("resnext50", 512, 14, 512, 3, 1, 32),
)  # fmt: skip
PADDINGS = {("alexnet", 11): 2}


def convolutions() -> Iterator[Row]:
    forms = (("float32", False), ("tf32", False), ("tf32", True), ("bfloat16", True), ("float16", True), ("float16", False))
    for number, layer in enumerate(LAYERS):
        for arithmetic, last in forms:
            for batch in (32, 1, 256) if number % 2 == 0 else (32,):
                if (batch != 32 and (arithmetic, last) in forms[-2:]) or (batch == 256 and layer[:4] == LAYERS[19][:4]):
                    continue
                for direction in ("forward", "input gradient", "filter gradient"):
                    images, side = varied(batch, layer[2])
                    yield convolution((*layer[:2], side, *layer[3:]), images, arithmetic, last, direction)


def convolution(
    layer: tuple[str, int, int, int, int, int, int], batch: int, arithmetic: str, last: bool, direction: str
) -> Row:
    network, channels, side, filters, extent, stride, groups = layer
    padding = PADDINGS.get((network, extent), extent // 2)
    out = (side + 2 * padding - extent) // stride + 1

    def operands() -> tuple[torch.Tensor, ...]:
        images = normal(batch, channels, side, side, dtype=arithmetic, last=last)
        kernel = normal(filters, channels // groups, extent, extent, dtype=arithmetic, last=last)
        return (
            images,
            kernel,
            *([] if direction == "forward" else [normal(batch, filters, out, out, dtype=arithmetic, last=last)]),
        )

    def launch(images: torch.Tensor, kernel: torch.Tensor, gradient: torch.Tensor | None = None) -> Any:
        if gradient is None:
            return F.conv2d(images, kernel, None, stride, padding, 1, groups)
        mask = [direction == "input gradient", direction == "filter gradient", False]
        both = [stride] * 2, [padding] * 2, [1, 1]
        return aten.convolution_backward(gradient, images, kernel, None, *both, False, [0, 0], groups, mask)

    labels = {"op": "conv", "direction": direction, "arithmetic": arithmetic, "channels_last": last, "network": network,
              "n": batch, "c": channels, "h": side, "w": side, "k": filters, "fh": extent, "fw": extent, "stride": stride,
              "oh": out, "ow": out, "groups": groups}  # fmt: skip
    return Row(labels, operands, launch)


# what moves bytes -----------------------------------------------------------------------------------------------------------

EXPONENTS = (10, 14, 16, 18, 20, 22, 24, 26, 28)


def streams() -> Iterator[Row]:
    """`bytes` are those that a kernel has to read and write, each once."""
    unary = {"relu": torch.relu, "gelu": F.gelu, "exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
             "copy": torch.clone, "scale": lambda x: x * 2.5}  # fmt: skip
    binary = {"add": torch.add, "mul": torch.mul, "greater": torch.greater}
    for exponent in EXPONENTS:
        (count,) = varied(1 << exponent)
        for dtype in ("float32", "bfloat16"):
            for name, function in unary.items():
                if dtype == "float32" or name in ("relu", "gelu", "copy"):
                    yield stream(name, dtype, {"elements": count}, 2 * count, [(count,)], function)
            for name, function in binary.items():
                if dtype == "float32" or name == "add":
                    moved = 3 * count if name != "greater" else 2.25 * count
                    yield stream(name, dtype, {"elements": count}, moved, [(count,)] * 2, function)
        yield stream(
            "cast to bfloat16", "float32", {"elements": count}, 1.5 * count, [(count,)], lambda x: x.to(torch.bfloat16)
        )
        yield stream("cast to float32", "bfloat16", {"elements": count}, 3 * count, [(count,)], lambda x: x.to(torch.float32))
        yield stream("add of a number", "float32", {"elements": count}, 2 * count, [(count,)], lambda x: x + 1.5)
        yield stream("fill", "float32", {"elements": count}, count, [(count,)], torch.zeros_like)
        yield stream("sum of all", "float32", {"elements": count}, count, [(count,)], torch.sum)
        yield stream(
            "dropout", "float32", {"elements": count}, 2.25 * count, [(count,)], lambda x: torch.native_dropout(x, 0.5, True)
        )
    for usual in GRIDS:
        yield from grid_streams(*varied(*usual))
    for table, width, count in ((50000, 768, 512), (50000, 768, 8192), (50000, 768, 65536), (1000000, 128, 4096),
                                (1000000, 128, 262144), (10000000, 32, 65536), (10000000, 32, 1048576)):  # fmt: skip
        (count,) = varied(count)
        yield gather(table, width, count, is_sum=False)
        yield gather(table, width, count, is_sum=True)


def grid_streams(rows: int, columns: int) -> Iterator[Row]:
    """What is done to a matrix by rows or columns, or with a row or a column."""
    whole, shape = rows * columns, {"rows": rows, "columns": columns}
    for dtype in ("float32", "bfloat16"):
        yield stream("sum of rows", dtype, shape, whole + rows, [(rows, columns)], lambda x: x.sum(1))
        yield stream("sum of columns", dtype, shape, whole + columns, [(rows, columns)], lambda x: x.sum(0))
        yield stream("softmax", dtype, shape, 2 * whole, [(rows, columns)], lambda x: torch.softmax(x, 1))
        yield stream("softmax gradient", dtype, shape, 3 * whole, [(rows, columns)] * 2,
                     lambda g, y, t=DTYPES[dtype]: aten._softmax_backward_data(g, y, 1, t))  # fmt: skip
        yield stream("layer normalization", dtype, shape, 2 * whole, [(rows, columns), (columns,), (columns,)],
                     lambda x, w, b: torch.native_layer_norm(x, x.shape[1:], w, b, 1e-5))  # fmt: skip
        yield layer_norm_gradient(rows, columns, dtype)
        yield stream("transpose", dtype, shape, 2 * whole, [(rows, columns)], lambda x: x.mT.contiguous())
        yield stream("bias", dtype, shape, 2 * whole + columns, [(rows, columns), (columns,)], torch.add)
    yield stream("product with a column", "float32", shape, 2 * whole + rows, [(rows, columns), (rows, 1)], torch.mul)
    yield stream("sum of a row and a column", "float32", shape, whole, [(rows, 1), (1, columns)], torch.add)
    yield stream("max of rows", "float32", shape, whole + rows, [(rows, columns)], lambda x: x.amax(1))
    yield stream("argmax of rows", "float32", shape, whole + 2 * rows, [(rows, columns)], lambda x: x.argmax(1))
    yield stream("cumulative sum", "float32", shape, 2 * whole, [(rows, columns)], lambda x: x.cumsum(1))
    yield stream("concatenation", "float32", shape, 4 * whole, [(rows, columns)] * 2, lambda x, y: torch.cat((x, y), 1))
    yield stream("slice", "float32", shape, whole, [(rows, columns)], lambda x: x[:, : x.shape[1] // 2].contiguous())


def drawn_grids() -> Iterator[Row]:
    """The same for grids of any size, and kernels of TensorFlow's kind."""
    for _ in range(DRAWN_GRIDS):
        columns = 2 ** DRAWN.uniform(3, 13)
        rows = 2 ** DRAWN.uniform(max(4, 12 - math.log2(columns)), min(18, 27 - math.log2(columns)))
        width = round(columns / 8) * 8 if DRAWN.random() < WHOLE_OCTETS else round(columns)
        yield from grid_streams(round(rows), width)
        yield from indexed_kernels(round(rows), width)


DRAWN_GRIDS, WHOLE_OCTETS = 20, 0.75
GRIDS = ((128, 1000), (1024, 1024), (8192, 768), (8192, 1024), (4096, 4096), (49152, 128), (49152, 512), (196608, 1024),
         (8192, 50304), (256, 65536), (32, 1048576), (16777216, 8))  # fmt: skip


def stream(name: str, dtype: str, shape: dict[str, int], moved: float, sizes: Sequence[tuple[int, ...]],
           function: Callable[..., Any]) -> Row:  # fmt: skip
    """`moved` is counted in elements."""
    labels = {"op": name, "type": dtype, **shape, "bytes": round(moved * DTYPES[dtype].itemsize)}
    return Row(labels, lambda: tuple(normal(*size, dtype=dtype) for size in sizes), function)


INDEXED = """
#define EACH(i) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
extern "C" {
__global__ void bias_of_columns(const T* x, const T* bias, T* y, int count, int columns) {
    EACH(i) y[i] = x[i] + bias[i % columns];
}
__global__ void bias_of_planes(const T* x, const T* bias, T* y, int count, int columns, int planes) {
    EACH(i) y[i] = x[i] + bias[(i / columns) % planes];
}
__global__ void swap_middle_axes(const T* x, T* y, int count, int outer, int inner, int columns) {
    EACH(i) {
        int column = i % columns, rest = i / columns;
        int first = rest % outer, second = rest / outer % inner, batch = rest / outer / inner;
        y[i] = x[((batch * outer + first) * inner + second) * columns + column];
    }
}
__global__ void transpose_tiles(const T* x, T* y, int rows, int columns) {
    __shared__ T tile[32][33];
    long offset = (long)blockIdx.z * rows * columns;
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8)
        if (column < columns && row + step < rows)
            tile[threadIdx.y + step][threadIdx.x] = x[offset + (long)(row + step) * columns + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8)
        if (column < rows && row + step < columns)
            y[offset + (long)(row + step) * rows + column] = tile[threadIdx.x][threadIdx.y + step];
}
}
"""
"""One thread for each element, which finds its operands by divisions, and transposes by way of shared memory: kernels of the
kind that TensorFlow has for `BiasAdd` and `Transpose`.  Numbers of two bytes are added as integers, in the same time."""
WORDS = {"float32": ("float", torch.float32), "float16": ("unsigned short", torch.int16)}
HEAD_DEPTH, IMAGES_OF_GRID = 64, 8


@functools.cache
def indexed(name: str, dtype: str) -> Callable[..., None]:
    word = WORDS[dtype][0]
    made: Callable[..., None] = torch.cuda._compile_kernel(INDEXED.replace("T ", f"{word} ").replace("T*", f"{word}*"), name)
    return made


def indexed_kernels(rows: int, columns: int) -> Iterator[Row]:
    count, threads = rows * columns, 1024
    units = torch.cuda.get_device_properties(0).multi_processor_count
    grid = (min(2 * units, math.ceil(count / threads)), 1, 1), (threads, 1, 1)
    heads = max(1, columns // HEAD_DEPTH)
    length = max(1, rows // IMAGES_OF_GRID)
    tokens = IMAGES_OF_GRID * length * heads * HEAD_DEPTH
    tiles = (math.ceil(columns / 32), math.ceil(length / 32), IMAGES_OF_GRID), (32, 8, 1)
    for dtype in WORDS:
        yield indexed_row("bias of columns", dtype, (rows, columns), columns, grid, (count, columns))
        yield indexed_row("bias of planes", dtype, (rows, columns), rows, grid, (count, columns, rows))
        shape, sizes = (IMAGES_OF_GRID * length, heads * HEAD_DEPTH), (tokens, length, heads, HEAD_DEPTH)
        yield indexed_row("swap of middle axes", dtype, shape, 0, grid, sizes)
        yield indexed_row("transpose in tiles", dtype, (IMAGES_OF_GRID * length, columns), 0, tiles, (length, columns))


def indexed_row(name: str, dtype: str, shape: tuple[int, int], bias: int, grid: Any, sizes: tuple[int, ...]) -> Row:
    """A kernel of `INDEXED`; `bias`: the numbers in its second operand, 0 for none."""
    kind = WORDS[dtype][1]
    kernel = {"transpose in tiles": "transpose_tiles", "swap of middle axes": "swap_middle_axes"}.get(
        name, name.replace(" ", "_")
    )

    def operands() -> tuple[torch.Tensor, ...]:
        parts = [torch.ones(shape, dtype=kind, device=DEVICE) for _ in range(2)]
        return (parts[0], torch.ones(bias, dtype=kind, device=DEVICE), parts[1]) if bias else tuple(parts)

    moved = (2 * shape[0] * shape[1] + bias) * kind.itemsize
    labels = {"op": name, "type": dtype, "rows": shape[0], "columns": shape[1], "bytes": moved, "sizes": sizes}
    return Row(labels, operands, lambda *parts: indexed(kernel, dtype)(*grid, [*parts, *sizes]))


def layer_norm_gradient(rows: int, columns: int, dtype: str) -> Row:
    def operands() -> tuple[Any, ...]:
        x, w, g = normal(rows, columns, dtype=dtype), normal(columns, dtype=dtype), normal(rows, columns, dtype=dtype)
        _, mean, deviation = torch.native_layer_norm(x, (columns,), w, w, 1e-5)
        return g, x, (columns,), mean, deviation, w, w, [True, True, True]

    moved = 3 * rows * columns * DTYPES[dtype].itemsize
    labels = {"op": "layer normalization gradient", "type": dtype, "rows": rows, "columns": columns, "bytes": moved}
    return Row(labels, operands, aten.native_layer_norm_backward)


def gather(table: int, width: int, count: int, *, is_sum: bool) -> Row:
    """All sets of indices read one table, so that only they are counted among the operands."""
    weights: list[torch.Tensor] = []

    def operands() -> tuple[Any, ...]:
        if not weights:
            weights.append(torch.randn((table, width), device=DEVICE))
        indices = torch.randint(0, table, (count,), device=DEVICE)
        return (indices, normal(count, width, dtype="float32")) if is_sum else (indices,)

    def launch(indices: torch.Tensor, rows: torch.Tensor | None = None) -> Any:
        return weights[0].index_select(0, indices) if rows is None else weights[0].index_add_(0, indices, rows)

    labels = {"op": "sum into rows" if is_sum else "gather", "type": "float32", "table": table, "columns": width, "rows": count}
    return Row({**labels, "bytes": (12 if is_sum else 8) * width * count + 8 * count}, operands, launch)


IMAGES = ((32, 64, 112), (32, 256, 56), (32, 512, 28), (32, 1024, 14), (32, 2048, 7), (256, 64, 112), (256, 256, 56),
          (256, 2048, 7), (1, 64, 112), (1, 256, 56))  # fmt: skip


def image_layers() -> Iterator[Row]:
    for usual in IMAGES:
        batch, channels, side = varied(*usual)
        for dtype, last in (("float32", False), ("float32", True), ("bfloat16", True), ("float16", False)):
            yield image_layer("batch normalization", batch, channels, side, dtype, last)
            yield image_layer("batch normalization gradient", batch, channels, side, dtype, last)
            yield image_layer("to the other layout", batch, channels, side, dtype, last)
            if side > 7:
                for name in ("max pooling", "max pooling gradient", "average pooling", "average pooling gradient"):
                    if name.startswith("max") or dtype == "float32":
                        yield image_layer(name, batch, channels, side, dtype, last)
            yield image_layer("mean of images", batch, channels, side, dtype, last)


def image_layer(name: str, batch: int, channels: int, side: int, dtype: str, last: bool) -> Row:
    """Pooling is of windows of 3 by 3 at every second pixel, as in ResNet."""
    whole, size = batch * channels * side * side, DTYPES[dtype].itemsize
    out = (side - 1) // 2 + 1
    pooled = batch * channels * out * out

    def images(extent: int = side) -> torch.Tensor:
        return normal(batch, channels, extent, extent, dtype=dtype, last=last)

    def channel() -> torch.Tensor:
        return torch.rand(channels, device=DEVICE) + 0.5

    window = ([3, 3], [2, 2], [1, 1])
    if name == "batch normalization":
        row: tuple[Any, Any, float] = (
            lambda: (images(), channel(), channel(), channel(), channel()),
            lambda x, w, b, m, v: torch.batch_norm(x, w, b, m, v, True, 0.1, 1e-5, True),
            2 * whole * size,
        )
    elif name == "batch normalization gradient":
        row = (
            lambda: (images(), images(), channel(), channel(), channel(), channel(), channel()),
            lambda g, x, w, rm, rv, m, s: aten.native_batch_norm_backward(
                g, x, w, rm, rv, m, s, True, 1e-5, [True, True, True]
            ),
            3 * whole * size,
        )
    elif name == "to the other layout":
        other = torch.contiguous_format if last else torch.channels_last
        row = (lambda: (images(),), lambda x: x.contiguous(memory_format=other), 2 * whole * size)
    elif name == "mean of images":
        row = (lambda: (images(),), lambda x: x.mean((2, 3)), (whole + batch * channels) * size)
    elif name == "max pooling":
        row = (lambda: (images(),), lambda x: F.max_pool2d(x, 3, 2, 1), (whole + pooled) * size)
    elif name == "average pooling":
        row = (lambda: (images(),), lambda x: F.avg_pool2d(x, 3, 2, 1), (whole + pooled) * size)
    elif name == "max pooling gradient":

        def with_indices() -> tuple[torch.Tensor, ...]:
            x = images()
            return images(out), x, aten.max_pool2d_with_indices(x, *window)[1]

        row = (
            with_indices,
            lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, *window, [1, 1], False, i),
            2 * (whole + pooled) * size,
        )
    else:
        row = (
            lambda: (images(out), images()),
            lambda g, x: aten.avg_pool2d_backward(g, x, *window, False, True, None),
            (whole + pooled) * size,
        )
    labels = {"op": name, "type": dtype, "channels_last": last, "n": batch, "c": channels, "h": side, "w": side}
    return Row({**labels, "bytes": row[2]}, row[0], row[1])


ATTENTIONS = ((8, 12, 128, 64), (32, 12, 128, 64), (8, 12, 512, 64), (8, 12, 1024, 64), (8, 16, 2048, 64), (4, 16, 4096, 128),
              (2, 32, 8192, 128), (1, 32, 2048, 128), (1, 32, 16384, 128), (64, 16, 197, 64))  # fmt: skip


def attentions() -> Iterator[Row]:
    for sizes in ATTENTIONS:
        for is_causal in (False, True):
            for dtype in ("bfloat16", "float16", "float32", "tf32"):
                if sizes[2] <= 2048 or dtype in ("bfloat16", "float16"):
                    yield attention(sizes, dtype, is_causal, "fused")
                if sizes[2] <= 4096 and not is_causal:
                    yield attention(sizes, dtype, is_causal, "composed")
                if dtype in ("bfloat16",) or (dtype == "float32" and sizes[2] <= 1024):
                    yield attention(sizes, dtype, is_causal, "fused gradient")


def attention(sizes: tuple[int, int, int, int], dtype: str, is_causal: bool, form: str) -> Row:
    """Queries, keys and values are each `[batch, heads, length, depth]`."""

    def operands() -> tuple[Any, ...]:
        three = tuple(normal(*sizes, dtype=dtype) for _ in range(3))
        if form != "fused gradient":
            return three
        q, k, v = (part.requires_grad_() for part in three)
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal), q, k, v, normal(*sizes, dtype=dtype)

    def composed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax((q @ k.mT) * sizes[-1] ** -0.5, -1) @ v

    def gradient(made: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> Any:
        return torch.autograd.grad(made, (q, k, v), g, retain_graph=True)

    def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    b, h, s, d = sizes
    labels = {
        "op": "attention",
        "form": form,
        "arithmetic": dtype,
        "causal": is_causal,
        "batch": b,
        "heads": h,
        "length": s,
        "depth": d,
    }
    forms: dict[str, Callable[..., Any]] = {"fused": fused, "composed": composed, "fused gradient": gradient}
    return Row(labels, operands, forms[form])


# recurrent layers -----------------------------------------------------------------------------------------------------------


def recurrent_layers() -> Iterator[Row]:
    for hidden in (256, 512, 1024, 1536, 2048):
        for batch, steps in ((16, 35), (64, 50), (128, 25)):
            for dtype in ("float32", "tf32", "bfloat16"):
                for direction in ("forward", "both gradients"):
                    yield recurrent_layer(varied(hidden, batch, steps), dtype, direction)


def recurrent_layer(sizes: tuple[int, ...], dtype: str, direction: str) -> Row:
    """An LSTM of cuDNN whose inputs are as wide as it is."""
    hidden, batch, steps = sizes

    def operands() -> tuple[Any, ...]:
        layer = nn.LSTM(hidden, hidden, device=DEVICE, dtype=DTYPES[dtype])
        x, g = (normal(steps, batch, hidden, dtype=dtype) for _ in range(2))
        if direction == "forward":
            return layer, x
        x.requires_grad_()
        return layer(x)[0], [x, *layer.parameters()], g

    def gradient(made: torch.Tensor, of: list[torch.Tensor], g: torch.Tensor) -> Any:
        return torch.autograd.grad(made, of, g, retain_graph=True)

    def forward(layer: nn.LSTM, x: torch.Tensor) -> Any:
        return layer(x)[0]  # with what its gradient needs

    labels = {"op": "lstm", "direction": direction, "arithmetic": dtype, "hidden": hidden, "batch": batch, "steps": steps}
    return Row(labels, operands, forward if direction == "forward" else gradient)


# transfers between host and device ------------------------------------------------------------------------------------------


def measure_transfers() -> Iterator[dict[str, Any]]:
    """Pageable copies wait for their end on the host, so a host's clock times all; each is the median of several."""
    for exponent in (2, 10, 14, 16, 18, 20, 22, 24, 26, 28, 30):
        size = 1 << exponent
        for is_pinned in (True, False):
            host = torch.randint(0, 255, (size,), dtype=torch.uint8)
            host = host.pin_memory() if is_pinned else host
            there = torch.randint(0, 255, (size,), dtype=torch.uint8, device=DEVICE)
            for direction, (to, source) in {"to device": (there, host), "to host": (host, there)}.items():
                times = []
                for _ in range(3 + (20 if exponent < 24 else 5)):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    to.copy_(source, non_blocking=is_pinned)
                    torch.cuda.synchronize()
                    times.append(time.perf_counter() - start)
                labels = {"op": "transfer", "direction": direction, "pinned": is_pinned, "bytes": size}
                yield {**labels, "seconds": statistics.median(times[3:]), "low": min(times[3:]), "high": max(times[3:])}


# launches -------------------------------------------------------------------------------------------------------------------


def measure_launches() -> Iterator[dict[str, Any]]:
    """Seconds a launch where the device has next to nothing to do: by PyTorch one by one (`host`), and inside a graph."""
    small = torch.randn(16, 16, device=DEVICE)
    images, kernel = torch.randn(1, 8, 8, 8, device=DEVICE), torch.randn(8, 8, 3, 3, device=DEVICE)
    out = torch.empty_like(small)
    cases: dict[str, Callable[[], Any]] = {
        "add": lambda: torch.add(small, small, out=out),
        "add, new result": lambda: small + small,
        "matmul": lambda: torch.mm(small, small, out=out),
        "conv": lambda: F.conv2d(images, kernel, padding=1),
        "softmax": lambda: torch.softmax(small, 1),
        "sum": lambda: small.sum(),
    }
    for name, function in cases.items():
        count = 1000
        for _ in range(20):
            function()
        torch.cuda.synchronize()
        found = []
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(count):
                function()
            queued = time.perf_counter() - start
            torch.cuda.synchronize()
            found.append(((time.perf_counter() - start) / count, queued / count))
        seconds, on_host = (statistics.median(part) for part in zip(*found, strict=True))
        yield {"op": "launch", "of": name, "how": "one by one", "seconds": seconds, "host_seconds": on_host}
        yield {"op": "launch", "of": name, "how": "graph", **time_kernel(Row({}, tuple, function))}
        yield {"op": "launch", "of": name, "how": "queued", "seconds": queued_seconds(function)}
    for exponent in range(10, 25, 2):
        x, made = torch.randn(1 << exponent, device=DEVICE), torch.empty(1 << exponent, device=DEVICE)
        seconds = queued_seconds(lambda x=x, made=made: torch.add(x, x, out=made))  # type: ignore[misc]
        yield {"op": "launch", "of": "add", "elements": 1 << exponent, "how": "queued", "seconds": seconds}
    times = []
    for _ in range(50):
        start = time.perf_counter()
        torch.add(small, small, out=out)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    yield {"op": "launch", "of": "add", "how": "and wait for its end", "seconds": statistics.median(times)}


def queued_seconds(function: Callable[[], Any], count: int = 300) -> float:
    """Seconds of one of many launches that wait in the stream behind a long kernel, so that none waits for the host."""
    found: list[float] = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(40_000_000)  # clocks: about 20 ms
        start.record()
        for _ in range(count):
            function()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) * 1e-3 / count)
    return statistics.median(found)


# networks -------------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A layer of a transformer: attention, then two products with GELU; normalized before each (GPT-2) or after (BERT)."""

    def __init__(self, width: int, heads: int, *, is_causal: bool, is_fused: bool) -> None:
        super().__init__()
        self.heads, self.is_causal, self.is_fused = heads, is_causal, is_fused
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        if self.is_fused:
            made = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        else:
            scores = (q @ k.mT) * (width // self.heads) ** -0.5
            if self.is_causal:
                scores = scores.masked_fill(torch.ones(length, length, device=x.device).triu(1).bool(), float("-inf"))
            made = scores.softmax(-1) @ v
        return self.project(made.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_causal:
            x = x + self.attend(self.first(x))
            return x + self.down(F.gelu(self.up(self.second(x))))
        x = self.first(x + self.attend(x))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Transformer(nn.Module):
    """Embeddings of words and positions, layers, and a product with the vocabulary at every position."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, *, is_causal: bool, is_fused: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, width // 64, is_causal=is_causal, is_fused=is_fused) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


class RootMeanSquare(nn.Module):
    """T5's normalization: rows divided by the root of their mean square, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        single = x.float()
        return self.scale * (single * torch.rsqrt(single.square().mean(-1, keepdim=True) + 1e-6))


class T5Layer(nn.Module):
    """Attention to oneself and, in the decoder, to what the encoder made; then two products with ReLU.  No biases."""

    def __init__(self, width: int, is_decoder: bool) -> None:
        super().__init__()
        self.heads, attentions = width // 64, 2 if is_decoder else 1
        self.norms = nn.ModuleList(RootMeanSquare(width) for _ in range(attentions + 1))
        self.products = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4 * attentions))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def attend(self, x: torch.Tensor, source: torch.Tensor, number: int, added: torch.Tensor | None) -> torch.Tensor:
        query, key, value, out = self.products[4 * number : 4 * number + 4]
        split = [part.unflatten(-1, (self.heads, 64)).transpose(1, 2) for part in (query(x), key(source), value(source))]
        scores = split[0] @ split[1].mT
        scores = scores if added is None else scores + added
        return out((scores.float().softmax(-1).type_as(scores) @ split[2]).transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor, added: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
        normal = self.norms[0](x)
        x = x + self.attend(normal, normal, 0, added)
        if memory is not None:
            x = x + self.attend(self.norms[1](x), memory, 1, None)
        return x + self.down(F.relu(self.up(self.norms[-1](x))))


class T5(nn.Module):
    """An encoder and a decoder that share a table of words; the decoder's text is a quarter as long.

    What is added to the scores for the distance of two words is made once by each, from a table of 32 distances.
    """

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.words, self.width = nn.Embedding(words, width), width
        self.distances = nn.ModuleList(nn.Embedding(32, width // 64) for _ in range(2))
        self.sides = nn.ModuleList(nn.ModuleList(T5Layer(width, side == 1) for _ in range(layers)) for side in range(2))
        self.norms = nn.ModuleList(RootMeanSquare(width) for _ in range(2))

    def added(self, length: int, side: int, like: torch.Tensor) -> torch.Tensor:
        place = torch.arange(length, device=like.device)
        between = place - place[:, None]
        made = self.distances[side](between.abs().clamp(max=31)).permute(2, 0, 1)[None]
        return made + torch.where(between > 0, -1e9, 0.0) if side else made

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        memory = None
        for side, words in enumerate((tokens, tokens[:, : tokens.shape[1] // 4])):
            x = self.words(words)
            added = self.added(words.shape[1], side, x)
            for layer in self.sides[side]:
                x = layer(x, added, memory)
            memory = self.norms[side](x)
        return F.linear(memory * self.width**-0.5, self.words.weight)


class LanguageModel(nn.Module):
    """Embeddings, two recurrent layers and a product with the vocabulary at every position."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.layers = nn.LSTM(width, width, num_layers=2, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.words(tokens))[0])


TRANSFORMERS = {"bert-base": (30522, 768, 12), "bert-large": (30522, 1024, 24), "gpt2": (50257, 768, 12)}
"""Words, width and layers."""
T5_SIZES = {"t5-small": (32128, 512, 6), "t5-base": (32128, 768, 12)}
LANGUAGE_MODELS = {"lstm-650": 650, "lstm-1500": 1500}
LANGUAGE_WORDS = 10000


class NetworkCase(NamedTuple):
    network: str
    batch: int
    length: int
    mode: str
    is_training: bool
    last: bool = False
    is_fused: bool = True


def network_cases() -> Iterator[NetworkCase]:
    batches: tuple[int, ...] = (64, 256, 32)
    if IS_VARIED:
        batches = (*varied(64), *batches)
    for batch in batches:
        is_first = batch == batches[0]
        for mode, last in (("tf32", False), ("bfloat16", True), ("float32", False), ("tf32", True)):
            for is_training in (True, False):
                if is_training or not is_first:
                    yield NetworkCase("resnet50", batch, 224, mode, is_training, last)
                if not last or mode == "bfloat16":
                    yield NetworkCase("alexnet", batch, 224, mode, is_training, last)
        for mode in ("tf32", "bfloat16", "float32"):
            for is_training in (True, False):
                for name, images, length in (
                    ("bert-base", batch // 4, 512),
                    ("bert-base", batch, 128),
                    ("gpt2", batch // 8, 1024),
                ):
                    if mode != "float32" or is_first:
                        if not IS_VARIED:
                            yield NetworkCase(name, images, length, mode, is_training, is_fused=True)
                        if is_first and mode != "float32":
                            yield NetworkCase(name, images, length, mode, is_training, is_fused=False)
        if is_first:
            for mode in ("tf32", "bfloat16"):
                for is_training in (True, False):
                    yield NetworkCase("t5-base", batch // 4, 512, mode, is_training, is_fused=False)
                    yield NetworkCase("t5-small", batch, 256, mode, is_training, is_fused=False)
                    yield NetworkCase("bert-large", batch // 4, 384, mode, is_training, is_fused=False)
                    if not IS_VARIED:
                        yield NetworkCase("vit_b_16", 64, 224, mode, is_training)
            for name in ("mobilenet_v2", "vgg16", "densenet121", "resnet18", "inception_v3"):
                for mode, last in (("tf32", False), ("bfloat16", True)):
                    for is_training in (True, False):
                        yield NetworkCase(name, batch, 224, mode, is_training, last)
            for mode in ("tf32", "bfloat16"):
                for is_training in (True, False):
                    yield NetworkCase("lstm-650", 20, 35, mode, is_training)
                    yield NetworkCase("lstm-1500", 64, 35, mode, is_training)


def profiled_cases() -> Iterator[NetworkCase]:
    """Training steps whose kernels are told."""
    for mode, last in (("tf32", False), ("bfloat16", True)):
        for name, batch, length, is_fused in (
            ("mobilenet_v2", 64, 224, True), ("gpt2", 8, 1024, False), ("bert-base", 16, 512, False),
            ("t5-base", 16, 512, False), ("resnet50", 64, 224, True), ("alexnet", 64, 224, True),
        ):  # fmt: skip
            yield NetworkCase(name, batch, length, mode, True, last and is_fused, is_fused)


def made_network(case: NetworkCase) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The network on the device, inputs and labels."""
    batch, length = case.batch, case.length
    with torch.device(DEVICE):
        if case.network in TRANSFORMERS:
            words, width, layers = TRANSFORMERS[case.network]
            is_causal = case.network == "gpt2"
            model: nn.Module = Transformer(words, length, width, layers, is_causal=is_causal, is_fused=case.is_fused)
        elif case.network in T5_SIZES:
            words, width, layers = T5_SIZES[case.network]
            model = T5(words, width, layers)
            return model, torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch * (length // 4),))
        elif case.network in LANGUAGE_MODELS:
            words = LANGUAGE_WORDS
            model = LanguageModel(words, LANGUAGE_MODELS[case.network])
        else:
            more = {"aux_logits": False, "init_weights": False} if case.network == "inception_v3" else {}
            model = getattr(torchvision.models, case.network)(**more)
            return model, torch.randn(batch, 3, length, length), torch.randint(0, 1000, (batch,))
        return model, torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch * length,))


class Step(NamedTuple):
    """Runs a step: forward, and in training the loss, gradients and an update (momentum; Adam for transformers)."""

    parameters: int
    run: Callable[[], None]


def made_step(case: NetworkCase) -> Step:
    model, inputs, labels = made_network(case)
    model = model.train(case.is_training)
    if case.last:
        model, inputs = (part.to(memory_format=torch.channels_last) for part in (model, inputs))
    optimizer: Any = torch.optim.SGD(model.parameters(), 1e-3, 0.9)
    if case.network in TRANSFORMERS or case.network in T5_SIZES:
        optimizer = torch.optim.Adam(model.parameters(), 1e-4, capturable=True)

    def cast() -> Any:
        return torch.autocast(DEVICE, torch.bfloat16, enabled=case.mode == "bfloat16", cache_enabled=False)

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        with cast():
            made = model(inputs)
            loss = F.cross_entropy(made.reshape(-1, made.shape[-1]).float(), labels)
        loss.backward()
        optimizer.step()

    def infer() -> None:
        with torch.no_grad(), cast():
            model(inputs)

    return Step(sum(part.numel() for part in model.parameters()), train if case.is_training else infer)


def measure_network(case: NetworkCase) -> dict[str, Any]:
    parameters, run = made_step(case)
    found = {**case._asdict(), "op": "network", "parameters": parameters}
    with torch.cuda.stream(STREAM):
        for _ in range(4):
            run()
        torch.cuda.synchronize()
        once = between_events(run, 2)[1]
        for _ in range(math.ceil(0.1 / once)):
            run()
        steps = max(6, min(40, math.ceil(0.4 / once)))
        torch.cuda.synchronize()
        start = time.perf_counter()
        times = between_events(run, steps, look=True)
        state, whole = times.pop(), time.perf_counter() - start
    memory = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    low, *_, high = statistics.quantiles(times, n=10, method="inclusive")
    # with a mean over all steps, what waits for the host counts where it falls
    return {**found, "seconds": whole / steps, "median": statistics.median(times), "low": low, "high": high,
            "steps": steps, "peak_bytes": memory, **state, **captured_step(run)}  # fmt: skip


def captured_step(run: Callable[[], None]) -> dict[str, Any]:
    """Seconds of a step as one CUDA graph, or the error of capturing it."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=STREAM):
            run()
    except Exception as error:
        torch.cuda.synchronize()
        return {"capture_error": f"{type(error).__name__}: {str(error)[:200]}"}
    with torch.cuda.stream(STREAM):
        once = between_events(graph.replay, 3)[2]
        times = between_events(graph.replay, max(5, min(60, math.ceil(0.3 / once))), look=True)
        state = times.pop()
    graph.reset()
    return {"captured": statistics.median(times), **{f"captured_{name}": value for name, value in state.items()}}


def step_kernels(case: NetworkCase) -> Iterator[dict[str, Any]]:
    """The step's time, then each kind of kernel in it: how often it ran, and the seconds of all."""
    yield measure_network(case)
    _, run = made_step(case)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.cuda.stream(STREAM):
        for _ in range(4):
            run()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
            run()
            torch.cuda.synchronize()
    found: dict[tuple[str, str, str], list[float]] = {}
    for event in profile.events():
        for kernel in event.kernels:
            shapes = " ".join("x".join(map(str, shape)) for shape in event.input_shapes[:MOST_SHAPES] if shape)
            found.setdefault((event.name, shapes[:MOST_LETTERS], kernel.name[:MOST_LETTERS]), []).append(kernel.duration * 1e-6)
    on_device = sum(event.self_device_time_total for event in profile.key_averages()) * 1e-6
    labels = {"op": "step kernel", **case._asdict()}
    yield {**labels, "of": "all", "times": sum(map(len, found.values())), "total": on_device}
    for (of, shapes, kernel), times in sorted(found.items(), key=lambda item: -sum(item[1])):
        yield {**labels, "of": of, "shapes": shapes, "kernel": kernel, "times": len(times), "total": sum(times)}


MOST_SHAPES, MOST_LETTERS = 4, 90


# all ------------------------------------------------------------------------------------------------------------------------


class Recording:
    """The lines of the file, and until when each section may go on."""

    def __init__(self, path: Path, seconds: float, every: int, only: list[str]) -> None:
        self._file = gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w")  # noqa: SIM115
        self.seconds, self.every = seconds, every
        self.only = only or list(SHARES)
        self.shares = sum(SHARES[name] for name in self.only)

    def write(self, line: dict[str, Any]) -> None:
        rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in line.items()}
        self._file.write(json.dumps(rounded) + "\n")
        self._file.flush()

    def section(
        self,
        name: str,
        made: Callable[[], Iterator[Any]],
        measure: Callable[[Any], Iterable[dict[str, Any]]],
        *,
        shuffles: bool = True,
    ) -> None:
        """Each row is tried; one that fails is a line with its error."""
        rows = list(made())  # in any case, so that a seed draws the same sizes whatever else is recorded
        if shuffles:
            DRAWN.shuffle(rows)
        if name not in self.only:
            return
        end = time.monotonic() + SHARES[name] / self.shares * self.seconds
        done = failed = 0
        waiting = list(reversed(rows[:: self.every]))
        rows.clear()
        while waiting and time.monotonic() < end:
            row = waiting.pop()  # whose table is to go with it
            try:
                for line in measure(row):
                    self.write(line)
                done += 1
            except Exception as error:
                labels = row.labels if isinstance(row, Row) else row._asdict()
                self.write({**labels, "error": f"{type(error).__name__}: {str(error)[:300]}"})
                failed += 1
            if torch.cuda.memory_reserved() > 40e9:
                torch.cuda.empty_cache()
        left = end - time.monotonic()
        print(f"{name}: {done} done, {failed} failed, {len(waiting)} not reached, {left:.0f} s left", flush=True)

    def lines(self, name: str, measure: Callable[[], Iterator[dict[str, Any]]]) -> None:
        """Measurements that take a few seconds and are all made."""
        if name not in self.only:
            return
        start = time.monotonic()
        try:
            for line in measure():
                self.write(line)
        except Exception as error:
            self.write({"op": name, "error": f"{type(error).__name__}: {str(error)[:300]}"})
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)

    def close(self) -> None:
        self._file.close()


SHARES = {
    "products": 0.21, "streams": 0.13, "convolutions": 0.21, "layers of images": 0.05, "attention": 0.03, "grids": 0.2,
    "recurrent layers": 0.04, "launches": 0.0, "transfers": 0.0, "step kernels": 0.25, "networks": 0.30,
}  # fmt: skip
"""Of the seconds, beside those of the other sections that are recorded; a section without one is made whole, in seconds."""


def measure_kernel(row: Row) -> Iterator[dict[str, Any]]:
    arithmetic = row.labels.get("arithmetic", row.labels.get("type", ""))
    set_tf32(arithmetic == "tf32")
    as_graph = row.labels["op"] != "lstm" and not str(row.labels.get("form", "")).endswith("gradient")
    yield {**row.labels, **time_kernel(row, as_graph=as_graph)}


def with_tf32(measure: Callable[[NetworkCase], Iterator[dict[str, Any]]]) -> Callable[[NetworkCase], Iterator[dict[str, Any]]]:
    def measured(case: NetworkCase) -> Iterator[dict[str, Any]]:
        set_tf32(case.mode != "float32")
        try:
            yield from measure(case)
        finally:
            gc.collect()

    return measured


def facts() -> dict[str, Any]:
    found: dict[str, Any] = {"recorded": "GPU kernels and steps", "date": time.strftime("%Y-%m-%d"), "torch": torch.__version__}
    found["torchvision"] = torchvision.__version__
    card = torch.cuda.get_device_properties(0)
    found |= {"card": card.name, "memory_bytes": card.total_memory, "multiprocessors": card.multi_processor_count}
    found |= {"l2_bytes": card.L2_cache_size, "compute_capability": f"{card.major}.{card.minor}"}
    found |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), **BOARD.facts()}
    return {**found, "method": " ".join((__doc__ or "").split("  ", 1)[-1].split())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=330.0, help="of all sections together, beside PyTorch's start")
    parser.add_argument("--every", type=int, default=1, help="only each such row, to try the script")
    parser.add_argument("--seed", type=int, default=0, help="of the sizes; 0: the usual ones")
    parser.add_argument("--only", action="append", default=[], choices=SHARES, help="a section; without it, all")
    args = parser.parse_args()
    global IS_VARIED
    IS_VARIED = args.seed != 0
    DRAWN.seed(args.seed)
    torch.backends.mha.set_fastpath_enabled(False)
    torch.backends.cudnn.benchmark = True
    gc.collect()
    gc.freeze()
    gc.disable()
    recording = Recording(args.output, args.seconds, args.every, args.only)
    recording.write({**facts(), "seed": args.seed})
    kernels = measure_kernel
    with torch.no_grad():
        recording.section("products", products, kernels)
        recording.section("streams", streams, kernels)
        recording.section("convolutions", convolutions, kernels)
        recording.section("layers of images", image_layers, kernels)
        recording.section("grids", drawn_grids, kernels)
    recording.section("attention", attentions, kernels)
    recording.section("recurrent layers", recurrent_layers, kernels)
    recording.lines("launches", measure_launches)
    recording.lines("transfers", measure_transfers)
    recording.section("step kernels", profiled_cases, with_tf32(step_kernels), shuffles=False)
    recording.section("networks", network_cases, with_tf32(lambda case: iter([measure_network(case)])), shuffles=False)
    recording.write({"recorded": "end", **BOARD.facts(), **BOARD.state()})
    recording.close()


if __name__ == "__main__":
    main()
