"""The law of execution on a cluster: with two workers everything comes out bit for bit as in one process, op by op.

`python -m tests.runtime.dask.law [--one-thread] [PATTERN]` holds every graph of `graphs/` and every recorded model and function
to it: values, errors, what ops print, and which bodies were placed.  With `--one-thread` nodes have no threads, so that the
order of a step without control flow is fixed.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import PlacesimError
from placesim.core.files.access import FileAccess
from placesim.formats.graph_file.reader import graph_file_from_mapping
from placesim.formats.sources.loading import load
from placesim.graph.session_steps import Config, Fetch, GraphFile, GraphStep
from placesim.machine.inventory import Device
from placesim.machine.options import make_options
from placesim.ops.kernels.data.values import ElementSequence
from placesim.runtime.partitioning.step_requests import default_fetches
from placesim.runtime.sessions.session import GraphSession
from placesim.runtime.sessions.visible_devices import build_session_devices
from placesim.studies.simulation.settings import build_machine_settings, session_config
from tests.runtime.dask.workers import open_session, two_workers

ROOT = Path(__file__).parents[3]
GRAPHS = sorted((ROOT / "graphs").glob("*.yaml"))
NO_KERNEL = ("PyFunc",)

Opener = Callable[..., GraphSession]


class Case(NamedTuple):
    """A graph, the devices that it runs on, and its steps."""

    name: str
    file: GraphFile
    devices: tuple[Device, ...]
    config: Config
    steps: tuple[GraphStep, ...]
    directory: Path


def graph_case(path: Path) -> Case:
    """A file of `graphs/`, as `placesim run` runs it."""
    options = make_options({})
    loaded = load(str(path), None, options)
    assert loaded.file is not None
    config = session_config(loaded.file, options)
    devices = build_session_devices(build_machine_settings(loaded.file, options).tasks, config)
    steps = (GraphStep(),) if loaded.file.steps is None else loaded.file.steps
    return Case(f"graphs/{path.stem}", loaded.file, devices, config, tuple(steps), path.parent)


def recorded_cases() -> Iterator[Case]:
    """The recorded models and functions that can be placed: initializers, what must run in turn, and then all the rest."""
    from tests.runtime.sessions.models import CASES, ORDERED, feeds_of, initializers

    for case in CASES:
        file = graph_file_from_mapping(case["graph"], case["id"])
        graph = file.graph
        first = initializers(graph)
        feeds = feeds_of(graph)
        turns = ([first] if first else []) + [[name] for name in ORDERED.get(case["id"], [])]
        done = {*first, *ORDERED.get(case["id"], [])}
        rest = [found.name for found in default_fetches(graph) if found.name not in done]
        rest = [name for name in rest if graph.node(name.partition(":")[0]).op not in NO_KERNEL]
        steps = [GraphStep(tuple(map(Fetch, names)), feeds) for names in turns]
        steps += [GraphStep(tuple(map(Fetch, rest)), feeds)] * 2
        yield Case(
            case["id"], file, build_session_devices(file.inventory or (), file.config), file.config, tuple(steps), Path()
        )


def outcome(case: Case, opened: Opener, folder: Path) -> list[Any]:
    """What the steps give: fetched values to their last bit, or the error with its place; and what was printed and placed.

    Each op is computed by itself, as workers compute them.
    """
    files = FileAccess.of([case.directory], [folder])
    config = replace(case.config, fuses_ops=False)
    session = opened(case.file.graph, case.devices, config, initial_values=case.file.initial_values, files=files)
    found: list[Any] = []
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            for step in case.steps:
                for _ in range(step.repeat):
                    result = session.run(replace(step, repeat=1))
                    found.append([(value.name, value.dtype.name, bits(value.value)) for value in result.values])
        except PlacesimError as error:
            found.append((error.type_name, error.message, error.node, error.device, str(error.location)))
        finally:
            session.close()
    found.append((output.getvalue(), errors.getvalue()))
    found += [
        [(node.name, device and device.name) for node, device in zip(p.graph.nodes, p.devices, strict=True)]
        for p in session.placements
    ]
    return found


def bits(value: Any) -> Any:
    """A value as what can be compared: of an array its type, its shape and its bytes."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return (str(array.dtype), array.shape, repr(array.tolist()) if array.dtype == object else array.tobytes())
    return type(value).__name__ if isinstance(value, ElementSequence) else repr(value)


def fixed_seeds() -> None:
    """What asks the system for seeds gets the same ones in every process."""
    secrets.randbits = lambda k: 0x5EED5EED5EED5EED & ((1 << k) - 1)


def in_a_fixed_order(case: Case) -> Case:
    """With threads for nodes a step goes by its data."""
    return case._replace(config=replace(case.config, inter_op_parallelism_threads=1))


def main(pattern: str = "*", *, has_one_thread: bool = False) -> int:
    from tempfile import TemporaryDirectory

    fixed_seeds()
    failed = []
    with two_workers() as cluster, TemporaryDirectory() as folder:
        cluster.client.run(fixed_seeds)
        opened = partial(open_session, cluster)
        for case in (*map(graph_case, GRAPHS), *recorded_cases()):
            if not fnmatch(case.name, pattern):
                continue
            if has_one_thread:
                case = in_a_fixed_order(case)
            moments = [time.perf_counter()]
            results = []
            for way in (GraphSession, opened):
                results.append(outcome(case, way, Path(folder)))
                moments.append(time.perf_counter())
            same = results[0] == results[1]
            print(
                f"{case.name:32} {'same' if same else 'DIFFERS':8}",
                f"{moments[1] - moments[0]:6.2f} s {moments[2] - moments[1]:6.2f} s",
                flush=True,
            )
            if not same:
                failed.append(case.name)
                for one, other in zip(*results, strict=False):
                    if one != other:
                        print("   ", str(one)[:600], "\n   ", str(other)[:600])
                        break
    print(f"{len(failed)} differ")
    return bool(failed)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--one-thread"]
    sys.exit(main(*words, has_one_thread="--one-thread" in sys.argv))
