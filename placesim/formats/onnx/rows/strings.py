"""Strings, and n-grams of strings or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.core.dtypes import FLOAT, INT32, INT64, STRING
from placesim.formats.onnx.folding import MOST_KNOWN, ConstantFolder, int32
from placesim.formats.onnx.onnx_node import OnnxNode, Rows, Tensor, UnsupportedNodeError
from placesim.ops.kernels.string_tensors import raw

_MOST_SKIPPED = 1000
"""Maximum of `max_skip_count`. For each number of skipped items, separate nodes count the n-grams."""


def string_concat(node: OnnxNode) -> Tensor:
    """StringJoin, after BroadcastTo of both inputs."""
    first, second = node[0], node[1]
    shape = node.emit("BroadcastArgs", node.emit("Shape", first), node.emit("Shape", second))
    return node.emit("StringJoin", *(node.emit("BroadcastTo", each, shape) for each in (first, second)), N=2)


def string_split(node: OnnxNode) -> list[Tensor]:
    """StringSplitV2, and SparseToDense with empty strings for shorter rows."""
    given, delimiter, most = node[0], node.attr("delimiter", ""), node.attr("maxsplit", -1)
    flat = node.emit("Reshape", given, int32([-1]))
    separator = node.constant(np.array(raw(delimiter), object), STRING)
    indices, values, _ = node.emit_all("StringSplitV2", flat, separator, maxsplit=most)
    empty = node.constant(np.array(b"", object), STRING)
    if not delimiter and most > 0:
        # TensorFlow returns an empty last part if a text has exactly `maxsplit` blanks at which it splits
        kept = node.emit("Where", node.emit("NotEqual", values, empty))
        indices, values = node.emit("GatherNd", indices, kept), node.emit("GatherNd", values, kept)
    own, total = (node.emit(op, given, out_type=INT64) for op in ("Shape", "Size"))
    rows = node.emit("GatherV2", indices, np.int32(0), np.int32(1))
    counts = node.emit("UnsortedSegmentSum", node.emit("OnesLike", rows), rows, total)
    none = node.constant(np.zeros(1, np.int64), INT64)
    width = node.emit("Max", node.emit("ConcatV2", [counts, none], np.int32(0)), int32([0]), keep_dims=True)
    shape = node.emit("ConcatV2", [node.emit("Reshape", total, int32([1])), width], np.int32(0))
    dense = node.emit("SparseToDense", indices, shape, values, empty)
    whole = node.emit("ConcatV2", [own, width], np.int32(0))
    return [node.emit("Reshape", dense, whole), node.emit("Reshape", counts, own)]


def regex_full_match(node: OnnxNode) -> Tensor:
    """StaticRegexFullMatch; both use RE2."""
    return node.emit("StaticRegexFullMatch", node[0], pattern=node.attr("pattern", ""))


def string_normalizer(node: OnnxNode) -> Tensor:
    """GatherNd of the words that are not stop words, then StringLower or StringUpper; an empty word if none is left."""
    words = node[0]
    rank = node.known_rank(words)
    flat = words if rank == 1 else node.emit("Reshape", words, int32([-1]))
    action = node.attr("case_change_action", "NONE")
    if action not in ("NONE", "LOWER", "UPPER"):
        raise UnsupportedNodeError(f"no such case_change_action: got '{action}', expected NONE, LOWER or UPPER")
    stops = [raw(word) for word in node.attr("stopwords", ())]
    if stops:
        kept = node.emit("Where", node.emit("LogicalNot", _is_among(node, flat, stops)))
        flat = node.emit("GatherNd", flat, kept)
    if action != "NONE":
        flat = node.emit(f"String{action.capitalize()}", flat, encoding="utf-8")
    none = node.emit("Equal", node.emit("Size", flat), np.int32(0))
    more = node.emit("Reshape", node.cast(none, INT32), int32([1]))
    filled = node.emit("ConcatV2", [flat, node.emit("Fill", more, node.constant(np.array(b"", object), STRING))], np.int32(0))
    return filled if rank == 1 else node.emit("ExpandDims", filled, np.int32(0))


def _is_among(node: OnnxNode, words: Tensor, stops: list[bytes]) -> Tensor:
    """Return whether each word is one of a list; letter case counts only with `is_case_sensitive`."""
    listed: Tensor = node.constant(np.array([stops], object), STRING)
    if not node.attr("is_case_sensitive", 0):
        words, listed = (node.emit("StringLower", each, encoding="utf-8") for each in (words, listed))
    return node.emit("Any", node.emit("Equal", node.emit("ExpandDims", words, np.int32(1)), listed), np.int32(1))


# --- n-grams --------------------------------------------------------------------------------------------------------


def tf_idf_vectorizer(node: OnnxNode) -> Tensor:
    """GatherV2 of all n-grams, Equal to those of the pool, Sum, MatMul with the output indices, and Mul by the weights."""
    rank = node.known_rank(node[0])
    items = node[0] if rank == 2 else node.emit("Reshape", node[0], int32([1, -1]))
    places = node.attr("ngram_indexes", ())
    if not places or min(places) < 0 or max(places) > MOST_KNOWN:
        expected = f"expected an output index for each n-gram of the pool, from 0 to {MOST_KNOWN}"
        raise UnsupportedNodeError(f"wrong ngram_indexes: {expected}")
    skips = node.attr("max_skip_count", 0)
    if not 0 <= skips <= _MOST_SKIPPED:
        raise UnsupportedNodeError(f"wrong max_skip_count: got {skips}, expected from 0 to {_MOST_SKIPPED}")
    counts: Tensor | None = None
    for size, grams, targets in _grams(node, places):
        for skip in range(skips + 1 if size > 1 else 1):
            found = _counted(node, items, size, skip + 1, grams)
            placed = node.emit("MatMul", found, _one_hot(targets, max(places) + 1))
            counts = placed if counts is None else node.emit("AddV2", counts, placed)
    if counts is None:
        rows = ConstantFolder(node).sizes(items)[0] if rank == 2 else int32(1)
        shape = ConstantFolder(node).pack([rows, int32(max(places) + 1)])
        counts = node.emit("Fill", shape, np.float32(0))
    made = _weighted(node, counts, places)
    return made if rank == 2 else node.emit("Reshape", made, int32([-1]))


def _grams(node: OnnxNode, places: tuple[int, ...]) -> list[tuple[int, Any, tuple[int, ...]]]:
    """Return, for each n whose n-grams are counted: n, the pool's n-grams `[n-grams, n]`, and their output indices."""
    numbers = node.attr("pool_int64s")
    pool = np.array([raw(word) for word in node.attr("pool_strings", ())], object) if numbers is None else np.array(numbers)
    starts = [*node.attr("ngram_counts", ()), len(pool)]
    made, before = [], 0
    for size in range(1, len(starts)):
        grams = pool[starts[size - 1] : starts[size]]
        if len(grams) % size:
            raise UnsupportedNodeError(f"wrong ngram_counts: got {len(grams)} items for n-grams of {size}")
        count = len(grams) // size
        if count and node.attr("min_gram_length", 1) <= size <= node.attr("max_gram_length", 1):
            made.append((size, grams.reshape(count, size), places[before : before + count]))
        before += count
    if before != len(places):
        raise UnsupportedNodeError(f"wrong ngram_indexes: got {len(places)}, expected one for each of {before} n-grams")
    return made


