"""Connectionist temporal classification: the loss of label sequences, and greedy and beam search decoding.

Source: Graves, "Supervised Sequence Labelling with Recurrent Neural Networks" (2012), chapter 7; docstrings cite its equations.
The last class is the blank, unless an attr says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from placesim.core.errors import FailedPreconditionError, InvalidArgumentError, OpError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor, elements, per_element
from placesim.ops.kernels.memory_rules import KernelMemory
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims, infer_by, merge_dim, with_rank
from placesim.ops.kernels.sparse.tensors import SparseArray, check_indices, groups

LARGE, SQRT_2 = np.float32(0.41421387), np.float32(1.4142140)
"""Thresholds of log1p: x from which it is computed as log(1 + x), and 1 + x from which the argument is halved."""
LN_2_HIGH, LN_2_LOW = np.float32(6.9313812256e-01), np.float32(9.0580006145e-06)
SERIES = np.array(
    [1.479819864e-1, 1.5313838422e-1, 1.818357259e-1, 2.2222198546e-1, 2.8571429849e-1, 4.0000000596e-1, 6.6666668653e-1],
    np.float32,
)
"""Coefficients of `log((1 + s) / (1 - s))`, the highest power first."""

# --- loss -----------------------------------------------------------------------------------------------------------


def measure_loss(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(logits `[time, batch, classes]`, sparse labels `[batch, longest]`, lengths `[batch]`) -> (losses `[batch]`, gradients).

    The gradients are with respect to the logits. Loss and gradients are zero for empty sequences, and for sequences ignored
    because of too many labels. Raises InvalidArgumentError if shapes or lengths do not fit, and for labels that are negative,
    missing, out of order, or more than the time steps.
    """
    logits, indices, values, lengths = inputs
    _check_loss_inputs(logits, indices, values, lengths)
    labels = _read_labels(logits, indices, values)
    classes = logits.shape[2]
    targets = [_check_labels(batch, labels[batch], int(lengths[batch]), classes, attrs) for batch in range(logits.shape[1])]
    loss, gradient = np.zeros(lengths.shape, logits.dtype), np.zeros_like(logits)
    for batch, target in enumerate(targets):
        length = int(lengths[batch])
        too_long = attrs["ignore_longer_outputs_than_inputs"] and len(labels[batch]) > length
        if length and not too_long:
            part = logits[:length, batch].astype(np.float64)
            loss[batch], gradient[:length, batch] = _align(part, target, attrs["ctc_merge_repeated"])
    return loss, gradient


def _align(logits: Tensor, target: Sequence[int], merge_repeated: bool) -> tuple[float, Tensor]:
    """(loss, gradient `[time, classes]`) of one sequence, from logits `[time, classes]`."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    y = shifted / shifted.sum(axis=1, keepdims=True)
    blank = logits.shape[1] - 1
    path = np.full(2 * len(target) + 1, blank)
    path[1::2] = target
    log_y = np.log(y[:, path])
    stays = merge_repeated | (path == blank)
    skips = np.zeros(len(path), bool)
    skips[2:] = (path[2:] != blank) & ~(merge_repeated & (path[2:] == path[:-2]))
    total = _forward(log_y, stays, skips) + _backward(log_y, stays, skips)
    log_p = reduce(_add_logs, total[0])
    # no path gives the target labels: TensorFlow returns the plain softmax as gradient
    if log_p == -np.inf:
        return math.inf, y
    sums = np.full_like(y, -np.inf)
    for place, label in enumerate(path):
        sums[:, label] = _add_logs(sums[:, label], total[:, place])
    return -float(log_p), y - _exp_as_float(sums - log_p)


def _add_logs(one: Tensor, two: Tensor) -> Tensor:
    """log(exp(one) + exp(two)), elementwise. Like TensorFlow, computes the correction of the larger number in float."""
    high, low = np.maximum(one, two), np.minimum(one, two)
    return high + _log1p_as_float(_exp_as_float(np.where(low == -np.inf, -np.inf, low - high)))


def _exp_as_float(x: Tensor) -> Tensor:
    """C's `expf` of doubles: argument and result are rounded to float, the computation between is in double."""
    result: Tensor = np.exp(x.astype(np.float32).astype(np.float64)).astype(np.float32)
    return result


