"""Published networks by name -> graph files: `build("resnet50", 64)`, forward alone or a whole training step.

Names are timm's and TensorFlow's benchmarks'.  Only what a framework runs op by op is here, from sizes that the papers and the
models' own code give; a name that no rule makes gives None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from tests.benchmarks.network_tape import Layout, Numerics, Padding, Size, Tape, Tensor

Body = Callable[[Tape], Tensor]
CLASSES = 1000


class Architecture(NamedTuple):
    """What makes a network: its family, what leads from images to logits, and the pixels that it is given by default.

    A transformer is trained with Adam.  One of texts, with `width` numbers a word, knows `classes` words; `pixels` is then the
    length of a text.
    """

    family: str
    body: Body
    pixels: int = 224
    classes: int = CLASSES
    width: int = 0


class BuiltNetwork(NamedTuple):
    """A graph file's mapping, with the network's parameters and the multiplications of its forward pass."""

    graph: Mapping[str, Any]
    parameters: int
    multiply_adds: int


def build(
    name: str,
    batch: int,
    *,
    is_training: bool = False,
    has_update: bool = True,
    layout: Layout = "NCHW",
    numerics: Numerics | None = None,
    pixels: int | None = None,
) -> BuiltNetwork | None:
    """The network as a graph, None where no rule makes one of that name."""
    found = architecture(name)
    if found is None:
        return None
    side = pixels or found.pixels
    dims = (batch, side, found.width) if found.width else (batch, side, side, 3)
    is_transformer = found.family == "Transformer"
    tape = Tape(dims, layout, numerics or Numerics(), is_training=is_training, is_transformer=is_transformer)
    return BuiltNetwork(tape.finish(logits_of(found, tape), has_update=has_update), tape.parameters, tape.multiply_adds)


def logits_of(network: Architecture, tape: Tape) -> Tensor:
    """The network's results for each class."""
    features = network.body(tape)
    return tape.linear(features, network.classes) if len(features.dims) == 2 else tape.flat(features)


def architecture(name: str) -> Architecture | None:
    """The rule for a name."""
    plain = _PREFIX.sub("", name.removeprefix("timm/"))
    for pattern, rule in _RULES:
        match = re.fullmatch(pattern, plain)
        if match and (found := rule(match)) is not None:
            return found
    return None


_PREFIX = re.compile(r"^(gluon_|tv_|ssl_|swsl_|ig_|adv_|tf_(?=inception))")


# --- layers that several networks share -------------------------------------------------------------------------------


def unit(
    tape: Tape, x: Tensor, filters: int, size: Size, stride: int = 1, padding: Padding | None = None, groups: int = 1
) -> Tensor:
    """A convolution with batch normalization and ReLU."""
    return tape.relu(normalized(tape, x, filters, size, stride, padding, groups))


def normalized(
    tape: Tape, x: Tensor, filters: int, size: Size, stride: int = 1, padding: Padding | None = None, groups: int = 1
) -> Tensor:
    """A convolution with batch normalization."""
    return tape.normalization(tape.convolution(x, filters, size, stride, padding, groups))


def gated(tape: Tape, x: Tensor, squeezed: int) -> Tensor:
    """Squeeze and excitation: each channel times a gate that the means of all channels make."""
    means = tape.mean(x, keeps_dims=True)
    narrow = tape.relu(tape.convolution(means, squeezed, 1, has_bias=True))
    gate = tape.unary(tape.convolution(narrow, x.dims[-1], 1, has_bias=True), "Sigmoid")
    return tape.scaled(x, gate)


def octaves(channels: float, divisor: int = 8) -> int:
    """A multiple of 8 near by, which is at least 90 % of it."""
    found = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * channels else found


# --- AlexNet, OverFeat, VGG -------------------------------------------------------------------------------------------


def one_tower_alexnet(tape: Tape) -> Tensor:
    """AlexNet without groups, as "one weird trick" has it."""
    x = tape.relu(tape.convolution(tape.input, 64, 11, 4, 2, has_bias=True))
    x = tape.pool(x, 3, 2)
    x = tape.pool(tape.relu(tape.convolution(x, 192, 5, has_bias=True)), 3, 2)
    for filters in (384, 256, 256):
        x = tape.relu(tape.convolution(x, filters, 3, has_bias=True))
    return dense(tape, tape.pool(x, 3, 2), 4096, 4096)


