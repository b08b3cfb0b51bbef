"""Kullback-Leibler divergences, by the classes of two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import placesim.tf1 as tf

_DIVERGENCES: dict[tuple[type, type], Callable[..., Any]] = {}


class RegisterKL:
    """Decorator that registers a function `kl(a, b, name=None)` for two classes."""

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Raise TypeError for no function, and ValueError for classes that have one."""
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _DIVERGENCES:
            classes = " || ".join(kind.__name__ for kind in self._key)
            raise ValueError(f"KL({classes}) has already been registered to: {_DIVERGENCES[self._key]}")
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn


def kl_divergence(distribution_a: Any, distribution_b: Any, allow_nan_stats: bool = True, name: str | None = None) -> Any:
    """`KL(a || b)`, by the function of their classes or nearest base classes.  Raises NotImplementedError without one."""
    kinds = type(distribution_a), type(distribution_b)
    found = [
        (near_a + near_b, near_a, kl)
        for near_a, a in enumerate(kinds[0].__mro__)
        for near_b, b in enumerate(kinds[1].__mro__)
        if (kl := _DIVERGENCES.get((a, b))) is not None
    ]
    if not found:
        names = f"distribution_a type {kinds[0].__name__} and distribution_b type {kinds[1].__name__}"
        raise NotImplementedError(f"No KL(distribution_a || distribution_b) registered for {names}")
    with tf.name_scope("KullbackLeibler"):
        kl = min(found, key=lambda item: item[:2])[2](distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return kl
        kl = tf.identity(kl, name="kl")
        message = (
            f"KL calculation between {distribution_a.name} and {distribution_b.name} returned NaN values (and was called with "
            "allow_nan_stats=False). Values:"
        )
        with tf.control_dependencies([tf.Assert(tf.logical_not(tf.reduce_any(tf.is_nan(kl))), [message, kl])]):
            return tf.identity(kl, name="checked_kl")
