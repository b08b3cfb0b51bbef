"""Ops that check or print values: Assert, CheckNumerics, EnsureShape, Print; and Fingerprint and ComputeAccidentalHits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs, TensorValue, format_elements
from placesim.ops.farmhash import fingerprint64
from placesim.ops.kernels.cost_model import DISPATCH
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, Trait, as_many_as
from placesim.ops.kernels.memory_rules import aliases
from placesim.ops.kernels.partial_shapes import is_compatible
from placesim.ops.kernels.resources.file_access import append_bytes
from placesim.ops.kernels.shape_operands import shape_text
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeError,
    format_dims,
    merge,
    no_outputs,
    unchanged,
    with_rank,
    with_rank_at_least,
    with_value,
)
from placesim.ops.process.console import write

STREAMS = ("stdout", "stderr", "log(info)", "log(warning)", "log(error)")
"""Output streams of PrintV2, besides `file://` names; the log is standard error."""


# --- checks ---------------------------------------------------------------------------------------------------------


def summarize(tensors: Sequence[Tensor], dtypes: Sequence[DataType], count: int) -> list[str]:
    """Each tensor's first elements in brackets, as TensorFlow prints them."""
    values = zip(dtypes, tensors, strict=True)
    return [f"[{format_elements(TensorValue(dtype, np.asarray(tensor)), count)}]" for dtype, tensor in values]