def benchmark_alexnet(tape: Tape) -> Tensor:
    """AlexNet as tf_cnn_benchmarks builds it: the first convolution without padding, 384 filters in the fourth."""
    x = tape.relu(tape.convolution(tape.input, 64, 11, 4, "VALID", has_bias=True))
    x = tape.pool(x, 3, 2)
    x = tape.pool(tape.relu(tape.convolution(x, 192, 5, has_bias=True)), 3, 2)
    for filters in (384, 384, 256):
        x = tape.relu(tape.convolution(x, filters, 3, has_bias=True))
    return dense(tape, tape.pool(x, 3, 2), 4096, 4096)


def grouped_alexnet(tape: Tape) -> Tensor:
    """AlexNet as published, in two groups, with its response normalization."""
    x = tape.relu(tape.convolution(tape.input, 96, 11, 4, "VALID", has_bias=True))
    x = tape.pool(tape.response_normalization(x), 3, 2)
    x = tape.relu(tape.convolution(x, 256, 5, groups=2, has_bias=True))
    x = tape.pool(tape.response_normalization(x), 3, 2)
    x = tape.relu(tape.convolution(x, 384, 3, has_bias=True))
    x = tape.relu(tape.convolution(x, 384, 3, groups=2, has_bias=True))
    x = tape.relu(tape.convolution(x, 256, 3, groups=2, has_bias=True))
    return dense(tape, tape.pool(x, 3, 2), 4096, 4096)


def overfeat(tape: Tape) -> Tensor:
    """OverFeat's fast network."""
    x = tape.pool(tape.relu(tape.convolution(tape.input, 96, 11, 4, "VALID", has_bias=True)), 2, 2)
    x = tape.pool(tape.relu(tape.convolution(x, 256, 5, 1, "VALID", has_bias=True)), 2, 2)
    for filters in (512, 1024, 1024):
        x = tape.relu(tape.convolution(x, filters, 3, has_bias=True))
    return dense(tape, tape.pool(x, 2, 2), 3072, 4096)


def dense(tape: Tape, x: Tensor, *units: int) -> Tensor:
    """Fully connected layers with ReLU."""
    x = tape.flat(x)
    for count in units:
        x = tape.relu(tape.linear(x, count))
    return x


VGG_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(tape: Tape, depth: int, *, has_normalization: bool) -> Tensor:
    """VGG: 3 by 3 alone."""
    x = tape.input
    for filters, layers in zip((64, 128, 256, 512, 512), VGG_STAGES[depth], strict=True):
        for _ in range(layers):
            x = tape.convolution(x, filters, 3, has_bias=True)
            x = tape.relu(tape.normalization(x) if has_normalization else x)
        x = tape.pool(x, 2, 2)
    return dense(tape, x, 4096, 4096)


# --- ResNet and its kin -----------------------------------------------------------------------------------------------

RESNET_STAGES = {
    14: (1, 1, 1, 1),
    18: (2, 2, 2, 2),
    26: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}


class ResNet(NamedTuple):
    """`stem` are the filters of three 3 by 3 convolutions, empty for one of 7 by 7; `averages_shortcut`: pooling before the
    shortcut's 1 by 1; `width`: channels of a group in the first stage; `squeezes`: gates; `strides_first`: the stride in the
    first 1 by 1, else in the 3 by 3."""

    depth: int
    stem: tuple[int, ...] = ()
    averages_shortcut: bool = False
    groups: int = 1
    width: int = 64
    squeezes: bool = False
    strides_first: bool = False

    @property
    def is_basic(self) -> bool:
        return self.depth in {18, 34}

    def body(self, tape: Tape) -> Tensor:
        x = tape.input
        if self.stem:
            for number, filters in enumerate(self.stem):
                x = unit(tape, x, filters, 3, 1 if number else 2)
        else:
            x = unit(tape, x, 64, 7, 2)
        x = tape.pool(x, 3, 2, 1)
        for stage, blocks in enumerate(RESNET_STAGES[self.depth]):
            for block in range(blocks):
                x = self._block(tape, x, 64 << stage, 2 if stage and not block else 1)
        return tape.mean(x)

    def _block(self, tape: Tape, x: Tensor, planes: int, stride: int) -> Tensor:
        made = planes if self.is_basic else 4 * planes
        shortcut = x
        if stride > 1 or x.dims[-1] != made:
            if self.averages_shortcut and stride > 1:
                shortcut = normalized(tape, tape.pool(x, 2, stride, "SAME", "AvgPool"), made, 1)
            else:
                shortcut = normalized(tape, x, made, 1, stride)
        if self.is_basic:
            y = normalized(tape, unit(tape, x, planes, 3, stride), planes, 3)
        else:
            width = planes * self.width // 64 * self.groups
            first, second = (stride, 1) if self.strides_first else (1, stride)
            y = unit(tape, unit(tape, x, width, 1, first), width, 3, second, None, self.groups)
            y = normalized(tape, y, made, 1)
        if self.squeezes:
            y = gated(tape, y, octaves(made / 16))
        return tape.relu(tape.add(y, shortcut))


