"""TensorFlow's side of `beside_tensorflow`: run by a Python that has TensorFlow, and so without a line of placesim's.

A line of JSON comes in, a line goes out.  {"open": NAME, "graph": FILE.pb, "initializers": [...], "fetches": [...], "feeds":
FILE.npz, "values": FILE.npz, "optimize": true, "threads": 2} runs a first step and writes what it fetched; {"run": NAME,
"steps": N} answers {"seconds": [...]}; {"close": NAME} forgets it.  With the arguments `log FILE.pb` it logs where that graph's
nodes are placed, and ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def step_clock(threads: int) -> Callable[[], float]:
    """Processor time for a step in one thread, which is fair on a loaded machine; else the time that passes."""
    return time.process_time if threads == 1 else time.perf_counter


class ModelSession:
    """A graph in a session of its own, with its variables initialised."""

    def __init__(self, request: dict[str, Any]) -> None:
        import numpy as np
        import tensorflow.compat.v1 as tf  # in the other Python alone

        definition, graph = tf.GraphDef(), tf.Graph()
        with open(request["graph"], "rb") as file:
            definition.ParseFromString(file.read())
        with graph.as_default():
            tf.import_graph_def(definition, name="")
        config = tf.ConfigProto(
            intra_op_parallelism_threads=request["threads"],
            inter_op_parallelism_threads=request["threads"],
            allow_soft_placement=True,
        )
        if not request["optimize"]:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
        self._session = tf.Session(graph=graph, config=config)
        if request["initializers"]:
            self._session.run(request["initializers"])
        feeds = np.load(request["feeds"])
        self._feeds = {f"{name}:0": feeds[name] for name in feeds.files}
        self._fetches = request["fetches"]
        self.clock = step_clock(request["threads"])

    def step(self) -> list[Any]:
        """What one step fetched; None for an op."""
        found: list[Any] = self._session.run(self._fetches, self._feeds)
        return found


def answer(request: dict[str, Any], opened: dict[str, ModelSession]) -> dict[str, Any]:
    """What a line asks for, done; `opened` holds what earlier lines opened."""
    if "open" in request:
        import numpy as np

        found = opened[request["open"]] = ModelSession(request)
        np.savez(request["values"], *(value for value in found.step() if value is not None))
        return {}
    if "close" in request:
        del opened[request["close"]]
        return {}
    session, seconds = opened[request["run"]], []
    for _ in range(request["steps"]):
        start = session.clock()
        session.step()
        seconds.append(session.clock() - start)
    return {"seconds": seconds}


def log(path: str) -> None:
    """Have a graph placed and every node's device logged, by a step of its last node."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    import tensorflow.compat.v1 as tf  # in the other Python alone

    definition, graph = tf.GraphDef(), tf.Graph()
    with open(path, "rb") as file:
        definition.ParseFromString(file.read())
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    config = tf.ConfigProto(log_device_placement=True, allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Session(graph=graph, config=config) as session:
        session.run(graph.get_operations()[-1])


def main() -> None:
    if sys.argv[1:2] == ["log"]:
        log(sys.argv[2])
        return
    opened: dict[str, ModelSession] = {}
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), opened)), flush=True)


if __name__ == "__main__":
    main()
