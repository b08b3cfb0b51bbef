"""Properties that only return an attribute."""

from __future__ import annotations

import pytest

import placesim.tf1 as tf
from placesim.tf1.sparse.values import SparseTensor
from placesim.tf1.training.servers import Server


def test_such_a_property_cannot_be_set() -> None:
    with tf.Graph().as_default():
        sparse = SparseTensor([[0]], [1.0], [2])
        assert sparse.name == sparse.values.name == "SparseTensor/values:0"
        with pytest.raises(AttributeError, match="property 'values' of 'SparseTensor' object has no setter"):
            sparse.values = sparse.indices
        assert Server.target.__doc__ == "Target of sessions that connect to this server."
