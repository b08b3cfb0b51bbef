"""Modules of the public API (`tf.nn`, `tf.train`), with names found on first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from placesim.tf1.exports import packages, table


def find(name: str, top: str = "tensorflow.compat.v1") -> Any:
    """Find `tf.NAME`; a function or class that placesim lacks is a placeholder whose call fails.

    Raises AttributeError for a name that TensorFlow does not have either; in its message, `top` is the name of the module `tf`.
    """
    export = table().get(name)
    if export is None and name.startswith("__"):
        raise AttributeError(name)
    if export is not None:
        if not export.module:
            from placesim.tf1.ops.generated_functions import gen

            return gen(export.name)
        return getattr(import_module("placesim.tf1." + export.module), export.name)
    if is_package(name):
        return namespace(name)
    parent, _, last = name.rpartition(".")
    where = f"tensorflow._api.v2.compat.v1.{parent}" if parent else top
    from placesim.tf1.importing.missing_names import absent

    found = absent(name)
    if found is not None:
        return found
    raise AttributeError(f"module '{where}' has no attribute '{last}'")


_OWN = ("compat", "compat.v1", "raw_ops")


def is_package(name: str) -> bool:
    """Whether `tf.NAME` is a module."""
    if name in packages() or name in _OWN:
        return True
    from placesim.tf1.importing.missing_names import known_packages

    return name in known_packages()


def is_function(name: str) -> bool:
    """Whether `tf.NAME` exists and is not a module."""
    return name in table() and not is_package(name)


class Namespace(ModuleType):
    """A module of the API whose names are found on first use."""

    def __init__(self, prefix: str, is_plain: bool = False) -> None:
        super().__init__("tensorflow." + prefix if prefix else "tensorflow")
        self.__dict__["__path__"] = []
        self._prefix = prefix
        self._is_plain = is_plain
        """Whether this is the module of `import tensorflow`, not of `import tensorflow.compat.v1`."""

    def __getattr__(self, name: str) -> Any:
        found = find(name, "tensorflow") if self._is_plain and name != "newaxis" else _find_in(self._prefix, name)
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return public_names(self._prefix)


def _find_in(prefix: str, name: str) -> Any:
    if prefix == "raw_ops":
        from placesim.tf1.ops.generated_functions import gen

        try:
            return gen(name)
        except KeyError:
            raise AttributeError(f"module 'tensorflow.raw_ops' has no attribute '{name}'") from None
    if prefix in ("compat", "compat.v2.compat") and name in ("v1", "v2"):
        return namespace("" if name == "v1" else "compat.v2")
    if prefix in ("", "compat.v2") and name == "newaxis":
        return None
    if f"{prefix}.".startswith("compat.v2."):
        return _find_in_version2(f"{prefix}.{name}")
    return find(f"{prefix}.{name}" if prefix else name)


_KERAS_IN_VERSION2 = ("initializers", "losses", "metrics", "optimizers")
"""Modules that version 2 takes from Keras."""


def _find_in_version2(name: str) -> Any:
    from placesim.tf1.importing.version2 import in_version2, name_in_version1

    own = name.removeprefix("compat.v2.")
    if own.partition(".")[0] in _KERAS_IN_VERSION2:
        own = f"keras.{own}"
    return (
        namespace(f"compat.v2.{own}")
        if is_package(own)
        else in_version2(own, find(name_in_version1(own), "tensorflow.compat.v2"))
    )


@cache
def namespace(prefix: str) -> ModuleType:
    """The module `tf.PREFIX`."""
    return Namespace(prefix)


def public_names(prefix: str) -> list[str]:
    """Sorted names directly in a module of the API."""
    start = prefix + "." if prefix else ""
    names = {name[len(start) :].partition(".")[0] for name in (*table(), *packages()) if name.startswith(start)}
    return sorted(names)
