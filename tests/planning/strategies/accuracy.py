"""Differences of rewritten training graphs from the originals after five steps: `python -m tests.planning.strategies.accuracy`.

Prints a line for each optimizer, model and strategy. Differences are relative: of elements, of which each counts as at least
1 % of the largest of its tensor (for `tenth`, 10 %), and of norms. The same graphs in float64 tell rounding from errors: both
forms agree there, and `noise`, the difference of the original graph from its float64 form, is about as large. Variables whose
exact gradient is zero are left out: their values are only rounding errors.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import DOUBLE, FLOAT
from placesim.core.errors import PlacesimError
from placesim.formats.sources.loading import LoadedGraph
from placesim.graph.graph import Graph, Node, NodeDef, split_tensor_name
from placesim.graph.session_steps import Feed, Fetch, GraphFile, GraphStep
from placesim.machine.options import make_options
from placesim.ops.attributes import TensorValue
from placesim.ops.categories import ASSIGNMENTS, VARIABLES
from placesim.planning.strategies.batch_shapes import BatchShapes
from placesim.planning.strategies.recomputation import AUTO
from placesim.planning.strategies.rewriting import Strategy, rewrite_training
from placesim.planning.strategies.training_graph import find_training
from placesim.planning.strategies.zero_gradients import find_ignored_variables
from placesim.studies.rewrite_study import search_segments
from tests.planning.strategies.models import MODELS, OPTIMIZERS, Document, attention, loaded, results
from tests.planning.strategies.test_recomputation import DEEP
from tests.planning.strategies.test_replication import WORDS, script

FLOORS = (0.01, 0.1)
"""Least size with which an element counts, relative to the largest of its tensor."""
_MIRRORED = {"variables": "mirrored"}
_TWO = {"stages": 2, "micro_batches": 2}
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    **{f"replicas, {way}": {"replicas": 2, "reduce": way} for way in ("cpu", "ring", "tree", "nccl")},
    **{f"mirrored, {way}": {"replicas": 2, "reduce": way, **_MIRRORED} for way in ("cpu", "ring", "tree", "nccl")},
    "4 replicas, tree": {"replicas": 4, "reduce": "tree"},
    "accumulate 4": {"accumulate": 4},
    "replicas, accumulate": {"replicas": 2, "accumulate": 2},
    "pipeline": {"stages": 3},
    "pipeline, gpipe": {**_TWO, "schedule": "gpipe"},
    "pipeline, 1f1b": {"stages": 2, "micro_batches": 4},
    "pipeline, interleaved": {**_TWO, "schedule": "interleaved"},
    "recompute sqrt": {"recompute": ("sqrt",)},
    "recompute auto": {"recompute": (AUTO,)},
    "replicas, recompute": {"replicas": 2, "recompute": ("2",)},
    "accumulate, recompute": {"accumulate": 2, "recompute": ("2",)},
    "pipeline, recompute": {"stages": 2, "recompute": ("2",)},
    "replicas, pipeline, recompute": {**_TWO, "replicas": 2, **_MIRRORED, "reduce": "nccl", "recompute": ("2",)},
}
_ATTENTION = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(1)
x, wanted = tf.placeholder(tf.float32, [None, 6, 8], name="x"), tf.placeholder(tf.int32, [None], name="wanted")


def normalized(h):
    mean, variance = tf.nn.moments(h, [-1], keep_dims=True)
    return (h - mean) * tf.rsqrt(variance + 1e-6)


with tf.variable_scope("net", use_resource=RESOURCE):
    h = tf.layers.dense(x, 8)
    for block in range(2):
        parts = [tf.layers.dense(h, 8, use_bias=BIAS, name=f"{name}{block}") for name in ("query", "key", "value")]
        q, k, v = (tf.transpose(tf.reshape(part, [-1, 6, 2, 4]), [0, 2, 1, 3]) for part in parts)
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.5), v), [0, 2, 1, 3])
        h = normalized(h + tf.layers.dense(tf.reshape(mixed, [-1, 6, 8]), 8))
        h = normalized(h + tf.layers.dense(tf.layers.dense(h, 16, tf.nn.relu), 8))
    logits = tf.layers.dense(tf.reduce_mean(h, 1), 5)
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits))
train = OPTIMIZER.minimize(loss, name="train")
random = np.random.RandomState(1)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run([loss, train], {x: random.randn(8, 6, 8), wanted: random.randint(0, 5, 8)})
"""
"""A transformer whose optimizer writes its ops by TensorFlow's API."""
_CLASSES = {
    "gradient descent": "tf.train.GradientDescentOptimizer(learning_rate=0.05)",
    "momentum": "tf.train.MomentumOptimizer(learning_rate=0.01, momentum=0.9)",
    "adam": "tf.train.AdamOptimizer(learning_rate=0.01)",
}


