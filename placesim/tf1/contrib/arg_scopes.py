"""`arg_scope`: default arguments for the functions that a block of code calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_KEY = "_key_op"

_scopes: list[dict[str, dict[str, Any]]] = [{}]
"""Defaults of each open scope, the innermost last: key of a function -> its defaults."""
_arguments: dict[str, tuple[str, ...]] = {}
"""Key of each decorated function -> its arguments that have default values."""


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the function takes default arguments from the innermost `arg_scope`."""
    key = f"{func.__module__}.{func.__qualname__}@{id(func)}"

    @functools.wraps(func)
    def with_defaults(*args: object, **kwargs: object) -> Any:
        defaults = _scopes[-1].get(key)
        return func(*args, **(defaults | kwargs if defaults else kwargs))

    setattr(with_defaults, _KEY, key)
    parameters = inspect.signature(func).parameters.values()
    _arguments[key] = tuple(item.name for item in parameters if item.default is not item.empty)
    return with_defaults


def arg_scope_func_key(op: object) -> str:
    """Key of a function in a scope's dictionary."""
    return getattr(op, _KEY, str(op))


def has_arg_scope(func: object) -> bool:
    """Whether a function takes defaults."""
    return hasattr(func, _KEY)


def arg_scoped_arguments(func: object) -> tuple[str, ...]:
    """Arguments of a function that a scope can set."""
    return _arguments[arg_scope_func_key(func)]


def current_arg_scope() -> dict[str, dict[str, Any]]:
    """The innermost scope, which `arg_scope` can open again."""
    return _scopes[-1]


@contextmanager
def arg_scope(list_ops_or_scope: object, **kwargs: object) -> Iterator[dict[str, dict[str, Any]]]:
    """Give the listed functions default arguments in this block, or open a scope again.

    Raises TypeError for anything but a list, tuple or scope, ValueError for a function that is not decorated.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by suppling adictionary, kwargs must be empty.")
        scope = dict(list_ops_or_scope)
    elif isinstance(list_ops_or_scope, (list, tuple)):
        scope = _extended(list_ops_or_scope, kwargs)
    else:
        raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
    _scopes.append(scope)
    try:
        yield scope
    finally:
        _scopes.pop()


def _extended(functions: Any, defaults: dict[str, Any]) -> dict[str, dict[str, Any]]:
    scope = dict(_scopes[-1])
    for function in functions:
        if not has_arg_scope(function):
            module, name = getattr(function, "__module__", None), getattr(function, "__name__", function)
            raise ValueError(f"{module}::{name} is not decorated with @add_arg_scope")
        key = arg_scope_func_key(function)
        scope[key] = scope.get(key, {}) | defaults
    return scope
