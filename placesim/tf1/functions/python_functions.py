"""`tf.py_func`, `tf.numpy_function` and `tf.py_function`: ops that call a Python function with arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.arguments import as_list
from placesim.tf1.ops.generated_functions import gen


def py_func(func: Callable[..., Any], inp: object, Tout: object, stateful: bool = True, name: str | None = None) -> Any:
    """Results of a Python function, as a list if `Tout` is a list.  Raises ValueError if `func` is not callable."""
    return _called("PyFunc" if stateful else "PyFuncStateless", func, inp, Tout, name)


def _called(op: str, func: Callable[..., Any], inp: object, Tout: Any, name: str | None, **attrs: object) -> Any:
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    from placesim.ops.kernels.resources.python_functions import register

    is_list = isinstance(Tout, list | tuple)
    types = [tf.as_dtype(dtype) for dtype in (Tout if is_list else [Tout])]
    made = gen(op)(inp, register(func), types, name=name, **attrs)
    if not types:
        return []
    found = as_list(made)
    return found if is_list else found[0]


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: object = None,
    Tout: object = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Like `py_func`; a decorator factory if only `Tout` is given."""
    if func is None:
        return lambda given: lambda *args: numpy_function(given, list(args), Tout, stateful, name)
    return py_func(func, inp, Tout, stateful, name)


def eager_py_func(func: Callable[..., Any], inp: object, Tout: object, name: str | None = None) -> Any:
    """`EagerPyFunc`, whose function gets arrays instead of eager tensors."""
    return _called("EagerPyFunc", func, inp, Tout, name, is_async=False)


def py_function(func: object = None, inp: object = None, Tout: object = None, name: str | None = None) -> Any:
    """`tf.py_function`; `func` gets arrays with a method `numpy`, where TensorFlow passes eager tensors.

    Calls of TensorFlow's functions in `func` fail, because they add nodes to the graph.
    """
    if func is None:
        return lambda given: lambda *args: py_function(given, list(args), Tout, name)
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    return eager_py_func(lambda *arrays: func(*map(_as_eager, arrays)), inp, Tout, name)


def _as_eager(value: TensorLike) -> Any:
    return np.asarray(value).view(_EagerArray)


class _EagerArray(np.ndarray):
    """An array with the method `numpy` of eager tensors."""

    def numpy(self) -> Any:
        """The plain array, or a scalar's value."""
        plain = self.view(np.ndarray)
        return plain[()] if not plain.ndim else plain