def _log1p_as_float(x: Tensor) -> Tensor:
    """C's `log1pf` for x in [0, 1], rounded as Sun's implementation does; numpy's may differ in the last bit."""
    one, half = np.float32(1), np.float32(0.5)
    u = one + x
    halved = (x >= LARGE) & (u >= SQRT_2)
    f = np.where(halved, u * half - one, np.where(x >= LARGE, u - one, x))
    square = half * f * f
    s = f / (np.float32(2) + f)
    z = s * s
    series = np.zeros_like(z)
    for coefficient in SERIES:
        series = z * (coefficient + series)
    term = s * (square + series)
    rest = term + (LN_2_LOW + (x - (u - one)) / u)
    result: Tensor = np.where(halved, LN_2_HIGH - ((square - rest) - f), f - (square - term))
    return result


def _forward(log_y: Tensor, stays: Tensor, skips: Tensor) -> Tensor:
    """log alpha `[time, path]`, equations 7.5 to 7.9."""
    alpha = np.full(log_y.shape, -np.inf)
    alpha[0, :2] = log_y[0, :2]
    for time in range(1, len(alpha)):
        before = alpha[time - 1]
        reached = np.where(stays, before, -np.inf)
        reached[1:] = _add_logs(reached[1:], before[:-1])
        reached[2:] = np.where(skips[2:], _add_logs(reached[2:], before[:-2]), reached[2:])
        alpha[time] = reached + log_y[time]
    return alpha


def _backward(log_y: Tensor, stays: Tensor, skips: Tensor) -> Tensor:
    """log beta `[time, path]`, equations 7.13 to 7.15."""
    beta = np.full(log_y.shape, -np.inf)
    beta[-1, -2:] = 0
    # for a path of only the blank, TensorFlow's two last places are the same place, so it adds log(1) in this step
    is_blank = log_y.shape[1] == 1
    for time in reversed(range(len(beta) - 1)):
        after = beta[time + 1] + log_y[time + 1]
        reached = np.where(stays, after, -np.inf)
        reached[:-1] = _add_logs(reached[:-1], after[1:])
        reached[:-2] = np.where(skips[2:], _add_logs(reached[:-2], after[2:]), reached[:-2])
        beta[time] = _add_logs(np.zeros(1), reached) if is_blank and time == len(beta) - 2 else reached
    return beta


def _check_loss_inputs(logits: Tensor, indices: Tensor, values: Tensor, lengths: Tensor) -> None:
    if logits.ndim != 3:
        raise InvalidArgumentError("inputs is not a 3-Tensor")
    if lengths.ndim != 1:
        raise InvalidArgumentError("sequence_length is not a vector")
    if indices.ndim != 2:
        raise InvalidArgumentError("labels_indices is not a matrix")
    # TensorFlow's text says 1 and means 2
    if indices.shape[1] <= 1:
        raise InvalidArgumentError(f"labels_indices second dimension must be >= 1. Received {indices.shape[1]}")
    if values.ndim != 1:
        raise InvalidArgumentError("labels_values is not a vector")
    time, batch, classes = logits.shape
    if batch != len(lengths):
        raise InvalidArgumentError(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {len(lengths)} batch_size: {batch}"
        )
    if len(indices) != len(values):
        raise InvalidArgumentError(
            "labels_indices and labels_values must contain the same number of rows, but saw shapes: "
            f"{format_dims(indices.shape)} vs. {format_dims(values.shape)}"
        )
    if batch == 0:
        raise InvalidArgumentError("batch_size must not be 0")
    _check_lengths(time, lengths, InvalidArgumentError)
    if classes <= 0:  # TensorFlow crashes
        raise InvalidArgumentError("inputs must have at least one class")


