"""`tf.Module`: objects that find the variables and modules among their attributes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.types import nest
from placesim.tf1.variables.variable import Variable

_WORD_START = re.compile(r"((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))")


class Module:
    """Base class of objects with variables; `name_scope` is opened when the module is made."""

    _TF_MODULE_IGNORED_PROPERTIES: frozenset[str] = frozenset()

    def __init__(self, name: str | None = None) -> None:
        """Raise ValueError for a name that is not an identifier."""
        if name is None:
            name = _WORD_START.sub(r"_\1", type(self).__name__).lower()
        elif not (name.isascii() and name.isidentifier()):
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid Python identifiers (e.g. a valid class name)."
            )
        self._name = name
        with tf.name_scope(name) as self._scope_name:
            pass

    @property
    def name(self) -> str:
        return self._name

    @property
    def name_scope(self) -> Any:
        """The module's name scope, for a `with` block."""
        return tf.name_scope(self._scope_name)

    @property
    def variables(self) -> tuple[Variable, ...]:
        return self._variables(lambda _: True)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return self._variables(lambda variable: bool(variable.trainable))

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        return self._variables(lambda variable: not variable.trainable)

    def _variables(self, is_wanted: Callable[[Any], bool]) -> tuple[Variable, ...]:
        return tuple(self._flatten(predicate=lambda leaf: isinstance(leaf, Variable) and is_wanted(leaf)))

    @property
    def submodules(self) -> tuple[Module, ...]:
        return tuple(self._flatten(predicate=lambda leaf: isinstance(leaf, Module)))

    def _flatten(
        self,
        recursive: bool = True,
        predicate: Callable[[Any], bool] = lambda _: True,
        attribute_traversal_key: Callable[[str], Any] | None = None,
        expand_composites: bool = False,
    ) -> Iterator[Any]:
        """Leaves of the attributes, sorted by name, without repetition; then those of the modules among them."""
        seen = {id(self)}
        waiting: list[Module] = [self]
        while waiting:
            module = waiting.pop()
            inner = []
            for key in sorted(vars(module), key=attribute_traversal_key):
                if key in module._TF_MODULE_IGNORED_PROPERTIES:
                    continue
                for leaf in nest.flatten(vars(module)[key], expand_composites):
                    if id(leaf) in seen:
                        continue
                    seen.add(id(leaf))
                    if predicate(leaf):
                        yield leaf
                    if recursive and isinstance(leaf, Module):
                        inner.append(leaf)
            waiting += reversed(inner)

    def _no_dependency(self, value: Any) -> Any:
        """Value of an attribute that object-based checkpoints leave out; placesim writes no such checkpoints."""
        return value

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator of a method, which then opens the module's name scope."""

        @functools.wraps(method)
        def in_scope(self: Module, *args: object, **kwargs: object) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return in_scope
