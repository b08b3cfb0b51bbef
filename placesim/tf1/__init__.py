"""TensorFlow 1's Python API: what a script calls becomes a graph as TensorFlow 2.21's `tf.compat.v1` would build it.

`import placesim.tf1 as tf`, or run a script for which `importing` answers `import tensorflow`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from placesim.tf1 import operators as _operators  # noqa: F401
from placesim.tf1.namespaces import find, is_function, is_package, public_names

newaxis = None


def __getattr__(name: str) -> Any:
    found = find(name)
    globals()[name] = found
    return found


class _Api(ModuleType):
    """Importing a submodule leaves a function of the same name in its place, as `gradients`.

    One named as a module of the API, as `nn`, finds the rest of that module's names where they are.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType):
            if is_function(name):
                return
            if is_package(name) and not hasattr(value, "__getattr__"):
                value.__getattr__ = lambda last: find(f"{name}.{last}")  # type: ignore[method-assign]
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Api


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("")})
