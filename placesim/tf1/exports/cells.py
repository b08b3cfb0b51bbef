"""Recurrent networks."""

from __future__ import annotations


def _under(prefixes: str, names: str) -> str:
    """The same names in several modules."""
    return " ".join(f"{prefix}.{name}" for prefix in prefixes.split() for name in names.split())


_CELLS = "nn.rnn_cell contrib.rnn"
_NETWORKS = "nn contrib.rnn"

ROWS = {
    "rnn.cells": _under(_CELLS, "RNNCell BasicRNNCell GRUCell") + " contrib.rnn.LayerRNNCell",
    "rnn.lstm": _under(_CELLS, "LSTMStateTuple BasicLSTMCell LSTMCell"),
    "rnn.wrappers": _under(_CELLS, "MultiRNNCell DropoutWrapper ResidualWrapper DeviceWrapper"),
    "rnn.static": _under(_NETWORKS, "static_rnn static_state_saving_rnn static_bidirectional_rnn"),
    "rnn.dynamic": "nn.dynamic_rnn nn.bidirectional_dynamic_rnn contrib.rnn.transpose_batch_time=swapped",
    "rnn.raw": "nn.raw_rnn",
    "rnn.states": "contrib.rnn.best_effort_input_batch_size=batch_size_of",
    "rnn.contrib_cells": _under(
        "contrib.rnn",
        "LayerNormBasicLSTMCell CoupledInputForgetGateLSTMCell UGRNNCell NASCell ConvLSTMCell Conv1DLSTMCell Conv2DLSTMCell "
        "Conv3DLSTMCell",
    ),
    "rnn.contrib_wrappers": _under(
        "contrib.rnn",
        "InputProjectionWrapper OutputProjectionWrapper EmbeddingWrapper HighwayWrapper AttentionCellWrapper",
    ),
    "rnn.block_cells": _under("contrib.rnn", "LSTMBlockCell GRUBlockCellV2 GRUBlockCell=GRUBlockCellV2 LSTMBlockFusedCell"),
    "rnn.stacking": _under("contrib.rnn", "stack_bidirectional_rnn stack_bidirectional_dynamic_rnn"),
}
