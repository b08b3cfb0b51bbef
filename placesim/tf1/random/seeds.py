"""Seeds of random ops, from the graph's seed and the op's."""

from __future__ import annotations

import hashlib

from placesim.graph.variables import DEFAULT_SEED
from placesim.tf1.graphs.graph import get_default_graph

_MOST = 2**31 - 1


def set_random_seed(seed: int | None) -> None:
    """`tf.set_random_seed`: the graph's seed."""
    get_default_graph().seed = seed


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Both seeds of an op: the graph's and its own.  If only the graph has a seed, ops get 0, 1, ... as theirs."""
    graph = get_default_graph()
    if graph.seed is not None:
        if op_seed is None:
            op_seed = graph.seedless_ops
            graph.seedless_ops += 1
        seeds = _folded(graph.seed), _folded(op_seed)
    elif op_seed is not None:
        seeds = DEFAULT_SEED, _folded(op_seed)
    else:
        return None, None
    # (0, 0) would mean no seed
    return (0, _MOST) if seeds == (0, 0) else seeds


def op_seeds(seed: int | None) -> dict[str, int]:
    """The attrs `seed` and `seed2` of an op with this seed."""
    first, second = get_seed(seed)
    return {"seed": first or 0, "seed2": second or 0}


def salted_seed(seed: int | None, salt: str) -> int | None:
    """The seed of one of several random ops that share `seed`; None without a seed."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & _MOST


def _folded(seed: int) -> int:
    # TensorFlow divides by the largest int32, so that number and 0 are the same seed
    return seed % _MOST
