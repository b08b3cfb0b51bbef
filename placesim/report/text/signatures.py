"""A model's signatures as rows: inputs and outputs by argument."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from placesim.ops.kernels.shapes import format_dims

if TYPE_CHECKING:
    from placesim.formats.tensorflow.meta_graph import ModelSignature, TensorUse

COLUMNS = ("signature", "what", "argument", "type", "shape", "tensor")


def signature_rows(signatures: Mapping[str, ModelSignature]) -> list[dict[str, str]]:
    """Return a row for each argument, inputs before outputs."""
    return [
        {"signature": name, "what": what, "argument": argument, **_facts(use), "tensor": use.tensor}
        for name, signature in signatures.items()
        for what, uses in (("input", signature.inputs), ("output", signature.outputs))
        for argument, use in uses.items()
    ]


def describe_signatures(signatures: Mapping[str, ModelSignature]) -> Iterator[str]:
    """Yield a line with the inputs of each signature, for an error about missing feeds."""
    for name, signature in signatures.items():
        taken = ", ".join(f"{argument} ({' '.join(_facts(use).values())})" for argument, use in signature.inputs.items())
        yield f"--signature {name} takes {taken or 'nothing'}"


def _facts(use: TensorUse) -> dict[str, str]:
    return {"type": "?" if use.dtype is None else use.dtype.python_name, "shape": format_dims(use.shape.dims)}
