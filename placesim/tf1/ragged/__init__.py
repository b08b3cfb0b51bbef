"""Ragged tensors: tensors whose rows have different lengths."""

# tensors have their operators and parts, whichever module makes them
from placesim.tf1.ragged import computing as _computing  # noqa: F401
from placesim.tf1.ragged import slicing as _slicing  # noqa: F401
