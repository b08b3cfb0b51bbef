"""Splits of strings, and n-grams of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.kernel import Kernel, Table, Tensor
from placesim.ops.kernels.memory_rules import allocates
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import infer_by
from placesim.ops.kernels.string_tensors import flat_strings, raw, string_array
from placesim.ops.process.memory_limit import check_elements, check_text

# --- splits ---------------------------------------------------------------------------------------------------------


def _sparse_pieces(rows: Sequence[Sequence[bytes]]) -> Sequence[Tensor]:
    """Return rows of pieces as a sparse tensor: indices int64 `[pieces, 2]`, values `[pieces]`, dense shape `[2]`."""
    indices = [(number, place) for number, row in enumerate(rows) for place in range(len(row))]
    pieces = [piece for row in rows for piece in row]
    widest = max(map(len, rows), default=0)
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        string_array(pieces, (len(pieces),)),
        np.array([len(rows), widest], np.int64),
    )


def _vector_and_scalar(inputs: Sequence[Any], name: str) -> tuple[list[bytes], bytes]:
    value, delimiter = inputs
    if np.ndim(value) != 1:
        raise InvalidArgumentError(f"input must be a vector, got shape: {shape_text(value)}")
    if np.ndim(delimiter):
        raise InvalidArgumentError(f"{name} must be a scalar, got shape: {shape_text(delimiter)}")
    return flat_strings(value), flat_strings(delimiter)[0]


def _split_at_any(text: bytes, delimiters: bytes) -> list[bytes]:
    """Return the pieces between delimiters; none for an empty text."""
    for delimiter in delimiters[1:]:
        text = text.replace(bytes([delimiter]), delimiters[:1])
    return text.split(delimiters[:1]) if text else []


def split(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Split strings `[batch]` at any byte of a scalar delimiter, or into bytes if it is empty; return a sparse tensor.

    Raises InvalidArgumentError for inputs of other ranks.
    """
    texts, delimiters = _vector_and_scalar(inputs, "delimiter")
    if not delimiters:
        return _sparse_pieces([[bytes([byte]) for byte in text] for text in texts])
    rows = [_split_at_any(text, delimiters) for text in texts]
    return _sparse_pieces([list(filter(None, row)) for row in rows] if attrs["skip_empty"] else rows)


def _split_at_whitespace(text: bytes, limit: int) -> list[bytes]:
    """Split as Python does, but append the rest after `limit` pieces even if it is empty or ends in whitespace."""
    pieces: list[bytes] = []
    text = text.lstrip()
    while text:
        piece = text.split(None, 1)[0]
        pieces.append(piece)
        text = text[len(piece) :].lstrip()
        if 0 < limit == len(pieces):
            return [*pieces, text]
    return pieces


def _split(text: bytes, separator: bytes, limit: int) -> list[bytes]:
    if not limit:
        return [text]
    if separator:
        return text.split(separator, limit)
    return text.split() if limit < 0 else _split_at_whitespace(text, limit)


def split_at_separator(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Split strings `[batch]` at a scalar separator, at most `maxsplit` times; return a sparse tensor.

    An empty separator means runs of whitespace. Raises InvalidArgumentError for inputs of other ranks.
    """
    texts, separator = _vector_and_scalar(inputs, "sep")
    return _sparse_pieces([_split(text, separator, attrs["maxsplit"]) for text in texts])


# --- n-grams --------------------------------------------------------------------------------------------------------


def _check_splits(splits: list[int], size: int) -> None:
    if not splits:
        return
    if splits[0]:
        raise InvalidArgumentError(f"First split value must be 0, got {splits[0]}")
    for last, split_at in pairwise(splits):
        if not last <= split_at <= size:
            raise InvalidArgumentError(f"Invalid split value {split_at}, must be in [{last}, {size}]")
    if splits[-1] != size:
        raise InvalidArgumentError(f"Last split value must be data size. Expected {size}, got {splits[-1]}")


def _ngrams(tokens: list[bytes], width: int, attrs: Attrs) -> list[bytes]:
    """Return all runs of `width` tokens, padded on both sides with up to `pad_width` pads."""
    pad = min(attrs["pad_width"] if attrs["pad_width"] >= 0 else width - 1, width - 1)
    separator = raw(attrs["separator"])
    check_elements(len(tokens) + 2 * pad)
    padded = [raw(attrs["left_pad"])] * pad + tokens + [raw(attrs["right_pad"])] * pad
    count = max(len(padded) - width + 1, 0)
    # an upper bound: a token is in at most `width` n-grams
    check_text(sum(map(len, padded)) * min(width, count) + len(separator) * width * count)
    return [separator.join(padded[at : at + width]) for at in range(count)]


def _row_ngrams(tokens: list[bytes], attrs: Attrs) -> list[bytes]:
    found = [ngram for width in attrs["ngram_widths"] for ngram in _ngrams(tokens, width, attrs)]
    # a row too short for any width becomes one n-gram
    if found or not tokens or not attrs["preserve_short_sequences"]:
        return found
    if attrs["pad_width"] < 0:
        raise InvalidArgumentError(
            "Pad width should be >= 0 when preserve_short_sequences is True and "
            f"ngram_widths are not provided, got {attrs['pad_width']}"
        )
    return _ngrams(tokens, len(tokens) + 2 * attrs["pad_width"], attrs)


def string_ngrams(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Tensor]:
    """Return n-grams as ragged rows; the inputs are ragged rows of tokens, `[tokens]` with splits `[rows + 1]`.

    Raises InvalidArgumentError for invalid widths or splits, and if short rows are kept without a pad width.
    """
    if any(width <= 0 for width in attrs["ngram_widths"]):
        raise InvalidArgumentError("ngram_widths must contain positive values")
    tokens, splits = flat_strings(inputs[0]), np.reshape(inputs[1], -1).tolist()
    _check_splits(splits, len(tokens))
    # without tokens or splits the outputs are empty strings and zeros in the inputs' shapes
    if not tokens or not splits:
        return string_array([b""] * len(tokens), np.shape(inputs[0])), np.zeros_like(inputs[1])
    rows = [_row_ngrams(tokens[start:end], attrs) for start, end in pairwise(splits)]
    ngrams = [ngram for row in rows for ngram in row]
    ends = np.cumsum([0, *map(len, rows)]).astype(inputs[1].dtype)
    return string_array(ngrams, (len(ngrams),)), ends.reshape(np.shape(inputs[1]))


# --- shape functions ------------------------------------------------------------------------------------------------


_INFER_SPLIT = infer_by("[?], [] -> [?, 2], [?], [2]")

TABLE: Table = {
    "StringSplit": Kernel(split, _INFER_SPLIT),
    "StringSplitV2": Kernel(split_at_separator, _INFER_SPLIT),
    "StringNGrams": Kernel(string_ngrams, infer_by("[?], y:1 -> [?], y"), memory=allocates(1, 0)),
}
