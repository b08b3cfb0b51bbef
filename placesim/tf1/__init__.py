"""TensorFlow 1's Python API: what a script calls becomes a graph as TensorFlow 2.21's `tf.compat.v1` would build it.

`import placesim.tf1 as tf`, or run a script for which `importing` answers `import tensorflow`.
"""

from __future__ import annotations

from typing import Any

from placesim.tf1 import operators as _operators  # noqa: F401 (puts them on Tensor)
from placesim.tf1.namespaces import find, public_names

newaxis = None


def __getattr__(name: str) -> Any:
    found = find(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("")})
