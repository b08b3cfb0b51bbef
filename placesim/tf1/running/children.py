"""Child processes of a script that `multiprocessing` spawns: make `import tensorflow` work in them too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

SPAWNING = "multiprocessing.spawn"
_PROGRAM = "-c"
_ROOT = str(Path(__file__).parents[3])


def answer_imports() -> None:
    """Make `import tensorflow` import placesim.tf1 in children of this process."""
    known = sys.modules.get(SPAWNING)
    if known is not None:
        _patch(known)


def spec_of_spawning(path: Sequence[str] | None) -> ModuleSpec | None:
    """Spec of `multiprocessing.spawn` with a loader that patches the module; few scripts load it."""
    spec = PathFinder.find_spec(SPAWNING, path)
    if spec is not None and isinstance(spec.loader, SourceFileLoader):
        spec.loader = _SpawnLoader(spec.loader.name, spec.loader.path)
    return spec


class _SpawnLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _patch(module)


def _patch(spawning: Any) -> None:
    """Make children install the import hook first, since their unpickling may need `tensorflow`."""
    plain = spawning.get_command_line
    if hasattr(plain, "__wrapped__"):
        return

    def get_command_line(**kwds: object) -> list[str]:
        words: list[str] = plain(**kwds)
        if _PROGRAM in words:
            at = words.index(_PROGRAM) + 1
            first = f"import sys; sys.path.append({_ROOT!r}); "
            first += "from placesim.tf1.importing import import_hook; import_hook.install(); "
            words[at] = first + words[at]
        return words

    get_command_line.__wrapped__ = plain  # type: ignore[attr-defined]
    spawning.get_command_line = get_command_line
