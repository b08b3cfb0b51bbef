"""The converters ("rows") of all families. A row converts nodes of an ONNX op, in some versions, to TensorFlow ops."""

from __future__ import annotations

from functools import cache

from placesim.formats.onnx.onnx_node import Row
from placesim.formats.onnx.rows import (
    attention,
    casts,
    comparisons,
    constants,
    control_flow,
    convolutions,
    elementwise,
    fused,
    fused_quantization,
    gathering,
    linear_models,
    matrices,
    normalizations,
    pools,
    quantization,
    random,
    recurrent,
    reductions,
    resizing,
    sampling,
    selections,
    sequences,
    shapes,
    strings,
    support_vectors,
    transforms,
    trees,
)

_FAMILIES = (
    *(attention, casts, comparisons, constants, control_flow, convolutions, elementwise, fused, fused_quantization),
    *(
        gathering,
        linear_models,
        matrices,
        normalizations,
        pools,
        quantization,
        random,
        recurrent,
        reductions,
        resizing,
        sampling,
        selections,
    ),
    *(sequences, shapes, strings, support_vectors, transforms, trees),
)


@cache
def rows() -> dict[tuple[str, str], dict[int, Row]]:
    """Return the converters by domain and op, then by the version of the op's definition."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for family in _FAMILIES:
        for (op, *versions), row in family.ROWS.items():
            domain, _, name = op.rpartition("::")
            found.setdefault((domain, name), {}).update(dict.fromkeys(versions, row))
    return found


def find_row(domain: str, op: str, since: int) -> Row | None:
    """Return the converter of an op; None if there is none for this version."""
    return rows().get((domain, op), {}).get(since)


def known_versions(domain: str, op: str) -> list[int]:
    """Return the versions of an op that have converters."""
    return sorted(rows().get((domain, op), ()))
