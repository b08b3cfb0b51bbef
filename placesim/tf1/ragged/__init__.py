"""Ragged tensors: tensors whose rows have different lengths."""

from placesim.tf1.ragged import computing as _computing  # noqa: F401 - tensors have their operators, whichever module makes them
