"""Decorators of TensorFlow's own code: of deprecated, exported and wrapped functions.

TensorFlow logs a warning at the first call of a deprecated function; placesim does not.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

Function = Callable[..., Any]


def deprecated(date: object, instructions: str, warn_once: bool = True) -> Callable[[Function], Function]:
    """Decorator that returns the function unchanged."""
    return _unchanged


def deprecated_args(date: object, instructions: str, *names: object, **kwargs: object) -> Callable[[Function], Function]:
    """Decorator that returns the function unchanged."""
    return _unchanged


deprecated_arg_values = deprecated_args


def deprecated_endpoints(*args: str) -> Callable[[Function], Function]:
    """Decorator that returns the function unchanged."""
    return _unchanged


def tf_export(*args: str, **kwargs: object) -> Callable[[Function], Function]:
    """Decorator that returns the function unchanged."""
    return _unchanged


keras_export = estimator_export = tf_export


def _unchanged(function: Function) -> Function:
    return function


def should_use_result(fn: Any = None, **kwargs: object) -> Any:
    """Decorator, with or without arguments, that returns the function unchanged."""
    return _unchanged if fn is None else fn


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """Return the function or class."""
    return func_or_class


@contextmanager
def silence() -> Iterator[None]:
    """Context that logs no warnings of deprecated functions."""
    yield


# --- wrapped functions ---


def make_decorator(
    target: Any,
    decorator_func: Any,
    decorator_name: str | None = None,
    decorator_doc: str = "",
    decorator_argspec: Any = None,
) -> Any:
    """Give the function `decorator_func` the name, documentation and parameters of the function that it wraps."""
    return functools.wraps(target)(decorator_func)


def unwrap(maybe_tf_decorator: Any) -> tuple[list[Any], Any]:
    """The functions that wrap a function, outermost first, and the function itself."""
    wrappers = []
    while hasattr(maybe_tf_decorator, "__wrapped__"):
        wrappers.append(maybe_tf_decorator)
        maybe_tf_decorator = maybe_tf_decorator.__wrapped__
    return wrappers, maybe_tf_decorator


# --- documented names of a module ---

_DOCUMENTED = re.compile(r"^@@([\w.]+)", re.MULTILINE)


def make_all(module_name: str, doc_string_modules: list[ModuleType] | None = None) -> list[str]:
    """Names that the documentation of modules lists as `@@NAME`, and that the module has."""
    module = sys.modules[module_name]
    texts = [inspect.getdoc(one) or "" for one in doc_string_modules or [module]]
    listed = {name for text in texts for name in _DOCUMENTED.findall(text)}
    return sorted(name for name in listed if hasattr(module, name))


def remove_undocumented(
    module_name: str, allowed_exception_list: list[str] | None = None, doc_string_modules: list[ModuleType] | None = None
) -> None:
    """Do nothing: TensorFlow removes names of a module that its documentation does not list."""
