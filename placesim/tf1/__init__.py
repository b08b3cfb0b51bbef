"""TensorFlow 1's Python API, whose calls build the same graph as TensorFlow 2.21's `tf.compat.v1`.

Use it with `import placesim.tf1 as tf`, or run a script, for which `importing` replaces `import tensorflow`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from placesim.tf1.importing.namespaces import Namespace, find, is_function, is_package, public_names

newaxis = None


def __getattr__(name: str) -> Any:
    found = _SharedModule(name) if is_package(name) else find(name)
    globals()[name] = found
    return found


class _SharedModule(Namespace):
    """A module of the API (`tf.NAME`); for placesim's own code, it also has the names of the module `placesim.tf1.NAME`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # placesim's module may not be imported yet
            if name.startswith("__") or find_spec(f"{__name__}.{self._prefix}") is None:
                raise
            own = vars(import_module(f"{__name__}.{self._prefix}"))
            if name not in own:
                raise
            return own[name]


class _Api(ModuleType):
    """The API module, in which TensorFlow's names take precedence over submodules of the same name (`gradients`, `nn`)."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and (is_function(name) or is_package(name)):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Api


def __dir__() -> list[str]:
    return sorted({*globals(), *public_names("")})


from placesim.tf1.ops import operators as _operators  # noqa: E402, F401 - after `__getattr__`, which its imports need
