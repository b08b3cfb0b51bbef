"""`dataclass` as in the standard library, for modules that every command imports: it makes a class in a quarter of the time.

The standard library compiles eight functions for a frozen class. Here only `__init__` is compiled, and all classes share the
other methods. `field`, `fields`, `replace`, `copy` and `pickle` work as with the standard decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import _FIELD, MISSING, Field, FrozenInstanceError, field  # type: ignore[attr-defined]  # no public name
from inspect import get_annotations
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

_FIELDS = "__dataclass_fields__"
_set = object.__setattr__


def _dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True) -> Callable[[Any], Any]:
    """Return the decorator that adds the methods of a data class; with `slots`, it returns a new class."""

    def decorate(cls: Any) -> Any:
        known = {name: each for base in cls.__mro__[:0:-1] for name, each in base.__dict__.get(_FIELDS, {}).items()}
        known |= {name: _make_field(cls, name, kind) for name, kind in get_annotations(cls).items()}
        compared = [name for name, each in known.items() if each.compare]
        methods = {
            _FIELDS: known,
            "__init__": _compile_init(cls, known, is_frozen=frozen),
            "__match_args__": tuple(name for name, each in known.items() if each.kw_only is not True),
            # the attrgetter of a single name returns no tuple, and that of no names does not exist
            "_compared": attrgetter(*compared, compared[0]) if compared else type,
            **({"__repr__": _repr} if repr else {}),
            **({"__eq__": _eq, "__hash__": _hash if frozen else None} if eq else {}),
            **({"__setattr__": _refuse, "__delattr__": _refuse} if frozen else {}),
            **({"__getstate__": _get_state, "__setstate__": _set_state} if frozen and slots else {}),
        }
        added = {name: value for name, value in methods.items() if name not in cls.__dict__}
        return _with_slots(cls, known, added) if slots else _with_methods(cls, added)

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


def _make_field(cls: Any, name: str, kind: Any) -> Field[Any]:
    """Return the field of an annotation. The class keeps the field's default as an attribute."""
    given = cls.__dict__.get(name, MISSING)
    made: Any = given if isinstance(given, Field) else field(default=given)
    made.name, made.type, made._field_type = name, kind, _FIELD
    if given is made:
        delattr(cls, name)
        if made.default is not MISSING:
            setattr(cls, name, made.default)
    return made  # type: ignore[no-any-return]


def _compile_init(cls: Any, known: Mapping[str, Field[Any]], *, is_frozen: bool) -> Any:
    """Return the `__init__` of a class with these fields."""
    names: dict[str, Any] = {"_set": _set, "_absent": MISSING}
    positional, by_name, lines = ["self"], ["*"], []
    for name, each in known.items():
        parameter = value = name
        if each.default_factory is not MISSING:
            names[f"_make_{name}"] = each.default_factory
            parameter, value = f"{name}=_absent", f"_make_{name}() if {name} is _absent else {name}"
        elif each.default is not MISSING:
            names[f"_default_{name}"] = each.default
            parameter = f"{name}=_default_{name}"
        (by_name if each.kw_only is True else positional).append(parameter)
        lines.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(positional + (by_name if len(by_name) > 1 else []))
    exec("\n ".join([f"def __init__({parameters}):", *lines, "return None"]), names)
    made = names["__init__"]
    made.__annotations__ = {name: each.type for name, each in known.items()} | {"return": None}
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


def _with_methods(cls: Any, methods: Mapping[str, Any]) -> Any:
    for name, value in methods.items():
        setattr(cls, name, value)
    return cls


def _with_slots(cls: Any, known: Mapping[str, Field[Any]], methods: Mapping[str, Any]) -> Any:
    """Return a copy of the class, since slots are made with a class; the defaults are in `__init__` alone."""
    taken = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    kept = {name: value for name, value in cls.__dict__.items() if name not in (*known, "__dict__", "__weakref__")}
    slots = {"__slots__": tuple(name for name in known if name not in taken), "__qualname__": cls.__qualname__}
    return type(cls)(cls.__name__, cls.__bases__, {**kept, **methods, **slots})


def _repr(self: Any) -> str:
    values = (f"{name}={getattr(self, name)!r}" for name, each in self.__dataclass_fields__.items() if each.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _eq(self: Any, other: Any) -> Any:
    return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _refuse(self: Any, name: str, value: Any = None) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        _set(self, name, value)
