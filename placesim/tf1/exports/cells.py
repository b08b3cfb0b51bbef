"""Cells of recurrent networks."""

from __future__ import annotations

_CELLS = "RNNCell BasicRNNCell GRUCell BasicLSTMCell MultiRNNCell DeviceWrapper LSTMStateTuple"

ROWS = {"nn.cells": "nn.static_rnn " + " ".join(f"nn.rnn_cell.{name}" for name in _CELLS.split())}
