"""`tf.debugging.assert_shapes`: shapes of several tensors that share sizes by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from placesim.tf1.assertions.conditions import _prefix
from placesim.tf1.graphs.default_graph_scopes import control_dependencies, name_scope
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.sparse.values import SparseTensor

tf = namespace("")

_ANY_SIZE, _ANY_OUTER = (None, "."), (Ellipsis, "*")


class _Constraint(NamedTuple):
    """A tensor, its sizes (numbers if known) and the wanted sizes; with `is_inner`, only the last dimensions' sizes."""

    tensor: Any
    is_inner: bool
    sizes: Any
    wanted: tuple[Any, ...]


def assert_shapes(shapes: Any, data: Any = None, summarize: object = None, message: Any = None, name: str | None = None) -> Any:
    """Make an op that fails if shapes differ from the wanted ones.  Raises ValueError if static shapes do."""
    pairs = list(shapes.items() if isinstance(shapes, dict) else shapes)
    options = {"data": data, "summarize": summarize, "message": message, "name": name}
    with name_scope(name, "assert_shapes", [pairs, data]):
        given = [
            (tensor if isinstance(tensor, SparseTensor) else convert_to_tensor(tensor), wanted)
            for tensor, wanted in pairs
            if wanted is not None
        ]
        constraints = [_constraint(tensor, wanted, _prefix(message)) for tensor, wanted in given]
        of_ranks = [assertion for each in constraints if (assertion := _assert_rank(each, options)) is not None]
        of_sizes = _assert_sizes(constraints, of_ranks, data, summarize, _prefix(message))
    with control_dependencies(of_ranks):
        return tf.group(of_sizes)


def _constraint(tensor: Any, wanted: Any, prefix: str) -> _Constraint:
    if not hasattr(wanted, "__iter__") and not hasattr(wanted, "__getitem__"):
        rule = "Specified shape must be an iterable.  An iterable has the attribute `__iter__` or `__getitem__`."
        raise ValueError(f"{prefix}Tensor {_name(tensor)}.  {rule}  Received specified shape: {wanted}")
    symbols = tuple(wanted)
    for i, symbol in enumerate(symbols[1:], 1):
        if symbol in _ANY_OUTER:
            rule = "Symbol `...` or `*` for a variable number of unspecified dimensions is only allowed as the first entry"
            raise ValueError(f"{prefix}Tensor {_name(tensor)} specified shape index {i}.  {rule}")
    is_inner = bool(symbols) and symbols[0] in _ANY_OUTER
    return _Constraint(tensor, is_inner, _sizes(tensor), symbols[is_inner:] or (1,))


def _name(tensor: Any) -> str:
    is_sparse = isinstance(tensor, SparseTensor)
    return f"shape={tensor.shape} dtype={tensor.dtype.name}" if is_sparse else str(tensor.name)


def _sizes(tensor: Any) -> Any:
    """A tensor's sizes; a scalar counts as a vector of one element."""
    shape = tf.shape(tensor)
    if tensor.shape.rank is None:
        return tf.cond(tf.equal(tf.rank(tensor), 0), lambda: tf.constant([1]), lambda: shape)
    known = tensor.shape.as_list() or [1]
    return [shape[i] if size is None else size for i, size in enumerate(known)]


def _assert_rank(constraint: _Constraint, options: dict[str, Any]) -> Any:
    """Make the assertion of a tensor's rank; None if any rank is allowed."""
    rank = len(constraint.wanted)
    if constraint.is_inner:
        return None if rank == 1 else tf.assert_rank_at_least(constraint.tensor, rank, **options)
    if rank == 1:
        return tf.assert_rank_in(constraint.tensor, [0, 1], **options)
    return tf.assert_rank(constraint.tensor, rank, **options)


def _assert_sizes(
    constraints: Sequence[_Constraint], of_ranks: Sequence[Any], data: Any, summarize: object, prefix: str
) -> list[Any]:
    """Check known sizes, and make assertions for unknown ones.  Sizes with the same name must equal the first of them."""
    found = []
    named: dict[Any, tuple[Any, Any, int]] = {}
    for constraint in constraints:
        for i, symbol in enumerate(constraint.wanted):
            if symbol in _ANY_SIZE:
                continue
            dim = i - len(constraint.wanted) if constraint.is_inner else i
            # a size is only read after the check of the rank
            with control_dependencies(of_ranks):
                size = constraint.sizes[dim]
            if symbol not in named and not _is_number(symbol):
                named[symbol] = (size, constraint.tensor, dim)
                continue
            if _is_number(symbol):
                wanted, source = int(symbol), "Specified explicitly"
            else:
                wanted, of, of_dim = named[symbol]
                source = f"Specified by tensor {_name(of)} dimension {of_dim}"
            who = f"Tensor {_name(constraint.tensor)} dimension"
            if _is_number(size) and _is_number(wanted):
                if int(size) != int(wanted):
                    got = f"Received size {size}, shape {constraint.tensor.shape}"
                    raise ValueError(f"{prefix}{source}.  {who} {dim} must have size {wanted}.  {got}")
                continue
            is_wanted = tf.equal(convert_to_tensor(size), convert_to_tensor(wanted))
            shown = data
            if data is None:
                shape = tf.shape(constraint.tensor)
                shown = [prefix, source, who, dim, "must have size", wanted, "Received shape: ", shape]
            found.append(tf.Assert(is_wanted, shown, summarize=summarize))
    return found


def _is_number(size: Any) -> bool:
    try:
        int(size)
    except (TypeError, ValueError):
        return False
    return True