def preactivated_resnet(tape: Tape, depth: int, stem: tuple[int, ...], *, averages_shortcut: bool) -> Tensor:
    """ResNet v2: normalization and ReLU before each convolution."""
    x = tape.input
    if stem:
        for number, filters in enumerate(stem):
            x = tape.convolution(x, filters, 3, 1 if number else 2)
            x = tape.relu(tape.normalization(x)) if number < len(stem) - 1 else x
    else:
        x = tape.convolution(x, 64, 7, 2)
    x = tape.pool(x, 3, 2, 1)
    is_basic = depth in {18, 34}
    for stage, blocks in enumerate(RESNET_STAGES[depth]):
        for block in range(blocks):
            planes = 64 << stage
            made, stride = planes if is_basic else 4 * planes, 2 if stage and not block else 1
            active = tape.relu(tape.normalization(x))
            shortcut = x
            if stride > 1 or x.dims[-1] != made:
                base = tape.pool(active, 2, stride, "SAME", "AvgPool") if averages_shortcut and stride > 1 else active
                shortcut = tape.convolution(base, made, 1, 1 if averages_shortcut else stride)
            if is_basic:
                y = tape.convolution(active, planes, 3, stride)
            else:
                y = tape.convolution(active, planes, 1)
                y = tape.convolution(tape.relu(tape.normalization(y)), planes, 3, stride)
            y = tape.convolution(tape.relu(tape.normalization(y)), made, 3 if is_basic else 1)
            x = tape.add(y, shortcut)
    return tape.mean(tape.relu(tape.normalization(x)))


DENSENETS = {
    121: (32, 64, (6, 12, 24, 16)),
    161: (48, 96, (6, 12, 36, 24)),
    169: (32, 64, (6, 12, 32, 32)),
    201: (32, 64, (6, 12, 48, 32)),
    264: (48, 96, (6, 12, 64, 48)),
}