def _counted(node: OnnxNode, items: Tensor, size: int, step: int, grams: Any) -> Tensor:
    """Return how often each n-gram occurs in each row, with its items `step` apart: `[rows, n-grams]`."""
    fold = ConstantFolder(node)
    length = node.emit("GatherV2", node.emit("Shape", items), np.int32(1), np.int32(0))
    count = fold("Maximum", fold("Sub", length, int32((size - 1) * step)), int32(0))
    starts = node.emit("ExpandDims", fold("Range", int32(0), count, int32(1)), np.int32(1))
    taken = node.emit("GatherV2", items, node.emit("AddV2", starts, int32(np.arange(size) * step)), np.int32(1))
    is_text = grams.dtype == object
    pool = node.constant(grams.reshape(1, 1, -1, size), STRING if is_text else INT64)
    own = taken if is_text else node.cast(taken, INT64)
    same = node.emit("Equal", node.emit("ExpandDims", own, np.int32(2)), pool)
    return node.emit("Sum", node.cast(node.emit("All", same, np.int32(3)), FLOAT), np.int32(1))


def _one_hot(targets: tuple[int, ...], size: int) -> Any:
    made = np.zeros((len(targets), size), np.float32)
    made[np.arange(len(targets)), targets] = 1
    return made


def _weighted(node: OnnxNode, counts: Tensor, places: tuple[int, ...]) -> Tensor:
    mode, weights = node.attr("mode"), node.attr("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise UnsupportedNodeError(f"no such mode: got '{mode}', expected TF, IDF or TFIDF")
    if mode == "IDF":
        counts = node.cast(node.emit("Greater", counts, np.float32(0)), FLOAT)
    if mode == "TF" or weights is None:
        return counts
    # weights are in the order of the pool's n-grams
    by_place = np.zeros(max(places) + 1, np.float32)
    by_place[list(places)] = weights
    return node.emit("Mul", counts, by_place)


ROWS: Rows = {
    ("RegexFullMatch", 20): regex_full_match,
    ("StringConcat", 20): string_concat,
    ("StringNormalizer", 10): string_normalizer,
    ("StringSplit", 20): string_split,
    ("TfIdfVectorizer", 9): tf_idf_vectorizer,
}