def _script(text: str, **words: str) -> Callable[[str], LoadedGraph]:
    def load_script(optimizer: str) -> LoadedGraph:
        changed = text.replace("tf.train.AdamOptimizer(1e-2)", "OPTIMIZER").replace("OPTIMIZER", _CLASSES[optimizer])
        for word, value in words.items():
            changed = changed.replace(word, value)
        with tempfile.TemporaryDirectory() as folder:
            return script(Path(folder, "model.py"), changed)

    return load_script


def _document(make: Callable[[str], Document]) -> Callable[[str], LoadedGraph]:
    return lambda optimizer: loaded(make(optimizer))


GRAPHS: Mapping[str, Callable[[str], LoadedGraph]] = {
    **{name: _document(make) for name, make in MODELS.items()},
    "deep": _document(DEEP["dense"]),
    "attention, biases": lambda optimizer: loaded(attention(optimizer, "qv")),
    "attention, key bias": lambda optimizer: loaded(attention(optimizer, "qkv")),
    "words": _script(WORDS, BATCH="4"),
    "transformer": _script(_ATTENTION, RESOURCE="False", BIAS="False"),
    "transformer, resources": _script(_ATTENTION, RESOURCE="True", BIAS="False"),
    "transformer, key bias": _script(_ATTENTION, RESOURCE="True", BIAS="True"),
}
"""Training graphs by name, each for any of `OPTIMIZERS`."""


class Difference(NamedTuple):
    """The largest relative difference of elements, with a floor of 1 % and of 10 %, and the relative difference of norms."""

    elements: float
    tenth: float
    norm: float


def difference(found: Any, expected: Any) -> Difference:
    wanted, own = np.asarray(expected, np.float64), np.asarray(found, np.float64)
    apart, size = np.abs(own - wanted), np.abs(wanted)
    if not apart.any():
        return Difference(0.0, 0.0, 0.0)
    with np.errstate(divide="ignore"):
        elements, tenth = (float((apart / np.maximum(size, floor * size.max())).max()) for floor in FLOORS)
        return Difference(elements, tenth, float(np.linalg.norm(apart) / np.linalg.norm(wanted)))


def rewritten(graph: LoadedGraph, settings: Mapping[str, Any]) -> GraphFile:
    assert graph.file is not None
    strategy = Strategy(**settings)
    if strategy.recompute == (AUTO,):
        return search_segments(graph, make_options({"soft_placement": True}), "graph", strategy).file
    return rewrite_training(graph.file, strategy).file


# --- float64 and gradients ------------------------------------------------------------------------------------------


def in_float64(graph: LoadedGraph) -> LoadedGraph:
    """Return the same training in float64, from the same variables and batches; the first step still computes in float32."""
    assert graph.file is not None
    old, steps = graph.file.graph, graph.file.steps or ()
    initial = _ancestors(old, [split_tensor_name(fetch.name)[0] for fetch in steps[0].fetches])
    new = Graph(old.registry, old.functions, old.file)
    new.versions, new.files, new.gradients_of = old.versions, old.files, old.gradients_of
    new.extend([written for node in old.nodes for written in _widened(old, node, node.id in initial)])

    def exact(feed: Feed) -> Feed:
        is_float = old.node(split_tensor_name(feed.tensor)[0]).signature.output_dtypes[0] is FLOAT
        return feed._replace(value=np.float64(np.float32(feed.value))) if is_float else feed

    fed = tuple(replace(step, feeds=tuple(map(exact, step.feeds))) for step in steps)
    return replace(graph, file=replace(graph.file, graph=new, steps=fed, each_step=None, as_read=None), text=None)


