"""Transposed convolutions of any number of dimensions."""

from __future__ import annotations

from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace

tf = namespace("")

_BY_RANK = {3: ("conv1d_transpose", "NWC"), 4: ("conv2d_transpose", "NHWC"), 5: ("conv3d_transpose", "NDHWC")}
"""Function and default dimension order by number of dimensions."""


def conv_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: object,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: object = None,
    name: str | None = None,
) -> Any:
    """Transposed convolution by number of dimensions.  Raises ValueError for an unsupported number."""
    with name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        is_listed = isinstance(output_shape, list | tuple)
        rank = len(output_shape) if is_listed else output_shape.shape.as_list()[0]
        if rank not in _BY_RANK:
            raise ValueError(f"`output_shape` must be a list/tuple or 1-D tensor of length 3, 4 or 5. Received: {output_shape}")
        function, order = _BY_RANK[rank]
        options = {"padding": padding, "data_format": data_format or order, "dilations": dilations}
        return getattr(tf.nn, function)(input, filters, output_shape, strides, **options, name=scope)
