"""`tf.py_func` and `tf.numpy_function`: ops that call a Python function of this process with arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.generated import gen


def py_func(func: Callable[..., Any], inp: Any, Tout: Any, stateful: bool = True, name: str | None = None) -> Any:
    """The function's results: a list if `Tout` is one.  Raises ValueError for what can't be called."""
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    from placesim.runtime.kernels.resources.python_functions import register

    is_list = isinstance(Tout, list | tuple)
    types = [tf.as_dtype(dtype) for dtype in (Tout if is_list else [Tout])]
    made = gen("PyFunc" if stateful else "PyFuncStateless")(inp, register(func), types, name=name)
    if not types:
        return []
    found = list(made) if isinstance(made, list | tuple) else [made]
    return found if is_list else found[0]


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """As `py_func`; also a decorator's maker, where it gets only `Tout`."""
    if func is None:
        return lambda given: lambda *args: numpy_function(given, list(args), Tout, stateful, name)
    return py_func(func, inp, Tout, stateful, name)
