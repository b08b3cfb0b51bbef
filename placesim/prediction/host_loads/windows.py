"""Loads of depthwise convolutions and poolings, whose kernels pass over all windows once for each element of a window (tap)."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

from placesim.ops.kernels.blocks.work_parts import shares
from placesim.ops.kernels.nn.depthwise import blocks_of as depthwise_blocks_of
from placesim.ops.kernels.nn.pools import IMAGES_BYTES
from placesim.ops.kernels.nn.windows import layout_of
from placesim.prediction.host_loads.convolutions import convolution_of
from placesim.prediction.host_loads.load import TEMPORARY, Amounts, Load
from placesim.prediction.node_work import NodeShapes
from placesim.prediction.work_amounts import Direction

TAP_CALLS = {"pooling": 35, "volume pooling": 35, "max pooling gradient": 71, "average pooling gradient": 47}
"""Time of the code around the passes of a pooling's tap, in numpy calls, by kind."""


def depthwise(direction: Direction) -> Callable[[NodeShapes], Load]:
    """Return a rule for a depthwise convolution or one of its gradients.

    Each tap (filter element) is a pass that adds products to sums.  The pass's inner loop covers a row of windows or, with a
    stride, the channels of one window.
    """

    def load(node: NodeShapes) -> Load:
        c = convolution_of(node, direction)
        channels = c.results[-1]
        taps, made = prod(c.filters[:2]), prod(c.results)
        widened = (*c.images[:-1], channels)
        if direction == "input gradient":  # cells that are a stride apart form their own correlation with the gradients
            phases = prod(min(window.stride, window.kernel) for window in c.windows)
            blocks, run = phases * len(depthwise_blocks_of(c.results, c.windows, c.item)), c.results[2] * channels
        else:
            phases, blocks = 1, len(depthwise_blocks_of(widened, c.windows, c.item))
            run = channels * (c.windows[1].outputs if c.windows[1].stride == 1 else 1)
        shared = Amounts(call=blocks * 12, run=taps * made / run)
        shared.add(plain=taps * made, copied=prod(widened), piece=prod(widened[:2]))
        # cells and the filter's row are read, and a sum is read and written
        shared.stream(4 * taps * made * c.item, 2 * made * c.item / blocks)
        alone = Amounts(call=200 if direction == "input gradient" else 120)
        if channels != c.images[-1]:
            alone.add(copied=prod(widened), piece=prod(c.images))
        return Load("depthwise", alone, shared.touch(node), max(1, blocks // phases))

    return load


def pooling(node: NodeShapes) -> Load:
    """Return the load of a pooling or its gradient: for each element of a window (tap), a pass over all windows."""
    kind = node.cost.kind
    is_gradient = kind.endswith("gradient")
    images, results = (node.outputs[0], node.inputs[-1]) if is_gradient else (node.inputs[0], node.outputs[0])
    layout = layout_of(node.attrs.get("data_format", "NHWC"), len(images) - 2)
    sizes = layout.pick(node.attrs["ksize"])
    taps, made = prod(sizes), prod(results)
    walked = results if kind == "average pooling gradient" else images
    parts = min(walked[0], shares(ceil(prod(walked) * node.dtype.size / IMAGES_BYTES)))
    runs = prod(results[:-1]) if node.attrs["strides"][-2] > 1 else prod(results[:-2])
    # six passes: compare; spread the bit over a number (two); select the gradient; clear it; add it
    steps = 6.0 if kind == "max pooling gradient" else 1.0
    shared = Amounts(call=taps * parts * TAP_CALLS[kind], plain=taps * steps * made, run=taps * steps * runs)
    image = (prod(images) + prod(results)) / parts * node.dtype.size
    shared.stream(taps * steps * TEMPORARY * made * node.dtype.size, image)
    alone = Amounts(call=60)
    if kind == "max pooling gradient":  # the maxima are searched again first
        shared.add(plain=taps * made, run=taps * runs).stream(taps * TEMPORARY * made * node.dtype.size, image)
        alone.add(plain=2 * prod(images))
    return Load("pooling gradient" if is_gradient else "pooling", alone, shared.touch(node), parts)
