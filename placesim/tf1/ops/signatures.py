"""Names and order of the parameters of an op's function."""

from __future__ import annotations

import re
from typing import NamedTuple

from placesim.ops.definitions import OpDef

_RENAMED = {
    **{op: {"reduction_indices": "axis"} for op in ("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")},
    "ExpandDims": {"dim": "axis"},
    "Select": {"t": "x", "e": "y"},
    "Split": {"split_dim": "axis"},
    "SplitV": {"split_dim": "axis"},
    "Squeeze": {"squeeze_dims": "axis"},
    "Where": {"input": "condition"},
}
"""Parameters whose names differ from the op definition, by op.  A comparison of all 1,462 functions found them."""
_WORD_STARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])")


class Parameters(NamedTuple):
    """Parameters of an op's function: `attrs` as pairs of attr and parameter, `order` as the order of all parameters."""

    function: str
    inputs: tuple[str, ...]
    attrs: tuple[tuple[str, str], ...]
    order: tuple[str, ...]
    defaults: frozenset[str]


def parameter_names(definition: OpDef) -> Parameters:
    """Parameters: inputs, required attrs, then attrs with a default; attrs inferred from inputs are left out."""
    renamed = _RENAMED.get(definition.name, {})
    inferred = {
        attr for arg in definition.inputs for attr in (arg.type_attr, arg.number_attr, arg.type_list_attr) if attr is not None
    }
    inputs = tuple(renamed.get(arg.name, arg.name) for arg in definition.inputs)
    attrs = [attr for attr in definition.attrs.values() if attr.name not in inferred]
    attrs.sort(key=lambda attr: attr.has_default)
    named = tuple((attr.name, renamed.get(attr.name, attr.name)) for attr in attrs)
    defaults = frozenset(renamed.get(attr.name, attr.name) for attr in attrs if attr.has_default)
    order = inputs + tuple(name for _, name in named)
    return Parameters(snake_case(definition.name), inputs, named, order, defaults)


def snake_case(op: str) -> str:
    """`MatMul` -> `mat_mul`: the name of an op's function."""
    return _WORD_STARTS.sub("_", op).lower()
