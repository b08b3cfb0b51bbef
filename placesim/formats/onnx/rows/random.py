"""Random numbers."""

from __future__ import annotations

from placesim.formats.onnx.onnx_node import Rows

ROWS: Rows = {}
