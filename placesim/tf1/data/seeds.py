"""Seed tensors of datasets that shuffle or draw.  They are never both 0 if a seed was set."""

from __future__ import annotations

import placesim.tf1 as tf
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.random.seeds import get_seed
from placesim.tf1.types import dtypes

_MOST = 2**31 - 1


def seed_tensors(seed: int | None) -> tuple[Tensor, Tensor]:
    """The two int64 seeds, 0 and 0 if neither the graph nor the dataset has a seed."""
    if isinstance(seed, Tensor):
        first, second = get_seed(0)[0], gen("FloorMod")(seed, _MOST, name="mod")
    else:
        first, second = get_seed(seed)
    one = convert_to_tensor(first or 0, dtypes.int64, "seed")
    if first is None:
        return one, convert_to_tensor(0, dtypes.int64, "seed2")
    with name_scope("seed2") as scope:
        other = convert_to_tensor(second, dtypes.int64)
        both = gen("LogicalAnd")(tf.equal(one, 0), tf.equal(other, 0))
        return one, gen("SelectV2")(both, constant(_MOST, dtypes.int64), other, name=scope)