def _ancestors(graph: Graph, names: Sequence[str]) -> set[int]:
    found = {graph.ids[name] for text in names for name in graph.spelled_out(text)}
    waiting = [*found]
    while waiting:
        node = graph.nodes[waiting.pop()]
        new = {*node.input_nodes, *node.control_inputs} - found
        found |= new
        waiting += new
    return found


def _widened(graph: Graph, node: Node, is_initial: bool) -> Iterator[NodeDef]:
    """Yield the node in float64; a node that computes an initial value stays, and a cast follows it."""
    inputs = graph.input_texts(node)
    if is_initial and node.op not in (*VARIABLES, *ASSIGNMENTS):
        yield NodeDef(node.name, node.op, tuple(inputs), node.device, node.attrs)
        return
    if is_initial and node.op in ASSIGNMENTS and node.signature.input_dtypes[1] is FLOAT:
        yield NodeDef(f"{node.name}/wide", "Cast", (inputs[1],), "", {"SrcT": FLOAT, "DstT": DOUBLE})
        inputs[1] = f"{node.name}/wide"
    attrs = {name: _wide_attr(value) for name, value in node.attrs.items()}
    yield NodeDef(node.name, node.op, tuple(inputs), node.device, attrs)


def _wide_attr(value: Any) -> Any:
    if isinstance(value, TensorValue):
        return TensorValue(DOUBLE, value.array.astype(np.float64)) if value.dtype is FLOAT else value
    if type(value) is tuple:
        return tuple(map(_wide_attr, value))
    return DOUBLE if value is FLOAT else value


def with_gradients(graph: LoadedGraph) -> LoadedGraph:
    """Return the graph with a step before the training that fetches each variable's gradient, as `gradient of NAME`."""
    assert graph.file is not None
    nodes = graph.file.graph.nodes
    updates = [update for update in find_training(graph.file.graph, needs_batch=False).updates if len(update.gradients) == 1]
    more = [
        Fetch(graph.file.graph.tensor_name_full(update.gradients[0]), label=f"gradient of {nodes[update.variable].name}")
        for update in updates
    ]
    first, training, *others = graph.file.steps or ()
    steps = first, GraphStep(tuple(more), feeds=training.feeds), training, *others
    return replace(graph, file=replace(graph.file, steps=steps, each_step=None), text=None)


