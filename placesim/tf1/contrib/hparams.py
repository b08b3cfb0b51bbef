"""`tf.contrib.training.HParams`: hyperparameters, whose types are those of their first values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_CLAUSE = re.compile(r"\s*([a-zA-Z_][\w.]*)(?:\[(\d+)\])?\s*=\s*(\[[^\]]*\]|[^,\[]*)\s*(?:,|$)")
_TRUE, _FALSE = ("true", "True", "1"), ("false", "False", "0")


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in (*_TRUE, *_FALSE):
        return value in _TRUE
    raise ValueError(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool | float):
        raise ValueError(value)
    return int(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_CASTS: dict[type, Callable[[Any], Any]] = {bool: _boolean, int: _whole, float: float, str: _text}


class HParams:
    """Hyperparameters as attributes; a new value is cast to the type of the old one.  Raises ValueError, KeyError."""

    _types: dict[str, tuple[type, bool]]

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: object) -> None:
        if hparam_def is not None:
            raise ValueError("hparam_def is not supported: pass the values by name")
        self.__dict__["_types"] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: object) -> None:
        """Add a hyperparameter."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._types[name] = (type(value[0]), True)
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Set a value, cast to the type of the hyperparameter."""
        is_list = self._types[name][1]
        if isinstance(value, list) != is_list:
            wanted = (
                f"Must pass a list for multi-valued parameter: {name}."
                if is_list
                else f"Must not pass a list for single-valued parameter: {name}"
            )
            raise ValueError(wanted)
        setattr(self, name, [self._cast(name, one) for one in value] if is_list else self._cast(name, value))

    def _cast(self, name: str, value: Any) -> Any:
        """A value as the type of a hyperparameter; None stays None.  Raises ValueError for another type."""
        kind = self._types[name][0]
        if value is None:
            return None
        try:
            return _CASTS.get(kind, lambda one: one)(value)
        except (TypeError, ValueError):
            raise ValueError(f"Could not cast hparam '{name}' of type '{kind}' from value {value!r}") from None

    def del_hparam(self, name: str) -> None:
        """Remove a hyperparameter."""
        if hasattr(self, name):
            delattr(self, name)
            del self._types[name]

    def parse(self, values: str) -> HParams:
        """Set values from a text `name=value,list=[1,2]`."""
        found: dict[str, Any] = {}
        at = 0
        while at < len(values):
            clause = _CLAUSE.match(values, at)
            if clause is None or clause.end() == at:
                raise ValueError(f"Malformed hyperparameter value: {values[at:]}")
            at = clause.end()
            name, index, text = clause[1], clause[2], clause[3].strip()
            if name not in self._types:
                raise ValueError(f"Unknown hyperparameter type for {name}")
            if name in found:
                raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
            if index is not None:
                found[name] = {int(index): text}  # TensorFlow reads an element, and then refuses it
            elif text.startswith("["):
                found[name] = [item.strip() for item in text[1:-1].split(",") if item.strip()]
            else:
                found[name] = [text] if self._types[name][1] else text
        return self.override_from_dict(found)

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Set values by name."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Set values from a JSON object."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """All values by name."""
        return {name: getattr(self, name) for name in self._types}

    def to_json(
        self, indent: int | str | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
    ) -> str:
        """The values as a JSON object."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key: str, default: object = None) -> Any:
        """Value of a parameter, or the default."""
        return getattr(self, key) if key in self._types else default

    def get_model_structure(self) -> Any:
        return self._model_structure

    def set_model_structure(self, model_structure: object) -> None:
        self._model_structure = model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"HParams({sorted(self.values().items())})"