def _check_lengths(time: int, lengths: Tensor, error: type[OpError]) -> None:
    for row, length in enumerate(lengths.tolist()):
        if length > time:
            # TensorFlow's message is the condition that failed
            raise error(f"sequence_length({row}) <= {time}")


def _read_labels(logits: Tensor, indices: Tensor, values: Tensor) -> list[list[int]]:
    """The labels of each sequence."""
    if indices.shape[1] != 2:
        raise InvalidArgumentError("Order length must be SparseTensor rank.")
    batch = logits.shape[1]
    shape = (batch, int(indices[:, 1].max(initial=-1)) + 1)
    try:
        check_indices(indices, shape)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"label SparseTensor is not valid: {error.message}") from None
    labels: list[list[int]] = [[] for _ in range(batch)]
    for (row,), entries in groups(SparseArray(indices, values, shape)):
        labels[row] = entries.values.tolist()
    return labels


def _check_labels(batch: int, labels: Sequence[int], length: int, classes: int, attrs: Attrs) -> list[int]:
    """Return a sequence's labels up to the first null label, with repeats collapsed if the attr says so."""
    if length < 0:
        raise InvalidArgumentError(f"seq_len({batch}) < 0")
    if len(labels) == 0:
        raise InvalidArgumentError(f"Labels length is zero in batch {batch}")
    target: list[int] = []
    finished = False
    for position, label in enumerate(labels):
        if position and attrs["preprocess_collapse_repeated"] and label == labels[position - 1]:
            continue
        # the blank, or a class beyond it, ends the labels: only blanks may follow
        if label >= classes - 1:
            finished = True
            continue
        if finished:
            raise InvalidArgumentError(
                "Saw a non-null label (index >= num_classes - 1) following a null label, "
                f"batch: {batch} num_classes: {classes} labels: {','.join(map(str, labels))} "
                f"labels seen so far: {','.join(map(str, target))}"
            )
        target.append(label)
    if not all(label >= 0 for label in target):
        raise InvalidArgumentError(
            f"All labels must be nonnegative integers, batch: {batch} labels: {','.join(map(str, target))}"
        )
    # the required time counts the labels before repeats are collapsed
    if not attrs["ignore_longer_outputs_than_inputs"] and len(labels) > length:
        raise InvalidArgumentError(
            f"Not enough time for target transition sequence (required: {len(labels)}, available: {length}){batch}"
            "You can turn this error into a warning by using the flag ignore_longer_outputs_than_inputs"
        )
    return target


# --- decoding -------------------------------------------------------------------------------------------------------


