"""Makes imports of `tensorflow`, of its v1 module and of its submodules import placesim.tf1."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from placesim.tf1.running import children

ROOTS = ("tensorflow", "tensorflow_core")
ABSL = ("absl.app", "absl.logging")
"""Modules of absl that this hook also replaces by TensorFlow's; absl's flags stay."""


class Finder(MetaPathFinder, Loader):
    """Finds `tensorflow` and everything below it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        root = fullname.partition(".")[0]
        if root not in ROOTS and fullname not in ABSL:
            return children.spec_of_spawning(path) if fullname == children.SPAWNING else None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return module_for(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def module_for(name: str) -> ModuleType:
    """Module for `import NAME`.  Raises ModuleNotFoundError."""
    from placesim.tf1.importing.namespaces import Namespace, is_package

    root, _, path = name.partition(".")
    if root == "absl":
        return Namespace(path)
    for version in ("compat.v2.compat.v1", "compat.v1", "_api.v1", "_api.v2.compat.v1"):
        if path == version:
            path = ""
        path = path.removeprefix(version + ".")
    if not path:
        return Namespace(path, is_plain=name == root)
    if path == "core" or path.startswith("core."):
        from placesim.tf1.graph_defs.protos import GeneratedModule

        return GeneratedModule(name)
    if path in ("compat", "compat.v2"):
        return Namespace(path)
    # most scripts import no submodule, and need no table of them
    from placesim.tf1.importing.submodule_sources import SOURCES

    parts = path.split(".")
    is_internal = parts[0] in ("python", "_api") or (parts[0] == "contrib" and not is_package(path))
    if is_internal or any(f"{known}.".startswith(f"{path}.") for known in SOURCES):
        # no module is called so: Python tries it after `from MODULE import NAME` did not find the name in MODULE
        if parts[-1].startswith("_") and parts[-1] != "_api":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return _InternalModule(path)
    if not is_package(path.removeprefix("compat.v2.")):
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)
    return Namespace(path)


class _MissingName(NotImplementedError, AttributeError):
    """Error for a name that an internal submodule lacks here; as an AttributeError it makes `hasattr` false."""


_MissingName.__name__ = _MissingName.__qualname__ = "NotImplementedError"  # the name that users see


class _InternalModule(ModuleType):
    """An internal submodule of TensorFlow, with names found by `submodule_sources`.

    It also replaces a NAME that `from MODULE import NAME` did not find, so that a script can import names that it never uses.
    """

    def __init__(self, path: str) -> None:
        super().__init__("tensorflow." + path)
        self.__dict__["__path__"] = []
        self._path = path

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise _absent(self._path)

    def __mro_entries__(self, bases: object) -> NoReturn:
        raise _absent(self._path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from placesim.tf1.importing.submodule_sources import NEIGHBOURS, RENAMED, SOURCES, names_of, sources_of

        below = f"{self._path}.{name}"
        if any(f"{path}.".startswith(below + ".") for path in SOURCES):
            found: Any = import_module("tensorflow." + below)
        elif below in RENAMED:
            source, its_name = RENAMED[below]
            found = getattr(import_module("placesim.tf1." + source), its_name)
        elif self._path.rpartition(".")[2].startswith("gen_"):
            found = _generated(name)
        else:
            tried = (_found_in(source, one) for one in names_of(name) for source in sources_of(self._path))
            found = next((one for one in tried if one is not None), None)
            if found is None and self._path.startswith("python."):
                found = _generated(name)
            if found is None and name in NEIGHBOURS and self._path.startswith("python."):
                found = import_module("tensorflow." + NEIGHBOURS[name])
        if found is None:
            raise _MissingName(*_absent(below).args)
        self.__dict__[name] = found
        return found


class LazyLoader(ModuleType):
    """Stand-in for a module.  The first use of a name imports the module, which replaces the stand-in in the given globals."""

    def __init__(self, local_name: str, parent_module_globals: MutableMapping[str, Any], name: str) -> None:
        super().__init__(name)
        self._local_name = local_name
        self._parent_module_globals = parent_module_globals

    def __getattr__(self, item: str) -> Any:
        module = import_module(self.__name__)
        self._parent_module_globals[self._local_name] = module
        self.__dict__.update(module.__dict__)
        return getattr(module, item)


def _absent(path: str) -> NotImplementedError:
    from placesim.tf1.importing.missing_names import LISTED, not_there

    return not_there(path, LISTED)


def _found_in(source: str, name: str) -> Any:
    """Object of this name in a module of placesim.tf1 or of the public API; None if there is none."""
    from placesim.tf1.importing.namespaces import find

    if source:
        try:
            module = import_module("placesim.tf1." + source)
        except ImportError:
            module = None
        if module is not None and getattr(module, name, None) is not None:
            return getattr(module, name)
    try:
        return find(f"{source}.{name}" if source else name)
    except AttributeError:
        return None


def _generated(name: str) -> Any:
    """Generated function of the op with this snake-case name; None if there is none."""
    from placesim.ops.registry import load_registry
    from placesim.tf1.ops.generated_functions import gen
    from placesim.tf1.ops.signatures import snake_case

    wanted = name.lstrip("_").replace("_", "")
    for op in load_registry().op_names:
        if snake_case(op).replace("_", "") == wanted:
            return gen(op)
    return None


def install() -> None:
    """Make `import tensorflow` import placesim.tf1 in this process."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
        children.answer_imports()