# --- the matrix -----------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """The largest differences of a strategy's losses and of its variables.

    `loss_noise` and `noise` are the differences of the same loss and of the same `variable` between the original graph in
    float32 and in float64. `float64` is the largest difference of norms between the two graphs in float64.
    """

    losses: float
    loss_noise: float
    variables: Difference
    variable: str
    noise: float
    float64: float


class Original:
    """A training graph and the same in float64, with the results of their steps."""

    def __init__(self, graph: LoadedGraph) -> None:
        self._graph = graph

    @cached_property
    def _results(self) -> Sequence[tuple[str, Any]]:
        return results(self._graph)

    @cached_property
    def _wide(self) -> LoadedGraph:
        return in_float64(self._graph)

    @cached_property
    def _exact(self) -> Sequence[tuple[str, Any]]:
        return results(self._wide)

    @cached_property
    def _ignored(self) -> Sequence[str]:
        assert self._graph.file is not None
        parts = find_training(self._graph.file.graph)
        return [own.variable.name for own in find_ignored_variables(parts, BatchShapes(parts, 2).full)]

    def _is_ignored(self, name: str) -> bool:
        """Whether a tensor is a variable whose exact gradient is zero, or one of its slots."""
        return any(re.match(rf"{re.escape(variable)}($|[/:])", name) for variable in self._ignored)

    def compare(self, settings: Mapping[str, Any]) -> Row:
        """Return the differences, except of variables whose exact gradient is zero.

        A strategy without any is not computed in float64.
        """
        expected, found = self._results, results(self._graph, rewritten(self._graph, settings))
        own = [difference(other, array) for array, other in _pairs(expected, found)]
        if not any(one.norm for one in own):
            return Row(0.0, 0.0, Difference(0.0, 0.0, 0.0), "", 0.0, 0.0)
        noise = [difference(array, exact).elements for array, exact in _pairs(expected, self._exact)]
        wide = _pairs(self._exact, results(self._wide, rewritten(self._wide, settings)))
        losses = [i for i, (name, _) in enumerate(expected) if name == expected[0][0]]
        counted = [i for i, (name, _) in enumerate(expected) if i not in losses and not self._is_ignored(name)]
        loss, worst = (max(places, key=own.__getitem__) for places in (losses, counted))
        variables = Difference(*map(max, zip(*(own[i] for i in counted), strict=True)))
        float64 = max(difference(other, exact).norm for i, (exact, other) in enumerate(wide) if i in {*losses, *counted})
        return Row(own[loss].elements, noise[loss], variables, expected[worst][0], noise[worst], float64)


def _pairs(expected: Sequence[tuple[str, Any]], found: Sequence[tuple[str, Any]]) -> Iterator[tuple[Any, Any]]:
    for (name, array), (other_name, other) in zip(expected, found, strict=True):
        assert name == other_name
        yield array, other


COLUMNS = ("losses", "noise", "elements", "noise", "tenth", "norms", "float64")


def write_row(optimizer: str, model: str, strategy: str, row: Row) -> None:
    """Print a line of the table."""
    elements, tenth, norm = row.variables
    figures = (row.losses, row.loss_noise, elements, row.noise, tenth, norm, row.float64)
    print(optimizer, model, strategy, *(f"{value:.1e}" for value in figures), row.variable, sep="\t", flush=True)


def write_matrix(optimizers: Iterable[str], models: Iterable[str], strategies: Iterable[str], *, is_short: bool) -> None:
    """Print the table; if it `is_short`, only the row with the largest difference for each optimizer and model."""
    print("optimizer", "model", "strategy", *COLUMNS, "variable", sep="\t")
    for optimizer, model in product(optimizers, models):
        original, rows = Original(GRAPHS[model](optimizer)), dict[str, Row]()
        for strategy in strategies:
            try:
                rows[strategy] = original.compare(STRATEGIES[strategy])
            except PlacesimError as error:
                print(optimizer, model, strategy, *("-" for _ in COLUMNS), error.message.splitlines()[0], sep="\t", flush=True)
                continue
            if not is_short:
                write_row(optimizer, model, strategy, rows[strategy])
        if is_short and rows:
            worst = max(rows, key=lambda name: rows[name].variables)
            write_row(optimizer, model, worst, rows[worst])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="MODEL", nargs="*", help=f"by default all: {'; '.join(GRAPHS)}")
    for option, names in (("--optimizer", OPTIMIZERS), ("--strategy", STRATEGIES)):
        parser.add_argument(option, action="append", metavar="NAME", help=f"(repeatable) by default all: {'; '.join(names)}")
    parser.add_argument("--worst", action="store_true", help="print only the largest difference of each optimizer and model")
    args = parser.parse_args()

    def chosen(what: str, given: Sequence[str] | None, known: Iterable[str]) -> Sequence[str]:
        for name in given or ():
            if name not in known:
                parser.error(f"unknown {what}: got '{name}', expected one of: {'; '.join(known)}")
        return given or [*known]

    models, optimizers = chosen("MODEL", args.models, GRAPHS), chosen("--optimizer", args.optimizer, OPTIMIZERS)
    write_matrix(optimizers, models, chosen("--strategy", args.strategy, STRATEGIES), is_short=args.worst)


if __name__ == "__main__":
    main()