def densenet(tape: Tape, depth: int) -> Tensor:
    """DenseNet: each layer reads all before it."""
    growth, stem, stages = DENSENETS[depth]
    x = tape.pool(unit(tape, tape.input, stem, 7, 2), 3, 2, 1)
    for stage, layers in enumerate(stages):
        parts = [x]
        for _ in range(layers):
            every = tape.joined(parts) if len(parts) > 1 else parts[0]
            y = tape.convolution(tape.relu(tape.normalization(every)), 4 * growth, 1)
            parts.append(tape.convolution(tape.relu(tape.normalization(y)), growth, 3))
        x = tape.relu(tape.normalization(tape.joined(parts)))
        if stage < len(stages) - 1:
            x = tape.pool(tape.convolution(x, x.dims[-1] // 2, 1), 2, 2, "VALID", "AvgPool")
    return tape.mean(x)


# --- MobileNet and RegNet ---------------------------------------------------------------------------------------------


def mobilenet_v1(tape: Tape, width: float) -> Tensor:
    """Depthwise and 1 by 1 convolutions in turn."""
    x = unit(tape, tape.input, octaves(32 * width), 3, 2)
    rows = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
    for filters, stride in rows:
        x = unit(tape, x, x.dims[-1], 3, stride, None, x.dims[-1])
        x = unit(tape, x, octaves(filters * width), 1)
    return tape.mean(x)


def mobilenet_v2(tape: Tape, width: float, depth: float, *, fixes_ends: bool) -> Tensor:
    """Inverted residuals; `fixes_ends` leaves stem and head at their width."""
    relu6 = partial(tape.relu, op="Relu6")
    x = relu6(normalized(tape, tape.input, 32 if fixes_ends else octaves(32 * width), 3, 2))
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for number, (expansion, filters, repeats, stride) in enumerate(rows):
        # the first and the last stage keep their one block
        count = repeats if number in {0, len(rows) - 1} else int(-(-repeats * depth // 1))
        for block in range(count):
            made, wide = octaves(filters * width), x.dims[-1] * expansion
            y = relu6(normalized(tape, x, wide, 1)) if expansion > 1 else x
            step = 1 if block else stride
            y = relu6(normalized(tape, y, wide, 3, step, None, wide))
            y = normalized(tape, y, made, 1)
            x = tape.add(x, y) if step == 1 and x.dims[-1] == made else y
    return tape.mean(relu6(normalized(tape, x, 1280 if fixes_ends else max(1280, octaves(1280 * width)), 1)))


REGNETS = {
    # first width, slope, multiplier, width of a group, blocks
    "x_002": (24, 36.44, 2.49, 8, 13),
    "x_004": (24, 24.48, 2.54, 16, 22),
    "x_006": (48, 36.97, 2.24, 24, 16),
    "x_008": (56, 35.73, 2.28, 16, 16),
    "x_016": (80, 34.01, 2.25, 24, 18),
    "x_032": (88, 26.31, 2.25, 48, 25),
    "x_040": (96, 38.65, 2.43, 40, 23),
    "x_064": (184, 60.83, 2.07, 56, 17),
    "x_080": (80, 49.56, 2.88, 120, 23),
    "x_120": (168, 73.36, 2.37, 112, 19),
    "x_160": (216, 55.59, 2.1, 128, 22),
    "x_320": (320, 69.86, 2.0, 168, 23),
    "y_002": (24, 36.44, 2.49, 8, 13),
    "y_004": (48, 27.89, 2.09, 8, 16),
    "y_006": (48, 32.54, 2.32, 16, 15),
    "y_008": (56, 38.84, 2.4, 16, 14),
    "y_016": (48, 20.71, 2.65, 24, 27),
    "y_032": (80, 42.63, 2.66, 24, 21),
    "y_040": (96, 31.41, 2.24, 64, 22),
    "y_064": (112, 33.22, 2.27, 72, 25),
    "y_080": (192, 76.82, 2.19, 56, 17),
    "y_120": (168, 73.36, 2.37, 112, 19),
    "y_160": (200, 106.23, 2.48, 112, 18),
    "y_320": (232, 115.89, 2.53, 232, 20),
}


def regnet(tape: Tape, first: int, slope: float, multiplier: float, group: int, blocks: int, *, squeezes: bool) -> Tensor:
    """RegNet: widths that grow along a line, rounded to powers of a multiplier and then to whole groups."""
    widths: list[int] = []
    for block in range(blocks):
        power = 0
        # the power whose width is nearest on a logarithmic scale
        while first * multiplier ** (power + 0.5) <= first + slope * block:
            power += 1
        widths.append(round(first * multiplier**power / 8) * 8)
    x = unit(tape, tape.input, 32, 3, 2)
    for number, wanted in enumerate(widths):
        size = min(group, wanted)
        width = round(wanted / size) * size
        is_first = not number or widths[number - 1] != wanted
        stride, entered = 2 if is_first else 1, x.dims[-1]
        y = unit(tape, unit(tape, x, width, 1), width, 3, stride, None, width // size)
        if squeezes:
            y = gated(tape, y, round(entered / 4))
        y = normalized(tape, y, width, 1)
        shortcut = normalized(tape, x, width, 1, stride) if stride > 1 or entered != width else x
        x = tape.relu(tape.add(y, shortcut))
    return tape.mean(x)


# --- Inception --------------------------------------------------------------------------------------------------------

GOOGLENET = (
    # 1x1; 3x3 after; 5x5 after; pool's 1x1
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)


def googlenet(tape: Tape, *, has_normalization: bool, last_size: int, has_response: bool = False) -> Tensor:
    """Inception v1; `last_size` is that of its widest filters, 5 as published."""

    def layer(x: Tensor, filters: int, size: int, stride: int = 1) -> Tensor:
        if has_normalization:
            return unit(tape, x, filters, size, stride)
        return tape.relu(tape.convolution(x, filters, size, stride, has_bias=True))

    x = tape.pool(layer(tape.input, 64, 7, 2), 3, 2, "SAME")
    x = tape.response_normalization(x) if has_response else x
    x = layer(layer(x, 64, 1), 192, 3)
    x = tape.response_normalization(x) if has_response else x
    x = tape.pool(x, 3, 2, "SAME")
    for row in GOOGLENET:
        if not row:
            x = tape.pool(x, 3, 2, "SAME")
            continue
        one, three_in, three, five_in, five, pooled = row
        wide = layer(layer(x, five_in, 1), five, last_size)
        beside = layer(tape.pool(x, 3, 1, "SAME"), pooled, 1)
        x = tape.joined([layer(x, one, 1), layer(layer(x, three_in, 1), three, 3), wide, beside])
    return tape.mean(x)


def inception_v3(tape: Tape) -> Tensor:
    """Inception v3, without its auxiliary head."""

    def chain(x: Tensor, *layers: tuple[Any, ...]) -> Tensor:
        for layer in layers:
            x = unit(tape, x, *layer)
        return x

    def pooled(x: Tensor) -> Tensor:
        return tape.pool(x, 3, 1, "SAME", "AvgPool")

    x = chain(tape.input, (32, 3, 2, "VALID"), (32, 3, 1, "VALID"), (64, 3))
    x = tape.pool(x, 3, 2)
    x = tape.pool(chain(x, (80, 1), (192, 3, 1, "VALID")), 3, 2)
    for width in (32, 64, 64):
        parts = [
            chain(x, (64, 1)),
            chain(x, (48, 1), (64, 5)),
            chain(x, (64, 1), (96, 3), (96, 3)),
            chain(pooled(x), (width, 1)),
        ]
        x = tape.joined(parts)
    x = tape.joined([chain(x, (384, 3, 2, "VALID")), chain(x, (64, 1), (96, 3), (96, 3, 2, "VALID")), tape.pool(x, 3, 2)])
    row, column = (1, 7), (7, 1)
    for width in (128, 160, 160, 192):
        long = chain(x, (width, 1), (width, column), (width, row), (width, column), (192, row))
        x = tape.joined(
            [chain(x, (192, 1)), chain(x, (width, 1), (width, row), (192, column)), long, chain(pooled(x), (192, 1))]
        )
    beside = chain(x, (192, 1), (192, row), (192, column), (192, 3, 2, "VALID"))
    x = tape.joined([chain(x, (192, 1), (320, 3, 2, "VALID")), beside, tape.pool(x, 3, 2)])
    for _ in range(2):
        first = chain(x, (384, 1))
        second = chain(x, (448, 1), (384, 3))
        sides = [chain(branch, (384, size)) for branch in (first, second) for size in ((1, 3), (3, 1))]
        x = tape.joined([chain(x, (320, 1)), *sides, chain(pooled(x), (192, 1))])
    return tape.mean(x)


def inception_v4(tape: Tape) -> Tensor:
    """Inception v4."""

    def chain(x: Tensor, *layers: tuple[Any, ...]) -> Tensor:
        for layer in layers:
            x = unit(tape, x, *layer)
        return x

    def pooled(x: Tensor) -> Tensor:
        return tape.pool(x, 3, 1, "SAME", "AvgPool")

    row, column = (1, 7), (7, 1)
    x = chain(tape.input, (32, 3, 2, "VALID"), (32, 3, 1, "VALID"), (64, 3))
    x = tape.joined([tape.pool(x, 3, 2), chain(x, (96, 3, 2, "VALID"))])
    x = tape.joined([chain(x, (64, 1), (96, 3, 1, "VALID")), chain(x, (64, 1), (64, row), (64, column), (96, 3, 1, "VALID"))])
    x = tape.joined([chain(x, (192, 3, 2, "VALID")), tape.pool(x, 3, 2)])
    for _ in range(4):
        parts = [chain(x, (96, 1)), chain(x, (64, 1), (96, 3)), chain(x, (64, 1), (96, 3), (96, 3)), chain(pooled(x), (96, 1))]
        x = tape.joined(parts)
    x = tape.joined([chain(x, (384, 3, 2, "VALID")), chain(x, (192, 1), (224, 3), (256, 3, 2, "VALID")), tape.pool(x, 3, 2)])
    for _ in range(7):
        long = chain(x, (192, 1), (192, column), (224, row), (224, column), (256, row))
        x = tape.joined([chain(x, (384, 1)), chain(x, (192, 1), (224, row), (256, column)), long, chain(pooled(x), (128, 1))])
    beside = chain(x, (256, 1), (256, row), (320, column), (320, 3, 2, "VALID"))
    x = tape.joined([chain(x, (192, 1), (192, 3, 2, "VALID")), beside, tape.pool(x, 3, 2)])
    for _ in range(3):
        first = chain(x, (384, 1))
        second = chain(x, (384, 1), (448, (3, 1)), (512, (1, 3)))
        sides = [chain(branch, (256, size)) for branch in (first, second) for size in ((1, 3), (3, 1))]
        x = tape.joined([chain(x, (256, 1)), *sides, chain(pooled(x), (256, 1))])
    return tape.mean(x)


# --- which name makes what --------------------------------------------------------------------------------------------

_STEMS: Mapping[str, tuple[int, ...]] = {"c": (32, 32, 64), "d": (32, 32, 64), "s": (64, 64, 128), "t": (24, 32, 64)}


def _resnet(match: re.Match[str]) -> Architecture | None:
    """`resnet50d`, `seresnext50_32x4d`, `wide_resnet50_2`: v1b is the stride in the 3 by 3, as all but v1 have it."""
    wide, gates, kin, depth, suffix, groups, width = match.groups()
    letter = suffix.removeprefix("_v1").replace("b", "")
    if int(depth) not in RESNET_STAGES or letter not in {"", *_STEMS} or (kin == "next") != bool(groups):
        return None
    network = ResNet(
        int(depth),
        _STEMS.get(letter, ()),
        averages_shortcut=letter in {"d", "t"},
        groups=int(groups or 1),
        width=int(width) if width else 128 if wide else 64,
        squeezes=bool(gates),
    )
    return Architecture("squeezed ResNet" if gates else "ResNeXt" if groups else "ResNet", network.body)


def _preactivated(match: re.Match[str]) -> Architecture:
    depth, letter = int(match[1]), match[2]
    body = partial(preactivated_resnet, depth=depth, stem=_STEMS.get(letter, ()), averages_shortcut=letter == "d")
    return Architecture("ResNet", body)


def _mobilenet_v2(match: re.Match[str]) -> Architecture:
    width, deep = int(match[1]) / 100, bool(match[2])
    depth = {1.1: 1.2, 1.2: 1.4}.get(width, 1.0) if deep else 1.0
    body = partial(mobilenet_v2, width=width, depth=depth, fixes_ends=deep)
    return Architecture("MobileNet", body)


def _regnet(match: re.Match[str]) -> Architecture | None:
    figures = REGNETS.get(match[1])
    if figures is None:
        return None
    return Architecture("RegNet", lambda tape: regnet(tape, *figures, squeezes=match[1].startswith("y")))


def _fixed(family: str, body: Body, pixels: int = 224, classes: int = CLASSES) -> Callable[[re.Match[str]], Architecture]:
    return lambda match: Architecture(family, body, pixels, classes)


# --- transformers -------------------------------------------------------------------------------------------------------


class Layers(NamedTuple):
    """Transformer layers: attention and two products; `is_first`: each is normalized before (GPT-2, ViT), else after (BERT)."""

    layers: int
    width: int
    heads: int
    is_first: bool = True
    is_masked: bool = False

    def body(self, tape: Tape, x: Tensor) -> Tensor:
        """From and to `[batch, length, width]`."""
        for _ in range(self.layers):
            if self.is_first:
                x = tape.add(x, self._attended(tape, tape.layer_normalization(x)))
                x = tape.add(x, self._dense(tape, tape.layer_normalization(x)))
            else:
                x = tape.layer_normalization(tape.add(x, self._attended(tape, x)))
                x = tape.layer_normalization(tape.add(x, self._dense(tape, x)))
        return x

    def _attended(self, tape: Tape, x: Tensor) -> Tensor:
        batch, length, width = x.dims
        queries, keys, values = (heads_of(tape, x, self.heads) for _ in range(3))
        scores = tape.times_number(tape.batch_product(queries, keys, transposes=True))
        weights = tape.softmax(tape.masked(scores) if self.is_masked else scores)
        mixed = tape.transposed(tape.batch_product(weights, values), (0, 2, 1, 3))
        return tape.reshaped(tape.linear(tape.reshaped(mixed, (batch * length, width)), width), (batch, length, width))

    def _dense(self, tape: Tape, x: Tensor) -> Tensor:
        batch, length, width = x.dims
        x = tape.reshaped(x, (batch * length, width))
        wide = tape.unary(tape.linear(x, 4 * width), "Tanh")  # like GELU, one op of elements
        return tape.reshaped(tape.linear(wide, width), (batch, length, width))


def heads_of(tape: Tape, x: Tensor, heads: int, *, has_bias: bool = True) -> Tensor:
    """A product with weights, from `[batch, length, width]` to `[batch, heads, length, depth]`."""
    batch, length, width = x.dims
    made = tape.linear(tape.reshaped(x, (batch * length, width)), width, has_bias=has_bias)
    return tape.transposed(tape.reshaped(made, (batch, length, heads, width // heads)), (0, 2, 1, 3))


class EncoderDecoder(NamedTuple):
    """T5: an encoder, and a decoder whose text is a quarter as long; no biases, and numbers added to scores for distances.

    A vocabulary's product has weights of its own here, which T5 shares with the embedding.
    """

    layers: int
    width: int
    words: int = 32128

    def body(self, tape: Tape) -> Tensor:
        batch, length, width = tape.input.dims
        memory = self._side(tape, length, None)
        made = self._side(tape, length // 4, memory)
        return tape.times_number(tape.reshaped(made, (batch * (length // 4), width)))

    def _side(self, tape: Tape, length: int, memory: Tensor | None) -> Tensor:
        x = tape.embedded(self.words, (tape.input.dims[0], length, self.width))
        distances = tape.parameter((1, self.width // 64, length, length))
        for _ in range(self.layers):
            normal = tape.scaled_rows(x)
            x = tape.add(x, self._attended(tape, normal, normal, distances))
            if memory is not None:
                x = tape.add(x, self._attended(tape, tape.scaled_rows(x), memory, None))
            x = tape.add(x, self._dense(tape, tape.scaled_rows(x)))
        return tape.scaled_rows(x)

    def _attended(self, tape: Tape, x: Tensor, source: Tensor, distances: Tensor | None) -> Tensor:
        heads = self.width // 64
        queries, keys, values = (heads_of(tape, part, heads, has_bias=False) for part in (x, source, source))
        scores = tape.batch_product(queries, keys, transposes=True)
        weights = tape.softmax(scores if distances is None else tape.spread_sum(scores, distances))
        mixed = tape.transposed(tape.batch_product(tape.cast(weights, values.dtype), values), (0, 2, 1, 3))
        flat = tape.reshaped(mixed, (x.dims[0] * x.dims[1], self.width))
        return tape.reshaped(tape.linear(flat, self.width, has_bias=False), x.dims)

    def _dense(self, tape: Tape, x: Tensor) -> Tensor:
        flat = tape.reshaped(x, (x.dims[0] * x.dims[1], self.width))
        wide = tape.relu(tape.linear(flat, 4 * self.width, has_bias=False))
        return tape.reshaped(tape.linear(wide, self.width, has_bias=False), x.dims)

    def architecture(self) -> Architecture:
        return Architecture("Transformer", self.body, 512, self.words, self.width)


def text_transformer(layers: Layers, words: int, length: int, *, is_classifier: bool = False) -> Architecture:
    """Words to words, a product with the vocabulary at each position; `is_classifier`: from the first word's to two classes."""

    def body(tape: Tape) -> Tensor:
        batch, length, width = tape.input.dims
        x = tape.add(tape.embedded(words, (batch, length, width)), tape.cast(tape.input, tape.numerics.compute))
        x = layers.body(tape, x)
        x = tape.layer_normalization(x) if layers.is_first else x
        if is_classifier:
            return tape.unary(tape.linear(tape.first_token(x), width), "Tanh")
        return tape.reshaped(x, (batch * length, width))

    return Architecture("Transformer", body, length, 2 if is_classifier else words, layers.width)


def vision_transformer(layers: Layers, patch: int, pixels: int = 224) -> Architecture:
    """Patches of images and a token for the class."""

    def body(tape: Tape) -> Tensor:
        x = tape.convolution(tape.input, layers.width, patch, patch, "VALID", has_bias=True)
        x = layers.body(tape, tape.with_class_token(x))
        return tape.first_token(tape.layer_normalization(x))

    return Architecture("Transformer", body, pixels)


_VIT_SIZES = {
    "tiny": (12, 192, 3),
    "small": (12, 384, 6),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "huge": (32, 1280, 16),
}
_TEXTS = {
    "bert-base": text_transformer(Layers(12, 768, 12, is_first=False), 30522, 512),
    "bert-large": text_transformer(Layers(24, 1024, 16, is_first=False), 30522, 512),
    "bert-large-classifier": text_transformer(Layers(24, 1024, 16, is_first=False), 30522, 512, is_classifier=True),
    "t5-small": EncoderDecoder(6, 512).architecture(),
    "t5-base": EncoderDecoder(12, 768).architecture(),
    "gpt2": text_transformer(Layers(12, 768, 12, is_masked=True), 50257, 1024),
}
"""Sizes of the papers."""


def _vit(match: re.Match[str]) -> Architecture | None:
    return vision_transformer(Layers(*_VIT_SIZES[match[1]]), int(match[2]), int(match[3] or 224))


_RULES: Sequence[tuple[str, Callable[[re.Match[str]], Architecture | None]]] = (
    *((name, lambda match, made=made: made) for name, made in _TEXTS.items()),
    (r"(?:vit|deit)_(tiny|small|base|large|huge)_patch(\d+)_(\d+)", _vit),
    (r"alexnet_owt", _fixed("AlexNet", one_tower_alexnet)),
    (r"alexnet_tf", _fixed("AlexNet", benchmark_alexnet, 227, 1001)),
    (r"alexnet", _fixed("AlexNet", grouped_alexnet, 227)),
    (r"overfeat_fast", _fixed("AlexNet", overfeat, 231)),
    (r"vgg_a", _fixed("VGG", partial(vgg, depth=11, has_normalization=False))),
    (
        r"vgg(11|13|16|19)(_bn)?",
        lambda match: Architecture("VGG", partial(vgg, depth=int(match[1]), has_normalization=bool(match[2]))),
    ),
    (r"(wide_)?(se)?res(net|next)(\d+)(|[cdst]|_v1[bcds])(?:_(\d+)x(\d+)d|_2)?", _resnet),
    (r"resnet(\d+)_v1", lambda match: Architecture("ResNet", ResNet(int(match[1]), strides_first=True).body)),
    (r"resnetv2_(18|34|50|101|152)(d|t|)", _preactivated),
    (r"densenet(121|161|169|201|264)", lambda match: Architecture("DenseNet", partial(densenet, depth=int(match[1])))),
    (r"mobilenetv1_(\d+)", lambda match: Architecture("MobileNet", partial(mobilenet_v1, width=int(match[1]) / 100))),
    (r"mobilenetv2_(\d+)(d?)", _mobilenet_v2),
    (r"regnet([xy]_\d+)", _regnet),
    (r"googlenet|inception_v1", _fixed("Inception", partial(googlenet, has_normalization=True, last_size=3))),
    (r"googlenet_plain", _fixed("Inception", partial(googlenet, has_normalization=False, last_size=5, has_response=True))),
    (r"inception_?v?3", _fixed("Inception", inception_v3, 299)),
    (r"inception_?v?4", _fixed("Inception", inception_v4, 299)),
)
