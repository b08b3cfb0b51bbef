"""Answers `import tensorflow`, its v1 module and submodules with placesim.tf1."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ROOTS = ("tensorflow", "tensorflow_core")
_SOURCES = {
    "python.framework.ops": ("", "graph", "tensor", "conversion", "scopes", "graph_keys", "graph_elements", "framework_ops"),
    "python.framework.dtypes": ("dtypes",),
    "python.framework.tensor_shape": ("shapes",),
    "python.framework.tensor_util": ("constant_values", "conversion"),
    "python.framework.constant_op": ("conversion",),
    "python.framework.device": ("device_spec",),
    "python.framework.random_seed": ("randomness",),
    "python.framework.errors": ("errors",),
    "python.framework.errors_impl": ("errors",),
    "python.framework.graph_util": ("graph_util",),
    "python.framework.importer": ("importer",),
    "python.ops.array_ops": ("array", ""),
    "python.ops.math_ops": ("math", ""),
    "python.ops.random_ops": ("random_ops", ""),
    "python.ops.control_flow_ops": ("grouping", "control_flow", ""),
    "python.ops.gradients": ("gradients", ""),
    "python.ops.gradients_impl": ("gradients", ""),
    "python.ops.variables": ("variables", ""),
    "python.ops.variable_scope": ("variables", ""),
    "python.ops.init_ops": ("initializers", ""),
    "python.training.device_setter": ("distributed", "train"),
    "python.training.moving_averages": ("train",),
    "python.client.device_lib": ("session.devices",),
    "python.client.timeline": ("session.timeline",),
    "python.client.session": ("session", ""),
    "python.platform.gfile": ("gfile",),
    "python.platform.tf_logging": ("logging",),
}
"""A submodule of TensorFlow's own -> where its names are: modules of placesim.tf1 or of the public API ("" is `tf`)."""


class Finder(MetaPathFinder, Loader):
    """Finds `tensorflow` and everything below it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        root = fullname.partition(".")[0]
        if root not in ROOTS:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return module_for(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def module_for(name: str) -> ModuleType:
    """The module that `import NAME` gives.  Raises ModuleNotFoundError."""
    from placesim.tf1.namespaces import Namespace, is_package

    path = name.partition(".")[2]
    for version in ("compat.v1", "compat.v2", "_api.v1", "_api.v2.compat.v1"):
        if path == version:
            path = ""
        path = path.removeprefix(version + ".")
    if path == "core" or path.startswith("core."):
        from placesim.tf1.protos import GeneratedModule

        return GeneratedModule(name)
    if path in ("compat", "_api", "python") or path.startswith("python."):
        return _Internal(path) if path != "compat" else Namespace("compat")
    if path and not is_package(path):
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)
    return Namespace(path)


class _Internal(ModuleType):
    """A submodule of TensorFlow's own: its names are found among those that `_SOURCES` gives, or all of the API."""

    def __init__(self, path: str) -> None:
        super().__init__("tensorflow." + path)
        self.__dict__["__path__"] = []
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from importlib import import_module

        from placesim.tf1.namespaces import find

        below = f"{self._path}.{name}"
        if below in _SOURCES or any(path.startswith(below + ".") for path in _SOURCES):
            found: Any = import_module("tensorflow." + below)
            self.__dict__[name] = found
            return found
        last = self._path.rpartition(".")[2]
        if last.startswith("gen_"):
            return _generated(name, self.__name__)
        for source in _SOURCES.get(self._path, ("",)):
            try:
                found = getattr(import_module("placesim.tf1." + source), name) if source else find(name)
            except (ImportError, AttributeError):
                try:
                    found = find(f"{source}.{name}")
                except AttributeError:
                    continue
            self.__dict__[name] = found
            return found
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")


def _generated(name: str, module: str) -> Any:
    from placesim.ops.registry import load_registry
    from placesim.tf1.generated import gen
    from placesim.tf1.signatures import snake_case

    wanted = name.lstrip("_").replace("_", "")
    for op in load_registry().op_names:
        if snake_case(op).replace("_", "") == wanted:
            return gen(op)
    raise AttributeError(f"module '{module}' has no attribute '{name}'")


def install() -> None:
    """From now on `import tensorflow` is answered here."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
