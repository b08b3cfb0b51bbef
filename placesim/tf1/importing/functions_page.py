"""Sections of the manual's page `tf1-functions`, made from the tables of public names."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from placesim.ops.registry import load_registry
from placesim.tf1.exports import table
from placesim.tf1.importing.missing_names import all_names, contrib_names, keras_names, known_names

_WIDTH = 120
_INTRODUCTION = """
TensorFlow {release}'s `tf.compat.v1` has {known:,} functions and classes, Keras' own left out. {there:,} of them are there, for
scripts and for `import placesim.tf1 as tf`; {missing:,} are not. Of the {keras:,} of `tf.keras` {keras_there:,} are there,
of the {contrib:,} of `tf.contrib` and `tf.estimator`, which TensorFlow {release} no longer has, {contrib_there:,}.
Beside them `tf.raw_ops` has all {ops:,} ops, and {beyond:,} names are there that are no functions of these: element types,
versions, and other modules' names for what they have. `tf.compat.v1.NAME` is `tf.NAME`.

What is not there can be imported and named; when it is called, it raises `NotImplementedError` with its name. Then build the
graph with TensorFlow and write it with `tf.io.write_graph`: every command takes that file (`placesim manual tensorflow-files`).

Of the {modules} modules {complete} have all that TensorFlow has there, {empty} have nothing of it.

| module | there | not there |
|---|---|---|
"""


class Module(NamedTuple):
    """A module of the API (`tf.NAME`, or `tf`): the names that placesim has, and those that only TensorFlow has."""

    name: str
    there: list[str]
    missing: list[str]

    @property
    def title(self) -> str:
        """The module's name in scripts."""
        return f"tf.{self.name}" if self.name else "tf"


def modules() -> list[Module]:
    """Every module, by name; `tf` itself is the first."""
    found: dict[str, Module] = {}
    for name in sorted(table().keys() | all_names()):
        module, _, last = name.rpartition(".")
        there, missing = found.setdefault(module, Module(module, [], []))[1:]
        (there if name in table() else missing).append(last)
    return [found[module] for module in sorted(found)]


def functions_sections() -> dict[str, Callable[[], str]]:
    """Writers of the page's sections by heading: the introduction under "", then a section of names for each module."""
    listed = modules()
    return {
        "": partial(_introduction, listed),
        **{f"## {module.title}": partial(_section, module) for module in listed},
    }


def _introduction(listed: list[Module]) -> str:
    """Introduction with the number of names, in all and per module."""
    registry = load_registry()
    known, keras, contrib = known_names(), keras_names(), contrib_names()
    head = _INTRODUCTION.format(
        release=registry.release,
        known=len(known),
        there=len(known & table().keys()),
        missing=len(known - table().keys()),
        ops=len(registry.op_names),
        contrib=len(contrib),
        contrib_there=len(contrib & table().keys()),
        keras=len(keras),
        keras_there=len(keras & table().keys()),
        beyond=len(table().keys() - all_names()),
        modules=len(listed),
        complete=sum(not module.missing for module in listed),
        empty=sum(not module.there for module in listed),
    )
    rows = (f"| `{module.title}` | {len(module.there) or ''} | {len(module.missing) or ''} |\n" for module in listed)
    return head + "".join(rows)


def _section(module: Module) -> str:
    return _block("There", module.there) + _block("Not there", module.missing)


def _block(title: str, names: Iterable[str]) -> str:
    text = textwrap.fill(" ".join(names), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"\n{title}:\n\n```text\n{text}\n```\n" if text else ""
