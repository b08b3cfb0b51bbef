"""`lazy_loader`: modules that are imported when they are first used."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from types import ModuleType
from typing import Any


class LazyLoader(ModuleType):
    """A module that is imported at the first use of one of its names, and then stands in the given globals."""

    def __init__(self, local_name: str, parent_module_globals: MutableMapping[str, Any], name: str) -> None:
        super().__init__(name)
        self._local_name = local_name
        self._parent_module_globals = parent_module_globals

    def __getattr__(self, item: str) -> Any:
        module = import_module(self.__name__)
        self._parent_module_globals[self._local_name] = module
        self.__dict__.update(module.__dict__)
        return getattr(module, item)
