"""What is chosen by its value: the largest, the unique, boxes that do not overlap."""

from __future__ import annotations

from placesim.formats.onnx.onnx_node import Rows

ROWS: Rows = {}
