"""Einsum, Fourier transforms, and images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placesim.core.dtypes import COMPLEX64, COMPLEX128, DTYPES, FLOAT, INT32, STRING, UINT8
from placesim.formats.onnx.folding import ConstantFolder, Value, int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.formats.onnx.rows.windows import spatial_attr

_MOST_AXES = 4
"""Maximum number of spatial axes of Col2Im. Each becomes two axes, and TensorFlow's CPU adds tensors of at most 9 axes."""
_COMPLEX = {"float": COMPLEX64, "double": COMPLEX128}


def einsum(node: OnnxNode) -> Tensor:
    """Einsum of one or two inputs; for more inputs, Einsum of the result and the next one."""
    terms, wanted = _equation(node.attr("equation", ""))
    tensors = [node[index] for index in range(len(terms))]
    if len(terms) != len(node.inputs):
        expected = f"expected one for each of {len(node.inputs)} inputs"
        raise UnsupportedNodeError(f"wrong equation: got {len(terms)} terms, {expected}")
    made, term = tensors[0], terms[0]
    if len(terms) == 1:
        return node.emit_widened("Einsum", made, equation=f"{term}->{wanted}", N=1)
    for index in range(1, len(terms)):
        later = "".join([*terms[index + 1 :], wanted])
        given = dict.fromkeys(_labels(term) + _labels(terms[index]))
        kept = wanted if index == len(terms) - 1 else "".join(label for label in given if label in later)
        made = node.emit_widened("Einsum", made, tensors[index], equation=f"{term},{terms[index]}->{kept}", N=2)
        term = kept
    return made


def _labels(term: str) -> list[str]:
    """Return the labels of a term; an ellipsis is a label."""
    before, dots, behind = term.partition("...")
    return [*before, *([dots] if dots else []), *behind]


def _equation(text: str) -> tuple[list[str], str]:
    """Return the terms of an equation and of its output, which by default has all labels that occur once, sorted."""
    given, arrow, wanted = text.replace(" ", "").partition("->")
    terms = given.split(",")
    if not arrow:
        labels = [label for term in terms for label in _labels(term)]
        once = sorted(label for label in labels if label != "..." and labels.count(label) == 1)
        wanted = "..." * ("..." in labels) + "".join(once)
    return terms, wanted


# --- Fourier --------------------------------------------------------------------------------------------------------


def dft(node: OnnxNode) -> Tensor:
    """Transpose, Complex, Pad and Slice to the length, FFT, IFFT, RFFT or IRFFT, then Real and Imag.

    Signals are `[batch, ..., 1 or 2]`, with the real part and, if any, the imaginary part along the last axis.
    """
    signal = node[0]
    own, rank = node.dtype(signal), node.known_rank(signal)
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    parts = _parts_of(node, signal)
    fold = ConstantFolder(node)
    there, back = _moves(node, fold, rank)
    moved = [node.emit("Transpose", part, there) for part in parts]
    size: Value = node.emit("GatherV2", node.emit("Shape", moved[0]), np.int32(rank - 2), np.int32(0))
    if onesided and inverse:
        # a half spectrum of n elements belongs to a signal of 2 * (n - 1) elements
        size = fold("Mul", fold("Sub", size, int32(1)), int32(2))
    size = _length(node, fold, size)
    made = _transformed(node, moved, size, rank - 1, inverse, onesided)
    made = [node.cast(node.emit("Transpose", part, back), own) for part in made]
    return node.emit("Pack", made, axis=-1)


def _parts_of(node: OnnxNode, signal: Tensor) -> list[Tensor]:
    """Return the real part and, if present, the imaginary part, in a type that TensorFlow can transform."""
    last = (node.shape(signal) or (None,))[-1]
    if last not in (1, 2):
        raise UnsupportedNodeError(f"wrong last dimension: got {last}, expected 1 for real numbers or 2 for complex ones")
    wide = signal if node.dtype(signal).name in _COMPLEX else node.cast(signal, FLOAT)
    return [node.emit("GatherV2", wide, np.int32(part), np.int32(-1)) for part in range(last)]


