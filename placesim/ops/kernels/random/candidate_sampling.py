"""Candidate samplers: classes drawn from a range for sampled losses, and the expected count of each.

Every sampler draws one class at a time from a stream of words; for a unique sample it draws until a class is new. Source:
TensorFlow's range samplers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import expm1, log, log1p
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import InvalidArgumentError, ResourceExhaustedError
from placesim.core.files.access import FileAccess
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table, Tensor
from placesim.ops.kernels.philox import WordStream, reserve
from placesim.ops.kernels.resources.file_access import read_bytes
from placesim.ops.kernels.shapes import Dims, ShapeContext, with_rank

SAMPLES_PER_CANDIDATE = 2048
"""32-bit words that TensorFlow reserves for each candidate."""
MAX_TRIES = 1 << 20
"""Maximum number of draws for a sample of unique classes, which would not end if too few classes are likely."""
MAX_INT32 = (1 << 31) - 1


class Sampler(NamedTuple):
    """A distribution over classes [0, range): `draw` returns a class, and `probability` the probability of a class."""

    range: int
    draw: Callable[[WordStream], int]
    probability: Callable[[int], float]


# --- the distributions ----------------------------------------------------------------------------------------------


def _uniform(size: int) -> Sampler:
    probability = float(np.float32(1 / size))
    return Sampler(size, lambda words: words.below(size, 64), lambda value: probability)


def _log_uniform(size: int) -> Sampler:
    """Return a sampler whose probability of class k is about proportional to 1 / (k + 1), for classes sorted by frequency."""
    log_range = log1p(size)

    def draw(words: WordStream) -> int:
        return (int(np.exp(words.float64() * log_range)) - 1) % size

    return Sampler(size, draw, lambda value: log((value + 2.0) / (value + 1.0)) / log_range)


def _weighted(weights: Tensor) -> Sampler:
    """Return a sampler with probabilities proportional to integer weights, which may grow between runs."""
    sums = np.cumsum(weights).tolist()
    total = sums[-1]

    def draw(words: WordStream) -> int:
        return bisect_right(sums, words.below(total))

    return Sampler(len(weights), draw, lambda value: float(np.float32(weights[value]) / np.float32(total)))


def _fixed(weights: Sequence[float]) -> Sampler:
    """Return a sampler with probabilities proportional to weights, by the alias method (a column, then one of its classes)."""
    shares, aliases = _alias_table(weights)
    # TensorFlow's sum in float
    total = np.float32(0)
    for weight in weights:
        total += np.float32(weight)

    def draw(words: WordStream) -> int:
        chance = words.float32()
        column = words.below(len(weights))
        return column if chance < shares[column] else aliases[column]

    return Sampler(len(weights), draw, lambda value: float(np.float32(weights[value]) / total))


def _alias_table(weights: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return for each column the probability of its own class, and its other class."""
    total = sum(weights)
    shares = [weight * len(weights) / total for weight in weights]
    aliases = list(range(len(weights)))
    low = [column for column, share in enumerate(shares) if share < 1]
    high = [column for column, share in enumerate(shares) if share >= 1]
    while low and high:
        small, large = low.pop(), high.pop()
        aliases[small] = large
        shares[large] -= 1 - shares[small]
        (low if shares[large] < 1 else high).append(large)
    for column in (*low, *high):  # only rounding errors are left
        shares[column], aliases[column] = 1.0, column
    return [float(np.float32(share)) for share in shares], aliases


def _unigram_weights(attrs: Attrs, files: FileAccess) -> list[float]:
    """Return the distorted weights of this shard, from attr `unigrams` or the last column of a file."""
    if not attrs["vocab_file"] and not attrs["unigrams"]:
        raise InvalidArgumentError("Must provide either vocab_file or unigrams.")
    if attrs["vocab_file"] and attrs["unigrams"]:
        raise InvalidArgumentError("Must only provide one of vocab_file and unigrams.")
    unigrams = attrs["unigrams"] or _read_weights(files, attrs["vocab_file"])
    # reserved ids have weight 0; other ids are counted from this shard's reserved ones, as in TensorFlow
    weights = [0.0 for word in range(attrs["num_reserved_ids"]) if word % attrs["num_shards"] == attrs["shard"]]
    for word, weight in enumerate(unigrams, len(weights)):
        if word % attrs["num_shards"] == attrs["shard"]:
            weights.append(float(np.float32(np.float32(weight) ** np.float32(attrs["distortion"]))))
    if len(weights) != attrs["range_max"]:
        raise InvalidArgumentError(f"range is {attrs['range_max']} must be equal to weights size  {len(weights)}")
    return weights


def _read_weights(files: FileAccess, path: str) -> list[float]:
    weights = []
    for line in read_bytes(files, path).decode(errors="backslashreplace").splitlines():
        try:
            weights.append(float(line.split(",")[-1]))
        except ValueError:
            raise InvalidArgumentError(f"Wrong vocabulary format at line: {line}") from None
    return weights


# --- sampling -------------------------------------------------------------------------------------------------------


def _expected_count(probability: float, size: int, tries: int) -> float:
    """Return the expected count of a class in a sample of `size` classes that took `tries` draws."""
    single = np.float32(probability)
    # a sample with repetitions
    if tries == size:
        return float(single * np.float32(size))
    # a unique sample: the probability that the draws include the class
    return float(-np.float32(expm1(tries * float(np.float32(log1p(-float(single)))))))


