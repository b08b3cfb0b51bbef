"""Names of TensorFlow's API missing from placesim.tf1: a class for each, whose call raises an error with the name.

`public-names.txt` lists the functions and classes of TensorFlow 2.21's `tf.compat.v1` without Keras, `keras-names.txt` those of
its `tf.keras` (tf_keras 2.21), `contrib-names.txt` those of TensorFlow 1.15's `tf.contrib` and `tf.estimator`.  A line is a
module.
"""

from __future__ import annotations

from abc import ABCMeta
from functools import cache
from importlib import resources
from typing import Any, NoReturn


@cache
def _listed(file: str) -> frozenset[str]:
    found: set[str] = set()
    module = ""
    for line in resources.files(__package__).joinpath(file).read_text("utf-8").splitlines():
        if not line.startswith(" "):
            head, _, line = line.partition(": ")
            module = "" if head == "." else head + "."
        found.update(module + name for name in line.split())
    return frozenset(found)


def known_names() -> frozenset[str]:
    """Every function and class of TensorFlow's API, without `tf.`."""
    return _listed("public-names.txt")


def contrib_names() -> frozenset[str]:
    """Every function and class of `tf.contrib` and `tf.estimator`, without `tf.`."""
    return _listed("contrib-names.txt")


def keras_names() -> frozenset[str]:
    """Every function and class of `tf.keras`, without `tf.`."""
    return _listed("keras-names.txt")


@cache
def all_names() -> frozenset[str]:
    """Union of `known_names`, `contrib_names` and `keras_names`."""
    return known_names() | contrib_names() | keras_names()


@cache
def known_packages() -> frozenset[str]:
    """Every module of TensorFlow's API that has functions or classes."""
    return frozenset(".".join(parts[:i]) for parts in (name.split(".") for name in all_names()) for i in range(1, len(parts)))


LISTED = "`placesim manual tf1-functions` lists what is"
"""Advice for a function that placesim.tf1 lacks."""


class MissingAttributeError(NotImplementedError, AttributeError):
    """Error for an attribute of a missing class; `hasattr` is false."""


class _Missing(ABCMeta):
    """Class of the placeholders, which scripts may combine with abstract base classes."""

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise MissingAttributeError(str(not_there(f"{cls.public_name}.{name}", LISTED)))


class _MissingSymbol(metaclass=_Missing):
    """Placeholder for a missing function or class, which can be named and imported but not called."""

    public_name = ""

    def __new__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise not_there(cls.public_name, LISTED)


class MissingBase:
    """Placeholder for a missing class, of which packages define subclasses."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise not_there(f"{type(self).__name__}'s base class", LISTED)


def not_there(name: str, instead: str) -> NotImplementedError:
    """Error for a missing function, or for an unsupported call of a function."""
    return NotImplementedError(
        f"tf.{name} is not there in placesim.tf1 ({instead}). Build the graph with TensorFlow and write it with "
        "tf.io.write_graph (graph.as_graph_def()): every command of placesim takes that file, and `placesim convert` turns it "
        "into a graph file."
    )


@cache
def absent(name: str) -> Any:
    """Placeholder for a missing name; None for a name that TensorFlow does not have either."""
    if name not in all_names():
        return None
    return type(name.rpartition(".")[2], (_MissingSymbol,), {"public_name": name, "__module__": "tensorflow"})