def _moves(node: OnnxNode, fold: ConstantFolder, rank: int) -> tuple[Value, Value]:
    """Return the permutation of a part's axes that moves the transformed axis to the end, and its inverse."""
    if node.since >= 20:
        given = node.input(2)
        axis = np.array(-2) if given is None else node.content(given)
    else:
        given, axis = None, np.array(node.attr("axis", 1))
    if axis is not None:
        number = node.axis(int(axis.reshape(())), node[0])
        if number == rank - 1:
            raise UnsupportedNodeError(f"wrong axis: got {number}, which has the real and imaginary parts, expected another")
        order = [other for other in range(rank - 1) if other != number] + [number]
        return int32(order), int32(np.argsort(order))
    assert given is not None
    scalar = node.narrow(node.know_shape(node.emit("Reshape", given, np.zeros(0, np.int32)), ()), "axis")
    chosen = fold("FloorMod", scalar, int32(rank))
    before, behind = fold("Range", int32(0), chosen, int32(1)), fold("AddV2", chosen, int32(1))
    rest = fold("Range", behind, int32(rank - 1), int32(1))
    there = fold.concat([before, rest, fold("Reshape", chosen, int32([1]))])
    return there, node.emit("InvertPermutation", there)


def _length(node: OnnxNode, fold: ConstantFolder, size: Value) -> Value:
    """Return the length of the transform, `[1]`: input 1, or by default `size`."""
    given = node.input(1)
    return fold("Reshape", size if given is None else fold.narrow(fold.value(given), "length"), int32([1]))


def _transformed(
    node: OnnxNode, parts: Sequence[Tensor], length: Value, rank: int, inverse: bool, onesided: bool
) -> list[Tensor]:
    """Return the parts of the transform of `parts` along their last axis; `rank` is their rank."""
    fold = ConstantFolder(node)
    dtype = _COMPLEX[node.dtype(parts[0]).name]
    if onesided and len(parts) == 1 and not inverse:
        return _split(node, node.emit("RFFT", parts[0], length, Tcomplex=dtype))
    imaginary = parts[1] if len(parts) == 2 else node.emit("ZerosLike", parts[0])
    whole = node.emit("Complex", parts[0], imaginary, Tout=dtype)
    if onesided and inverse:
        return [node.emit("IRFFT", whole, length, Treal=node.dtype(parts[0]))]
    made = node.emit("IFFT" if inverse else "FFT", _fitted(node, whole, length, rank))
    if onesided:
        bins = fold("AddV2", fold("FloorDiv", length, int32(2)), int32(1))
        sizes = fold.concat([int32([-1] * (rank - 1)), bins])
        made = node.emit("Slice", made, int32([0] * rank), sizes)
    return _split(node, made)


def _split(node: OnnxNode, whole: Tensor) -> list[Tensor]:
    tout = {complex_: DTYPES[name] for name, complex_ in _COMPLEX.items()}[node.dtype(whole)]
    return [node.emit("Real", whole, Tout=tout), node.emit("Imag", whole, Tout=tout)]


def _fitted(node: OnnxNode, tensor: Tensor, length: Value, rank: int) -> Tensor:
    """Return a tensor with its last axis zero-padded or cropped to the length of the transform."""
    if node.input(1) is None or node.op == "STFT":
        return tensor
    fold = ConstantFolder(node)
    size = node.emit("GatherV2", node.emit("Shape", tensor), int32([rank - 1]), np.int32(0))
    more = fold("Maximum", fold("Sub", length, size), int32(0))
    row = fold("Reshape", fold.concat([int32([0]), more]), int32([1, 2]))
    padded = node.emit("Pad", tensor, fold.concat([int32(np.zeros((rank - 1, 2))), row]))
    return node.emit("Slice", padded, int32([0] * rank), fold.concat([int32([-1] * (rank - 1)), length]))