def check_condition(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """Assert: raises InvalidArgumentError, whose text has the data, if the condition is false or not a scalar."""
    condition, *data = inputs
    if condition.ndim:
        raise InvalidArgumentError(f"In[0] should be a scalar: {shape_text(condition)}")
    if not condition:
        raise InvalidArgumentError(" ".join(["assertion failed:", *summarize(data, attrs["T"], attrs["summarize"])]))
    return ()


def check_numerics(inputs: Sequence[Tensor], attrs: Attrs, has_signs: bool = False) -> Sequence[Tensor]:
    """CheckNumerics: returns the input. Raises InvalidArgumentError that names Inf (V2: with its sign) and NaN if present."""
    (tensor,) = inputs
    if not np.isfinite(tensor).all():
        infinities = (("-Inf", tensor == -np.inf), ("+Inf", tensor == np.inf)) if has_signs else (("Inf", np.isinf(tensor)),)
        found = [name for name, where in (*infinities, ("NaN", np.isnan(tensor))) if where.any()]
        listed = ", ".join([*found[:-1], "and " + found[-1]]) if len(found) > 2 else " and ".join(found)
        raise InvalidArgumentError(f"{attrs['message']} : Tensor had {listed} values")
    return (tensor,)


def ensure_shape(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """EnsureShape: returns the input. Raises InvalidArgumentError if its shape does not fit attr `shape`."""
    (tensor,) = inputs
    wanted = attrs["shape"].dims
    shape = np.shape(tensor)
    if not is_compatible(wanted, shape):
        raise InvalidArgumentError(
            f"Shape of tensor {context.input_names[0]} {format_dims(shape)} "
            f"is not compatible with expected shape {format_dims(wanted)}."
        )
    return (tensor,)


# --- printing -------------------------------------------------------------------------------------------------------


def print_tensors(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Print: returns the first input, and logs the others at most `first_n` times."""
    printed = context.node_state.get("printed", 0)
    if attrs["first_n"] < 0 or printed < attrs["first_n"]:
        context.node_state["printed"] = printed + 1
        write(attrs["message"] + "".join(summarize(inputs[1:], attrs["U"], attrs["summarize"])) + "\n")
    return (inputs[0],)


def print_string(inputs: Sequence[Tensor], attrs: Attrs, context: KernelContext) -> Sequence[Tensor]:
    """PrintV2: writes a scalar string and attr `end` to a stream, or appends them to a file.

    Raises InvalidArgumentError for an unknown stream and a text that is not a scalar, and the errors of `append_bytes`.
    """
    (text,) = inputs
    stream = attrs["output_stream"]
    is_file = stream.startswith("file://")
    if not is_file and stream not in STREAMS:
        raise InvalidArgumentError(f"Unknown output stream: {stream}, Valid streams are: {' '.join(STREAMS)}")
    if text.ndim:
        raise InvalidArgumentError(f"Input is expected to be scalar, but got {shape_text(text)}")
    if is_file:
        append_bytes(context.files, stream.removeprefix("file://"), text.item() + attrs["end"].encode())
        return ()
    write(text.item().decode(errors="replace") + attrs["end"], is_output=stream == "stdout")
    return ()


# --- fingerprints ---------------------------------------------------------------------------------------------------


def fingerprint(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """`[rows, ...]` -> `[rows, 8]`: FarmHash's 64-bit fingerprint of each row's bytes, lowest byte first.

    Raises InvalidArgumentError for scalar data, and a method that is unknown or not a scalar.
    """
    data, method = inputs
    if method.ndim:
        raise InvalidArgumentError(f"`method` should be a scalar string: {shape_text(method)}")
    if method.item() != b"farmhash64":
        raise InvalidArgumentError(f"Unsupported fingerprint method: {method.item().decode(errors='replace')}")
    if not data.ndim:
        raise InvalidArgumentError(f"`data` should have at least one dimension: {shape_text(data)}")
    rows = [_fingerprint_bytes(_row_bytes(row, attrs["T"] is STRING)) for row in data]
    return (np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), 8),)


def _fingerprint_bytes(data: bytes) -> bytes:
    return fingerprint64(data).to_bytes(8, "little")


def _row_bytes(row: Any, is_string: bool) -> bytes:
    """A row's bytes: of numbers their memory, of one string the string itself, of several strings their joined fingerprints."""
    if not is_string:
        return np.ascontiguousarray(row).tobytes()
    strings = np.array(row, object).reshape(-1)
    return strings[0] if strings.size == 1 else b"".join(map(_fingerprint_bytes, strings))


# --- accidental hits ------------------------------------------------------------------------------------------------


def find_accidental_hits(inputs: Sequence[Tensor], attrs: Attrs) -> Sequence[Tensor]:
    """(true classes `[batch, num_true]`, sampled candidates `[sampled]`) -> each hit's row, position in the sample, and weight.

    A hit is a sampled candidate that is one of a row's true classes. Each weight is the lowest float. Raises
    InvalidArgumentError for other shapes.
    """
    true_classes, sampled = inputs
    if true_classes.ndim != 2 or true_classes.shape[1] != attrs["num_true"]:
        raise InvalidArgumentError("true_candidates must be a batch_size * num_true matrix")
    if sampled.ndim != 1:
        raise InvalidArgumentError("sampled_candidates must be a vector, which is typically an output from CandidateSampler")
    # a candidate that was sampled twice has the last position
    places = {candidate: position for position, candidate in enumerate(sampled.tolist())}
    found = [places.get(candidate, -1) for candidate in true_classes.reshape(-1).tolist()]
    hits = np.flatnonzero(np.array(found, np.int64) >= 0)
    weights = np.full(hits.size, np.finfo(np.float32).min, np.float32)
    return (hits // max(attrs["num_true"], 1)).astype(np.int32), np.array(found, np.int64)[hits], weights


# --- shape functions ------------------------------------------------------------------------------------------------


def _infer_ensured(context: ShapeContext) -> Sequence[Dims]:
    dims, wanted = context.shapes[0], context.attrs["shape"].dims
    if wanted is not None:
        return (merge(wanted, with_rank(dims, len(wanted))),)
    if dims is not None:  # TensorFlow treats an unknown rank as rank -1
        raise ShapeError(f"Shape must be rank -1 but is rank {len(dims)}")
    return (None,)


def _infer_fingerprint(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.shapes[0], 1)
    with_rank(context.shapes[1], 0)
    method = context.value(1)
    if method is not None and method.item() != b"farmhash64":
        raise ShapeError(f"Unsupported method: {method.item().decode(errors='replace')}")
    return ((-1 if dims is None else dims[0], -1 if method is None else 8),)


def _infer_accidental_hits(context: ShapeContext) -> Sequence[Dims]:
    _, columns = with_rank(context.shapes[0], 2)
    with_value(columns, context.attrs["num_true"])
    with_rank(context.shapes[1], 1)
    return ((-1,),) * 3


TABLE: Table = {
    "Assert": Kernel(check_condition, no_outputs),
    "CheckNumerics": Kernel(check_numerics, unchanged, memory=aliases(), traits=Trait.HANDS_ON | Trait.SHARES_MEMORY),
    "CheckNumericsV2": Kernel(partial(check_numerics, has_signs=True), unchanged, memory=aliases(), traits=Trait.HANDS_ON),
    "EnsureShape": Kernel(
        ensure_shape,
        _infer_ensured,
        needs_context=True,
        memory=aliases(),
        traits=Trait.HANDS_ON | Trait.TAKES_OBJECTS | Trait.CONTEXT_NAMES,
        cost=DISPATCH,
    ),
    "Print": Kernel(print_tensors, unchanged, needs_context=True, memory=aliases(), traits=Trait.HANDS_ON | Trait.PASSES_ON),
    "PrintV2": Kernel(print_string, no_outputs, needs_context=True, traits=Trait.HANDS_ON | Trait.PASSES_ON),
    "Fingerprint": Kernel(fingerprint, _infer_fingerprint),
    "ComputeAccidentalHits": Kernel(find_accidental_hits, _infer_accidental_hits, guess=as_many_as(0)),
}
