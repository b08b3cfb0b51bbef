"""`special` is scipy.special, which is imported when a function of it is first used."""

from __future__ import annotations

from typing import Any


class _LazyModule:
    def __getattr__(self, name: str) -> Any:
        from scipy import special as module

        return getattr(module, name)


special: Any = _LazyModule()