def stft(node: OnnxNode) -> Tensor:
    """GatherV2 of the frames, Mul by the window, RFFT or FFT, Real and Imag.

    The signal is `[batch, length, 1 or 2]`, or `[batch, length]` of real numbers.
    """
    signal, window = node[0], node.input(2)
    own, fold = node.dtype(signal), ConstantFolder(node)
    if node.rank(signal) == 2:
        signal = node.apply("Unsqueeze", signal, [2])
    parts = _parts_of(node, signal)
    step = _scalar(fold, node[1])
    if node.input(3) is not None:
        length = _scalar(fold, node[3])
    elif window is not None:
        length = fold.sizes(window)[0]
    else:
        raise UnsupportedNodeError("no window length: expected one of the inputs window and frame_length")
    total = fold.sizes(signal)[1]
    count = fold("AddV2", fold("FloorDiv", fold("Sub", total, length), step), int32(1))
    starts = fold("Mul", fold("Range", int32(0), count, int32(1)), step)
    places = fold("AddV2", fold("Reshape", starts, int32([-1, 1])), fold("Range", int32(0), length, int32(1)))
    frames = [node.emit("GatherV2", part, places, np.int32(1)) for part in parts]
    if window is not None:
        frames = [node.emit("Mul", frame, node.cast(window, node.dtype(frame))) for frame in frames]
    made = _transformed(node, frames, fold("Reshape", length, int32([1])), 3, False, bool(node.attr("onesided", 1)))
    return node.know_shape(node.emit("Pack", [node.cast(part, own) for part in made], axis=-1), (None, None, None, 2))


def mel_weight_matrix(node: OnnxNode) -> Tensor:
    """Edges of the mel bins by Range, Log and Exp, Floor of their places, then RealDiv and SelectV2 for the triangles."""
    bins, length, rate, *edges = (node.apply("Cast", node.apply("Reshape", node[index], []), to=11) for index in range(5))
    real = np.float64
    low, high = (
        node.apply(
            "Mul", node.apply("Log", node.apply("Add", node.apply("Div", edge, real(700)), real(1))), real(2595 / np.log(10))
        )
        for edge in edges
    )
    count = node.apply("Add", bins, real(2))
    step = node.apply("Div", node.apply("Sub", high, low), count)
    mels = node.apply("Add", node.apply("Mul", node.apply("Range", real(0), count, real(1)), step), low)
    hertz = node.apply(
        "Mul", node.apply("Sub", node.apply("Exp", node.apply("Mul", mels, real(np.log(10) / 2595))), real(1)), real(700)
    )
    places = node.apply("Floor", node.apply("Div", node.apply("Mul", hertz, node.apply("Add", length, real(1))), rate))
    start, centre, end = (node.apply("Slice", places, [first], [stop]) for first, stop in ((0, -2), (1, -1), (2, 1 << 31)))
    rows = node.apply("Add", node.apply("Floor", node.apply("Div", length, real(2))), real(1))
    row = node.apply("Unsqueeze", node.apply("Range", real(0), rows, real(1)), [1])
    rise, fall = node.apply("Sub", centre, start), node.apply("Sub", end, centre)
    upwards = node.apply("Div", node.apply("Sub", row, start), node.apply("Max", rise, real(1)))
    upwards = node.apply("Where", node.apply("Equal", rise, real(0)), real(1), upwards)
    up = node.apply("And", node.apply("GreaterOrEqual", row, start), node.apply("LessOrEqual", row, centre))
    down = node.apply("And", node.apply("GreaterOrEqual", row, centre), node.apply("Less", row, end))
    downwards = node.apply("Div", node.apply("Sub", end, row), node.apply("Max", fall, real(1)))
    made = node.apply("Where", down, downwards, node.apply("Where", up, upwards, real(0)))
    return node.apply("Cast", made, to=node.attr("output_datatype", 1))


def _scalar(fold: ConstantFolder, tensor: Tensor) -> Value:
    return fold.narrow(fold("Reshape", fold.value(tensor), np.zeros(0, np.int32)), "length")


# --- images ---------------------------------------------------------------------------------------------------------


