"""Assertions about ranks, checked statically if possible, else by an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.tf1.array.shaping import rank as rank_of
from placesim.tf1.array.shaping import shape_of
from placesim.tf1.assertions.conditions import _assert, _prefix, assert_type
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.grouping import with_dependencies
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.types import dtypes


def _rank_check(word: str, op: str, fits: Callable[[int, int], bool], text: str) -> Any:
    def call(
        x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
    ) -> Any:
        with name_scope(name, word, [x, rank]):
            x = x if isinstance(x, SparseTensor) else convert_to_tensor(x, name="x")
            rank = convert_to_tensor(rank, name="rank")
            if data is None:
                said = f"Tensor {_name(x)} must have rank{text}"
                data = [_prefix(message), said, rank, "Received shape: ", shape_of(x, out_type=dtypes.int32)]

            def refused(wanted: Sequence[int]) -> ValueError:
                told = f"{_prefix(message)}Tensor {_name(x)} must have rank{text} {wanted[0]}.  "
                return ValueError(f"{told}Received rank {x.shape.rank}, shape {x.shape}")

            return _condition(x, (rank,), lambda known, wanted: fits(known, wanted[0]), op, data, summarize, refused)

    return call


assert_rank = _rank_check("assert_rank", "Equal", lambda known, wanted: known == wanted, "")
assert_rank_at_least = _rank_check("assert_rank_at_least", "GreaterEqual", lambda known, wanted: known >= wanted, " at least")


def assert_rank_in(
    x: Any, ranks: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
) -> Any:
    """`tf.assert_rank_in`: assert that the rank is one of several."""
    with name_scope(name, "assert_rank_in", (x, *ranks)):
        x = x if isinstance(x, SparseTensor) else convert_to_tensor(x, name="x")
        wanted_ranks = tuple(convert_to_tensor(rank, name="rank") for rank in ranks)
        if data is None:
            said = f"Tensor {_name(x)} must have rank in"
            data = [_prefix(message), said, *wanted_ranks, "Received shape: ", shape_of(x, out_type=dtypes.int32)]

        def refused(wanted: Sequence[int]) -> ValueError:
            told = f"{_prefix(message)}Tensor {_name(x)} must have rank in {tuple(wanted)}.  "
            return ValueError(f"{told}Received rank {x.shape.rank}, shape {x.shape}")

        return _condition(x, wanted_ranks, lambda known, wanted: known in wanted, "Equal", data, summarize, refused)


def _name(x: Tensor | SparseTensor) -> str:
    """A tensor's name in TensorFlow's messages, which is empty for a SparseTensor."""
    return "" if isinstance(x, SparseTensor) else x.name


def _condition(
    x: Tensor,
    ranks: Sequence[Tensor],
    fits: Callable[[int, Sequence[int]], bool],
    op: str,
    data: TensorLike,
    summarize: int | None,
    refused: Callable[[Sequence[int]], ValueError],
) -> Any:
    """Check known ranks statically, else make an assertion.  Rank arguments with unknown values must be scalars."""
    for rank in ranks:
        assert_type(rank, dtypes.int32)
    wanted = [constant_value(rank) for rank in ranks]
    if any(value is not None and value.ndim for value in wanted):
        raise ValueError("Rank must be a scalar.")
    known = x.shape.rank
    if known is not None and all(value is not None for value in wanted):
        numbers = [int(value) for value in wanted]
        if not fits(known, numbers):
            raise refused(numbers)
        return gen("NoOp")(name="static_checks_determined_all_ok")
    found = rank_of(x)
    comparisons = [gen(op)(*((rank, found) if len(ranks) > 1 else (found, rank))) for rank in ranks]
    condition = comparisons[0]
    for more in comparisons[1:]:
        condition = gen("LogicalOr")(condition, more)
    for rank, value in zip(ranks, wanted, strict=True):
        if value is None:
            said = ["Rank must be a scalar. Received rank: ", rank]
            condition = with_dependencies([assert_rank(rank, 0, data=said)], condition)
    return _assert(condition, data, summarize)
