"""TensorFlow 1's Python API: what a script calls becomes a graph as TensorFlow 2.21's `tf.compat.v1` would build it.

`import placesim.tf1 as tf`, or run a script for which `importing` answers `import tensorflow`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from placesim.tf1 import operators as _operators  # noqa: F401 (puts them on Tensor)
from placesim.tf1.namespaces import find, is_function, public_names

newaxis = None


def __getattr__(name: str) -> Any:
    found = find(name)
    globals()[name] = found
    return found


class _Api(ModuleType):
    """Importing a submodule does not put it in the place of the function of the same name, as `gradients`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and is_function(name):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Api


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("")})