def col2im(node: OnnxNode) -> Tensor:
    """UnsortedSegmentSum of the columns by their places in the images, between Transposes.

    Columns are `[batch, channels * taps, windows]`, images `[batch, channels, spatial...]`.
    """
    fold, columns = ConstantFolder(node), node[0]
    wanted, block = (fold.narrow(fold.value(node[index]), what) for index, what in ((1, "image_shape"), (2, "block_shape")))
    known = node.shape(node[1]) or (None,)
    count = known[0]
    if count is None or not 1 <= count <= _MOST_AXES:
        expected = f"expected an image_shape of 1 to {_MOST_AXES} sizes"
        raise UnsupportedNodeError(f"wrong number of spatial axes: got {count}, {expected}")
    strides, rates = spatial_attr(node, "strides", count, 1), spatial_attr(node, "dilations", count, 1)
    pads = spatial_attr(node, "pads", 2 * count, 0)
    places: Value = int32(0)
    outside: Value | None = None
    for axis in range(count):
        size, taps = (fold("GatherV2", each, int32(axis), int32(0)) for each in (wanted, block))
        reach = fold("Mul", fold("Sub", taps, int32(1)), int32(rates[axis]))
        room = fold("Sub", fold("AddV2", size, int32(pads[axis] + pads[axis + count] - 1)), reach)
        windows = fold("AddV2", fold("FloorDiv", room, int32(strides[axis])), int32(1))
        steps = fold("Mul", fold("Range", int32(0), taps, int32(1)), int32(rates[axis]))
        starts = fold("Mul", fold("Range", int32(0), windows, int32(1)), int32(strides[axis]))
        along = fold("AddV2", fold("Reshape", steps, int32([-1, 1])), fold("AddV2", starts, int32(-pads[axis])))
        # the taps of all axes come before the windows of all axes
        lengths = [fold("GatherV2", fold.shape(along), int32([which]), int32(0)) for which in (0, 1)]
        shape = fold.concat(
            [int32([1] * axis), lengths[0], int32([1] * (count - 1)), lengths[1], int32([1] * (count - 1 - axis))]
        )
        along = fold("Reshape", along, shape)
        beyond = fold("LogicalOr", fold("Less", along, int32(0)), fold("GreaterEqual", along, size))
        outside = beyond if outside is None else fold("LogicalOr", outside, beyond)
        places = fold("AddV2", fold("Mul", places, size), along)
    assert outside is not None
    # UnsortedSegmentSum drops negative segment ids
    segments = fold("Reshape", fold("SelectV2", outside, int32(-1), places), int32([-1]))
    sizes = fold.sizes(columns)
    channels = fold("FloorDiv", sizes[1], fold("Prod", block, int32(0)))
    parts = node.emit("Reshape", columns, fold.pack([sizes[0], channels, int32(-1)]))
    moved = node.emit("Transpose", parts, int32([2, 0, 1]))
    summed = node.emit("UnsortedSegmentSum", moved, segments, fold("Prod", wanted, int32(0)))
    images = node.emit("Transpose", summed, int32([1, 2, 0]))
    return node.emit("Reshape", images, fold.concat([fold.pack([sizes[0], channels]), wanted]))


_LUMA = (19595, 38470, 7471)
"""Shares of red, green and blue in the gray of a color, in 65536ths, as in Pillow."""


def image_decoder(node: OnnxNode) -> Tensor:
    """ReduceJoin of the bytes to a string, and DecodeImage of JPEG, PNG, BMP or WebP; ReverseV2 for BGR.

    Gray is computed from the colors, as ONNX does, not read from the file.
    """
    pixels = node.attr("pixel_format", "RGB")
    if pixels not in ("RGB", "BGR", "Grayscale"):
        raise UnsupportedNodeError(f"no such pixel_format: got '{pixels}', expected RGB, BGR or Grayscale")
    table = node.constant(np.array([bytes([number]) for number in range(256)], object), STRING)
    letters = node.emit("GatherV2", table, node.cast(node[0], INT32), np.int32(0))
    content = node.emit("ReduceJoin", letters, int32([0]))
    made = node.emit("DecodeImage", content, channels=3, expand_animations=False)
    if pixels == "Grayscale":
        weighted = node.emit("Mul", node.cast(made, INT32), int32(_LUMA))
        total = node.emit("AddV2", node.emit("Sum", weighted, int32([2]), keep_dims=True), int32(1 << 15))
        return node.cast(node.emit("RightShift", total, int32(16)), UINT8)
    return node.emit("ReverseV2", made, int32([2])) if pixels == "BGR" else made


ROWS: Rows = {
    ("Col2Im", 18): col2im,
    ("DFT", 17, 20): dft,
    ("Einsum", 12, 28): einsum,
    ("ImageDecoder", 20): image_decoder,
    ("MelWeightMatrix", 17): mel_weight_matrix,
    ("STFT", 17): stft,
}
