"""Runs a script with `tensorflow` answered by placesim.tf1, and writes down what it made, as the corpus' recorder did."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import re
import signal
import sys
import tempfile
import traceback
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.scripts import import_api, renew
from tests.tf1.corpus import Record

TIME_LIMIT = 120
"""Seconds that a script may take."""


def record_in_fork(script: Path, mode: str = "plain", argv: Sequence[str] = (), call: str = "", writes: bool = False) -> Record:
    """What a script makes, from a process of its own; `died` where that came to an end without telling.

    `argv` follows the script in sys.argv.  With `call` the script is a module that is loaded, no main program, and these lines
    are run in it then.  `writes` also tells which graphs no graph file says with scopes.
    """
    _import_api()
    with tempfile.NamedTemporaryFile(delete=False) as told:
        pass
    try:
        child = os.fork()
        if not child:
            _tell(script, (mode, argv, call, writes), told.name)
        _, status = os.waitpid(child, 0)
        data = Path(told.name).read_bytes()
        return pickle.loads(data) if data else {"died": f"exit status {status}"}
    finally:
        os.unlink(told.name)


@cache
def _import_api() -> None:
    """Import once, before processes are forked, what scripts need: the API, kernels, gradients and sessions."""
    import concurrent.futures.thread  # noqa: F401

    import google.protobuf.json_format  # noqa: F401
    import numpy.random  # noqa: F401

    import placesim.formats.graph_file.parsing.entry_templates
    import placesim.formats.graph_file.parsing.sequence_splitting
    import placesim.formats.graph_file.writing.scoped_writer
    import placesim.ops.process.intra_op_threads
    import placesim.runtime.sessions.session
    import placesim.runtime.shapes.graph_shapes
    import placesim.studies.simulation.program_sessions  # noqa: F401
    from placesim.ops.kernels import join_tables
    from placesim.tf1.importing.missing_names import known_names
    from placesim.tf1.importing.namespaces import find

    import_api()
    for name in sorted(known_names()):
        find(name)
    join_tables()


def _tell(script: Path, how: tuple[Any, ...], path: str) -> None:
    signal.alarm(TIME_LIMIT)
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            found = record(script, *how)
            os.chdir("/")
        data = pickle.dumps(found)
    except BaseException:
        data = pickle.dumps({"died": traceback.format_exc()})
    Path(path).write_bytes(data)
    os._exit(0)


class _Stop(BaseException):
    """The script has come to its first session."""


def record(script: Path, mode: str = "plain", argv: Sequence[str] = (), call: str = "", writes: bool = False) -> Record:
    """As `record_in_fork`, in this process, which is not fit for another script then."""
    import random

    import numpy as np

    from placesim.tf1.graphs import graph
    from placesim.tf1.importing import import_hook

    import_hook.install()
    graph.set_script(str(script))
    renew()
    graphs: list[Any] = []
    make = graph.Graph.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        graphs.append(self)

    graph.Graph.__init__ = noted  # type: ignore[method-assign]
    random.seed(0)
    np.random.seed(0)
    told: Record = {"session": []}
    _watch_sessions(mode, graphs, told["session"])
    out = io.StringIO()
    sys.argv = [str(script), *argv]
    sys.path.insert(0, str(script.parent))
    module = types.ModuleType(script.stem if call else "__main__")
    module.__file__ = str(script)
    sys.modules[module.__name__] = module
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(script.read_text(), str(script), "exec"), module.__dict__)
            if call:
                exec(compile(call, "<call>", "exec"), module.__dict__)
        except _Stop:
            told["exit"] = "stop"
        except SystemExit as error:
            told["exit"] = error.code
        except Exception as error:
            told["exception"] = _exception(error, script)
    here = os.getcwd()
    told["stdout"] = re.sub(r"0x[0-9a-f]{6,}", "0x<address>", out.getvalue()).replace(here, "<cwd>")
    default = graph.get_default_graph()
    if writes:
        told["unwritten"] = list(filter(None, map(_unwritten, graphs)))
    told["graph"] = [_graph(one, one is default) for one in graphs if one.get_operations() and not one.building_function]
    return told


def _watch_sessions(mode: str, graphs: list[Any], told: list[Any]) -> None:
    """Notes the sessions that are made; `soft` makes them place softly and without a log, `stop` ends at the first."""
    try:
        from google.protobuf.json_format import MessageToDict

        from placesim.formats.tensorflow.messages import message_class
        from placesim.tf1.session.sessions import BaseSession
    except ImportError:
        return
    open_session = BaseSession._open

    def opened(self: Any) -> Any:
        config = self._config
        if mode == "stop" and any(graph.get_operations() for graph in graphs):
            self._closed = True
            raise _Stop
        told.append({"target": self._target, "config": config and MessageToDict(config, preserving_proto_field_name=True)})
        if mode == "soft":
            self._config = message_class("ConfigProto")()
            if config is not None:
                self._config.CopyFrom(config)
            self._config.allow_soft_placement, self._config.log_device_placement = True, False
        return open_session(self)

    BaseSession._open = opened  # type: ignore[method-assign]


def _exception(error: BaseException, script: Path) -> Record:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(script)]
    mro = [kind.__name__ for kind in type(error).__mro__]
    trace = "".join(traceback.format_exception(error))
    found = {"type": type(error).__name__, "message": str(getattr(error, "message", error)), "mro": mro, "trace": trace}
    return found | {"line": lines[-1] if lines else None}


def _unwritten(graph: Any) -> str | None:
    """What the graph file that a person would write of a graph does not say as it is; None where it says all of it."""
    from placesim.formats.graph_file.writing.scoped_writer import scoped_lines
    from placesim.graph.session_steps import GraphFile

    core = graph.builder.graph
    if not len(core) or graph.building_function or scoped_lines(GraphFile("graph", core)) is not None:
        return None
    return f"a graph of {len(core)} nodes, from {core.nodes[0].name} on"


def _graph(graph: Any, is_default: bool) -> Record:
    """A graph in plain values."""
    core = graph.builder.graph
    nodes = [(node.name, node.op, core.input_texts(node), node.device, core.full_attrs(node)) for node in core.nodes]
    outputs = {op.name: [(t.dtype.name, t.sizes) for t in op.outputs] for op in graph.get_operations() if op.outputs}
    collections = {
        str(name): [_item(item) for item in graph.get_collection(name)]
        for name in sorted(graph.get_all_collection_keys())
        if graph.get_collection(name)
    }
    return {
        "default": is_default,
        "seed": graph.seed,
        "node": nodes,
        "outputs": outputs,
        "collection": collections,
        "function": list(core.functions.values()),
    }


def _item(item: Any) -> Any:
    """An item of a collection as the corpus writes it."""
    if isinstance(item, int | float | str | bool):
        return item
    described = getattr(item, "collection_record", None)
    if described is not None:
        return described()
    kind = type(item).__name__
    if kind in ("Tensor", "SymbolicTensor", "Operation"):
        return item.name
    name = getattr(item, "name", None)
    return {kind: name} if isinstance(name, str) else {"object": kind}
