"""Recurrent networks."""

from __future__ import annotations


def _cells(names: str) -> str:
    return " ".join(f"nn.rnn_cell.{name}" for name in names.split())


ROWS = {
    "rnn.cells": _cells("RNNCell BasicRNNCell GRUCell"),
    "rnn.lstm": _cells("LSTMStateTuple BasicLSTMCell LSTMCell"),
    "rnn.wrappers": _cells("MultiRNNCell DropoutWrapper ResidualWrapper DeviceWrapper"),
    "rnn.static": "nn.static_rnn nn.static_state_saving_rnn nn.static_bidirectional_rnn",
    "rnn.dynamic": "nn.dynamic_rnn nn.bidirectional_dynamic_rnn",
    "rnn.raw": "nn.raw_rnn",
}
