"""What TensorFlow's API has and placesim.tf1 has not: a function that says so, by its name, when it is called."""

from __future__ import annotations

from typing import Any


def absent(name: str) -> Any:
    """What stands for a name that is not there; None for one that TensorFlow hasn't either."""
    return None
