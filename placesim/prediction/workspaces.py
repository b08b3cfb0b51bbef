"""Workspaces of cuDNN's convolutions: the most bytes that an algorithm requests, besides the tensors of its kernel.

TensorFlow measures the algorithms on the device and takes the fastest. One of them needs no workspace, so the lower bound is 0.
The upper bound is the largest workspace within TensorFlow's limit, estimated from the sizes of transformed tensors:

- explicit GEMM: the patches of one image, `[channels * filter taps, output pixels]`.
- Winograd, not fused, for filters of 3x3 and 5x5 without strides: each tile of 4x4 results becomes 6x6 or 8x8 elements, in
  images, filters and results (Lavin and Gray, arXiv:1509.09308).
- FFT in tiles, without strides: each tile of 32x32 elements becomes 32x17 complex numbers, in images, filters and results
  (Vasilache et al., arXiv:1412.7580).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from placesim.machine.memory.buffer_sources import JournalEntry
from placesim.prediction.node_shapes import node_shapes
from placesim.prediction.node_work import convolution_of
from placesim.prediction.work_amounts import COMPLEX_BYTES, Convolution
from placesim.runtime.recording.recorder import Execution

LIMIT_VARIABLE = "TF_CUDNN_WORKSPACE_LIMIT_IN_MB"
DEFAULT_LIMIT_MB = 4096
"""TensorFlow's limit of one kernel's workspace."""
_WINOGRAD_RESULTS = 4
_FFT_TILE = 32


def workspace_limit(environment: Mapping[str, str]) -> int:
    """Return the largest workspace in bytes that TensorFlow allows one kernel."""
    text = environment.get(LIMIT_VARIABLE, "")
    return (int(text) if text.isascii() and text.isdecimal() else DEFAULT_LIMIT_MB) << 20


def largest_workspaces(executions: Iterable[Execution], limit: int) -> dict[str, int]:
    """Return the maximum workspace in bytes of each convolution that ran on a GPU, by node name."""
    found: dict[str, int] = {}
    for execution in executions:
        site = execution.site
        if site is None or site.is_cpu or execution.is_dead:
            continue
        shapes = node_shapes(site, execution)
        sizes = convolution_of(shapes)
        if sizes is not None:
            most = max((size for size in workspaces(sizes, shapes.dtype.size) if size <= limit), default=0)
            found[site.name] = max(most, found.get(site.name, 0))
    return found


def workspaces(sizes: Convolution, element_bytes: int) -> Iterator[int]:
    """Yield the workspace of each algorithm in bytes."""
    pixels = sizes.out_height * sizes.out_width
    taps = sizes.filter_height * sizes.filter_width
    channels, filters = sizes.channels // sizes.groups, sizes.filters // sizes.groups
    if taps > 1:
        yield channels * taps * pixels * element_bytes
    if sizes.stride_height > 1 or sizes.stride_width > 1:
        return

    def transformed(results_per_side: int, bytes_per_tile: int) -> int:
        tiles = ceil(sizes.out_height / results_per_side) * ceil(sizes.out_width / results_per_side)
        planes = sizes.images * (channels + filters) * tiles + channels * filters
        return planes * bytes_per_tile

    side = sizes.filter_height
    if sizes.filter_height == sizes.filter_width and side in (3, 5):
        yield transformed(_WINOGRAD_RESULTS, (_WINOGRAD_RESULTS + side - 1) ** 2 * element_bytes)
    largest = max(sizes.filter_height, sizes.filter_width)
    if 1 < largest <= _FFT_TILE:
        yield transformed(_FFT_TILE - largest + 1, _FFT_TILE * (_FFT_TILE // 2 + 1) * COMPLEX_BYTES)


def highest_peak(journal: Iterable[JournalEntry], largest: Mapping[str, int]) -> int | None:
    """Return a device's peak if each convolution has its largest workspace while it runs; None without convolutions."""
    in_use = most = 0
    has_any = False
    for buffer, is_made, node, _ in journal:
        in_use += buffer.allocated if is_made else -buffer.allocated
        has_any = has_any or node in largest
        most = max(most, in_use + largest.get(node, 0))
    return most if has_any else None