def _sample(sampler: Sampler, words: WordStream, count: int, unique: bool) -> tuple[list[int], int]:
    """Return the sampled classes, in the order of their first draws, and the number of draws."""
    if not unique:
        return [sampler.draw(words) for _ in range(count)], count
    found: dict[int, None] = {}
    tries = 0
    while len(found) < count:
        if tries == MAX_TRIES:
            raise ResourceExhaustedError(f"only {len(found)} of {count} unique classes were sampled in {tries} tries")
        tries += 1
        found.setdefault(sampler.draw(words))
    return list(found), tries


def _check_classes(classes: Tensor, attrs: Attrs, size: int) -> None:
    if np.ndim(classes) != 2:
        raise InvalidArgumentError("true_classes must be a matrix")
    if classes.shape[1] != attrs["num_true"]:
        raise InvalidArgumentError(
            f"true_classes must have num_true columns, expected: {classes.shape[1]} was: {attrs['num_true']}"
        )
    if attrs["unique"] and attrs["num_sampled"] > size:
        raise InvalidArgumentError("Sampler's range is too small.")
    outside = classes[(classes < 0) | (classes >= size)]
    if outside.size:
        raise InvalidArgumentError(f"`true_candidate` out of range [0, {size}), received {outside.flat[0]}")


def _counted(sampler: Sampler, classes: Tensor, size: int, tries: int) -> Tensor:
    counts = [_expected_count(sampler.probability(value), size, tries) for value in classes.reshape(-1).tolist()]
    return np.array(counts, np.float32).reshape(classes.shape)


def _draw(sampler: Sampler, classes: Tensor, attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Return candidates `[sampled]`, and the expected counts of true classes `[batch, num_true]` and of candidates."""
    _check_classes(classes, attrs, sampler.range)
    count = attrs["num_sampled"]
    words = WordStream(reserve(context, attrs, SAMPLES_PER_CANDIDATE * count // 4))
    found, tries = _sample(sampler, words, count, attrs["unique"])
    candidates = np.array(found, np.int64)
    return candidates, _counted(sampler, classes, count, tries), _counted(sampler, candidates, count, tries)


def simple_sampler(make: Callable[[int], Sampler]) -> Compute:
    """Return the kernel of a distribution that depends only on its range; its outputs are those of `_draw`.

    It raises InvalidArgumentError for a range below 1, invalid classes, and more unique candidates than classes.
    """

    def compute(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
        return _draw(make(_positive_range(attrs)), inputs[0], attrs, context)

    return compute


def _positive_range(attrs: Attrs) -> int:
    if attrs["range_max"] <= 0:
        raise InvalidArgumentError("range_max must be positive")
    return int(attrs["range_max"])


def learned_unigram(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw classes with probabilities proportional to their counts so far; each run counts its true classes.

    Outputs and errors are those of `simple_sampler`; InvalidArgumentError also for a range that is not an int32.
    """
    size = _positive_range(attrs)
    if size >= MAX_INT32:
        raise InvalidArgumentError(f"range_max must be less than {MAX_INT32} for unigram samplers, got {size}")
    weights = context.node_state.setdefault("weights", np.ones(size, np.int64))
    outputs = _draw(_weighted(weights), inputs[0], attrs, context)
    # the sum of the weights stays an int32
    room = MAX_INT32 - int(weights.sum())
    np.add.at(weights, inputs[0].reshape(-1)[:room], 1)
    return outputs


def fixed_unigram(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Draw classes with probabilities proportional to weights in attrs or a file, one for each class.

    Outputs and errors are those of `simple_sampler`; missing or superfluous weights raise InvalidArgumentError too.
    """
    sampler = context.node_state.get("sampler")
    if sampler is None:
        sampler = context.node_state["sampler"] = _fixed(_unigram_weights(attrs, context.files))
    return _draw(sampler, inputs[0], attrs, context)


def all_classes(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """Return every class once, with an expected count of 1. Outputs and errors are those of `simple_sampler`."""
    classes, count = inputs[0], attrs["num_sampled"]
    _check_classes(classes, attrs, count)
    return np.arange(count, dtype=np.int64), np.ones(classes.shape, np.float32), np.ones(count, np.float32)


def _sampler(compute: Compute) -> Kernel:
    return Kernel(compute, infer_candidates, needs_context=True)


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_candidates(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes of the candidates, of the true classes' counts `[batch, num_true]`, and of the candidates' counts."""
    batch, _ = with_rank(context.shapes[0], 2)
    sampled = (context.attrs["num_sampled"],)
    return sampled, (batch, context.attrs["num_true"]), sampled


TABLE: Table = {
    "UniformCandidateSampler": _sampler(simple_sampler(_uniform)),
    "LogUniformCandidateSampler": _sampler(simple_sampler(_log_uniform)),
    "LearnedUnigramCandidateSampler": _sampler(learned_unigram),
    "ThreadUnsafeUnigramCandidateSampler": _sampler(learned_unigram),
    "FixedUnigramCandidateSampler": _sampler(fixed_unigram),
    "AllCandidateSampler": _sampler(all_classes),
}