def decode_greedily(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(logits `[time, batch, classes]`, lengths `[batch]`) -> (sparse `[batch, longest]`, negated sums of logits `[batch, 1]`).

    The sparse tensor has the best class of each step, without blanks. Raises InvalidArgumentError for logits of another rank or
    without elements, lengths that are not a vector, and a blank index that is not a class. Raises FailedPreconditionError for
    lengths that do not fit the logits.
    """
    logits, lengths = inputs
    _check_decoder_inputs(logits, lengths)
    classes = logits.shape[2]
    blank = attrs["blank_index"]
    if not -classes <= blank < classes:
        raise InvalidArgumentError(f"blank_index expected to be between {-classes} and {classes - 1} but was {blank}")
    best, inside = _best_classes(logits), np.arange(len(logits))[:, None] < lengths
    # a negative blank index counts from the last class
    kept = inside & (best != blank % classes)
    if attrs["merge_repeated"]:
        kept[1:] &= best[1:] != best[:-1]
    highest = np.take_along_axis(logits, best[:, :, None], 2)[:, :, 0]
    score = -np.sum(np.where(inside, highest, 0), axis=0, dtype=logits.dtype)
    sequences = [best[kept[:, batch], batch].tolist() for batch in range(logits.shape[1])]
    return *_sparse_sequences(sequences), score[:, None]


def _best_classes(logits: Tensor) -> Tensor:
    """The class with the largest logit of each step, the first of equals. A NaN is the largest only as the first class."""
    best: Tensor = np.where(np.isnan(logits[:, :, 0]), 0, np.argmax(np.where(np.isnan(logits), -np.inf, logits), axis=2))
    return best


def _check_decoder_inputs(logits: Tensor, lengths: Tensor) -> None:
    if logits.ndim != 3:
        raise InvalidArgumentError("inputs is not a 3-Tensor")
    if logits.size == 0:
        raise InvalidArgumentError("inputs must not be empty")
    if lengths.ndim != 1:
        raise InvalidArgumentError("sequence_length is not a vector")
    time, batch, _ = logits.shape
    if batch != len(lengths):
        # the decoders raise FailedPrecondition here, while the loss raises InvalidArgument
        raise FailedPreconditionError(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {len(lengths)} batch_size: {batch}"
        )
    _check_lengths(time, lengths, FailedPreconditionError)


def _sparse_sequences(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Indices, values and shape of a sparse tensor with one sequence per row."""
    rows = [(batch, position) for batch, sequence in enumerate(sequences) for position in range(len(sequence))]
    values = [label for sequence in sequences for label in sequence]
    longest = max(map(len, sequences), default=0)
    shape = np.array([len(sequences), longest], np.int64)
    return np.array(rows, np.int64).reshape(-1, 2), np.array(values, np.int64), shape


class _Beam:
    """A prefix of labels in the beam search.

    `blank` and `label` are the log probabilities of the paths that end in the blank or in the last label; `total` is for both.
    `old_blank` and `old_total` are their values before the current time step.
    """

    __slots__ = ("blank", "children", "label", "old_blank", "old_total", "parent", "symbol", "total")

    def __init__(self, parent: _Beam | None, symbol: int) -> None:
        self.parent = parent
        self.symbol = symbol
        self.children: dict[int, _Beam] = {}
        self.forget()
        self.old_blank = self.old_total = -math.inf

    def forget(self) -> None:
        """Remove the prefix from the search."""
        self.blank = self.label = self.total = -math.inf

    def child(self, symbol: int) -> _Beam:
        """Prefix extended by a label."""
        return self.children.setdefault(symbol, _Beam(self, symbol))

    def before(self, symbol: int) -> float:
        """Log probability of the paths that `symbol` can extend; a repeat of the last label needs a blank between."""
        return self.old_blank if symbol == self.symbol else self.old_total

    def labels(self, merge_repeated: bool) -> list[int]:
        """Labels of the prefix; `merge_repeated` merges repeats."""
        found: list[int] = []
        beam, previous = self, -1
        while beam.parent is not None:
            if not merge_repeated or beam.symbol != previous:
                found.append(beam.symbol)
            beam, previous = beam.parent, beam.symbol
        return found[::-1]


def decode_by_beam_search(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(logits `[time, batch, classes]`, lengths `[batch]`) -> (sparse sequences, log probabilities `[batch, paths]`).

    The outputs are the indices of all paths, their values, their shapes, and the log probabilities; the most probable path is
    first. Raises the errors of `decode_greedily`, and InvalidArgumentError for more paths than the beam width or than prefixes.
    """
    logits, lengths = inputs
    _check_decoder_inputs(logits, lengths)
    width, paths = attrs["beam_width"], attrs["top_paths"]
    scores = np.zeros((logits.shape[1], paths), logits.dtype)
    decoded: list[list[list[int]]] = [[] for _ in range(paths)]
    for batch, length in enumerate(lengths.tolist()):
        beams = _search(logits[: max(length, 0), batch].astype(np.float64), width)
        # checked after a search as in TensorFlow, so an empty batch never fails
        if paths > width:
            raise InvalidArgumentError("requested more paths than the beam width.")
        if paths > len(beams):
            raise InvalidArgumentError("Less leaves in the beam search than requested.")
        for path, beam in enumerate(beams[:paths]):
            decoded[path].append(beam.labels(attrs["merge_repeated"]))
            scores[batch, path] = beam.total
    parts = [_sparse_sequences(sequences) for sequences in decoded]
    return [*(part[0] for part in parts), *(part[1] for part in parts), *(part[2] for part in parts), scores]


def _search(logits: Tensor, width: int) -> list[_Beam]:
    """The prefixes in the beam after all time steps, the most probable first."""
    root = _Beam(None, -1)
    root.blank = root.total = 0.0
    beams = [root]
    for row in logits:
        log_y = (row - np.logaddexp.reduce(row)).tolist()
        beams = _extend(beams, log_y, width)
    return beams


def _extend(beams: list[_Beam], log_y: Sequence[float], width: int) -> list[_Beam]:
    """Search one time step: each prefix stays or is extended by a label. Return the `width` most probable prefixes."""
    for beam in beams:
        beam.old_blank, beam.old_total = beam.blank, beam.total
    for beam in beams:
        if beam.parent is not None:
            # a parent that was removed from the search has no paths to extend
            if beam.parent.total > -math.inf:
                beam.label = _join(beam.label, beam.parent.before(beam.symbol))
            beam.label += log_y[beam.symbol]
        beam.blank = beam.old_total + log_y[-1]
        beam.total = _join(beam.blank, beam.label)
    # the sort is stable: of equal prefixes the earlier stays first
    leaves = sorted(beams, key=_by_total)
    for beam in beams:
        if not _is_candidate(beam.old_total, leaves, width):
            continue
        for symbol, log_p in enumerate(log_y[:-1]):
            child = beam.child(symbol)
            if child.total > -math.inf:  # already in the search
                continue
            total = log_p + beam.before(symbol)
            if _is_candidate(total, leaves, width):
                child.blank, child.label, child.total = -math.inf, total, total
                if len(leaves) == width:
                    leaves.pop().forget()
                leaves.append(child)
                leaves.sort(key=_by_total)
    return leaves


def _join(one: float, two: float) -> float:
    """`_add_logs` of two numbers."""
    high, low = max(one, two), min(one, two)
    return high if low == -math.inf else high + float(np.log1p(np.float32(math.exp(np.float32(low - high)))))


def _by_total(beam: _Beam) -> float:
    return -beam.total


def _is_candidate(total: float, leaves: Sequence[_Beam], width: int) -> bool:
    return total > -math.inf and (len(leaves) < width or total > leaves[-1].total)


# --- shape functions and memory -------------------------------------------------------------------------------------


def _infer_decoder(context: ShapeContext) -> Sequence[Dims]:
    logits, lengths = with_rank(context.shapes[0], 3), with_rank(context.shapes[1], 1)
    batch = merge_dim(logits[1], lengths[0])
    paths = context.attrs.get("top_paths", 1)
    return [*[(-1, 2)] * paths, *[(-1,)] * paths, *[(2,)] * paths, (batch, paths)]


def decoder_memory(memory: KernelMemory) -> None:
    """Allocate the last output (probabilities) first, then for each path its indices, values and shape."""
    paths = len(memory.outputs) // 3
    memory.allocate(3 * paths)
    for path in range(paths):
        for part in range(3):
            memory.allocate(part * paths + path)


def _guess_labels(context: ShapeContext, output: int) -> int:
    """Return one label for each step of each row of the batch."""
    return elements((context.shapes[0] or ())[:2])


TABLE: Table = {
    "CTCBeamSearchDecoder": Kernel(
        decode_by_beam_search, _infer_decoder, per_element(0), memory=decoder_memory, guess=_guess_labels
    ),
    "CTCGreedyDecoder": Kernel(decode_greedily, _infer_decoder, per_element(0), memory=decoder_memory, guess=_guess_labels),
    "CTCLoss": Kernel(
        measure_loss,
        infer_by("[time, batch, classes], [n, ?], [n], [batch] -> [batch], [time, batch, classes]"),
        per_element(0),
    ),
}
