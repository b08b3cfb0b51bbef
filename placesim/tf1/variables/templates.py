"""`tf.make_template`: a function whose first call makes variables, which later calls reuse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.types.read_only import read_only


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Callable[..., Any] | None = None,
    **kwargs: object,
) -> Template:
    """A `Template` of a function with fixed `kwargs`."""
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """Function called in its own variable scope; all calls but the first reuse the variables."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        create_scope_now: bool,
        unique_name: str | None,
        custom_getter: Callable[..., Any] | None,
    ) -> None:
        self._name, self._function, self._unique_name = name, function, unique_name
        self._custom_getter = custom_getter
        self._has_variables = False
        self._scope: Any = None
        if create_scope_now:
            with self._new_scope(has_name_scope=False) as self._scope:
                pass

    def _new_scope(self, has_name_scope: bool = True) -> Any:
        return tf.variable_scope(
            self._unique_name, self._name, custom_getter=self._custom_getter, auxiliary_name_scope=has_name_scope
        )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self._scope is None:
            with self._new_scope() as scope:
                self._scope = scope
                return self._first(args, kwargs)
        with tf.variable_scope(self._scope, reuse=self._has_variables):
            return self._later(args, kwargs) if self._has_variables else self._first(args, kwargs)

    def _first(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        result = self._function(*args, **kwargs)
        self._has_variables = True
        return result

    def _later(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
        before = len(tf.get_collection("trainable_variables"))
        result = self._function(*args, **kwargs)
        made = tf.get_collection("trainable_variables")[before:]
        if made:
            raise ValueError(
                "Trainable variable created when calling a template after the first time, perhaps you used tf.Variable when "
                f"you meant tf.get_variable: {made}"
            )
        return result

    name: str = read_only("_name")
    func: Callable[..., Any] = read_only("_function")
    variable_scope = read_only("_scope")

    var_scope = variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """Name of the scope; None before the first call."""
        if self._scope is None:
            return None
        return str(self._scope.name).rstrip("/")

    @property
    def variables(self) -> list[Any]:
        """Global and local variables of the scope."""
        return self.global_variables + self.local_variables

    @property
    def trainable_variables(self) -> list[Any]:
        return self._collected("trainable_variables")

    @property
    def global_variables(self) -> list[Any]:
        return self._collected("variables")

    @property
    def local_variables(self) -> list[Any]:
        return self._collected("local_variables")

    @property
    def non_trainable_variables(self) -> list[Any]:
        trained = {id(variable) for variable in self.trainable_variables}
        return [variable for variable in self.global_variables if id(variable) not in trained]

    def _collected(self, collection: str) -> list[Any]:
        return [] if self._scope is None else list(tf.get_collection(collection, scope=self._scope.name + "/"))
