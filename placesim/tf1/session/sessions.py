"""`tf.Session` and `tf.InteractiveSession`: a graph that may still grow, on the simulated machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from placesim.core.errors import PlacesimError
from placesim.formats.tensorflow.messages import message_class
from placesim.machine.program_machine import Machine, current_machine
from placesim.tf1.errors import CancelledError, OpError, as_tensorflow
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.session import watching
from placesim.tf1.session.configs import config_of
from placesim.tf1.session.configuration import default_config
from placesim.tf1.session.feeds import Array, as_runtime, read_feeds
from placesim.tf1.session.fetches import flatten_fetches
from placesim.tf1.session.placement_log import PlacementLog
from placesim.tf1.session.stacks import default_session

if TYPE_CHECKING:
    from placesim.runtime.recording.kernel_timing import Measurements
    from placesim.runtime.sessions.session import GraphSession as RuntimeSession
    from placesim.studies.simulation.program_sessions import OpenedMachine


@dataclass(frozen=True, repr=False, eq=False)
class DeviceAttributes:
    """An entry of `list_devices`."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int

    def __repr__(self) -> str:
        return f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, {self.incarnation})"


class BaseSession:
    """A session on a graph; `target` is empty for this process's machine.

    Raises TypeError for arguments of other types, and TensorFlow's errors if the devices cannot be made.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        self._closed = True
        self._graph: Graph = get_default_graph() if graph is None else _checked_graph(graph)
        self._target = _checked_target(target)
        self._config = default_config() if config is None else _checked_config(config)
        self._closed = False
        self._machine: Machine = current_machine()
        self._opened = self._open()
        self._log = PlacementLog(self._opened, self._machine.options)
        self._log.write_mapping()
        self._session: RuntimeSession | None = None
        self._known_nodes = 0
        self._growing = threading.RLock()
        watching.opened(self)

    def _open(self) -> OpenedMachine:
        from placesim.studies.simulation.program_sessions import open_machine

        if self._target:
            from placesim.tf1.session.targets import find_target
            from placesim.tf1.training import servers  # noqa: F401 - registers the targets of its servers

            found: OpenedMachine = find_target(self._target, config_of(self._config), self._machine)
            return found
        try:
            machine = self._machine
            config = config_of(self._config)
            return open_machine(config, machine.options, machine.process, puts_counts_aside=machine.is_overridden)
        except PlacesimError as error:
            raise as_tensorflow(error, None) from error

    # --- properties

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef message."""
        return self._graph.as_graph_def()

    @property
    def sess_str(self) -> bytes:
        return self._target.encode()

    def list_devices(self) -> list[DeviceAttributes]:
        """Devices of the session, its own task first.  Raises CancelledError after it is closed."""
        if self._closed:
            raise CancelledError(None, None, "Session has been closed.")
        from placesim.tf1.session.devices import incarnation_of

        known = self._opened.device_set
        return [
            DeviceAttributes(device.name, device.type, device.memory_limit, incarnation_of(device.name))
            for device in sorted(known.devices, key=lambda device: device.spec.address_space != known.local)
        ]

    def close(self) -> None:
        """Close the session, and delete its variables."""
        if self._closed:
            return
        self._closed = True
        watching.closed(self)
        if self._session is not None:
            self._session.close()

    def __del__(self) -> None:
        try:
            if not getattr(self, "_closed", True) and self._session is not None:
                self._session.close()
        except Exception:  # the interpreter may be ending
            return

    def as_default(self) -> Any:
        """Context in which this is the default session; the session stays open afterwards."""
        return default_session(self)

    # --- steps

    def run(self, fetches: object, feed_dict: object = None, options: object = None, run_metadata: object = None) -> Any:
        """Run one step.  Return the values of `fetches` in their structure.

        Raises TypeError and ValueError for invalid fetches and feeds, RuntimeError for a closed session, and the classes of
        `tf.errors`.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not len(self._graph.builder.graph):
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        feeds = read_feeds(self._graph, feed_dict) if feed_dict else {}
        wanted = flatten_fetches(self._graph, fetches)
        return wanted.build(self._compute(wanted.elements, feeds, options, run_metadata))

    def make_callable(self, fetches: object, feed_list: object = None, accept_options: bool = False) -> Callable[..., Any]:
        """Function that takes the values of `feed_list`, and runs `fetches`.  Raises TypeError if `feed_list` is not a list."""
        if feed_list is not None and not isinstance(feed_list, list | tuple):
            raise TypeError(f"Argument `feed_list` must be a list or tuple. Received: feed_list={feed_list}")
        names = list(feed_list or ())
        flatten_fetches(self._graph, fetches)

        def generic_run(*feed_args: object, **kwargs: object) -> Any:
            return self.run(fetches, dict(zip(names, feed_args, strict=False)), **kwargs)

        return generic_run

    def partial_run_setup(self, fetches: object, feeds: object = None) -> Any:
        """Raise NotImplementedError: placesim runs only complete steps."""
        raise _no_partial_run("partial_run_setup")

    def partial_run(self, handle: object, fetches: object, feed_dict: object = None) -> Any:
        """Raise NotImplementedError: placesim runs only complete steps."""
        raise _no_partial_run("partial_run")

    def _compute(self, elements: Sequence[Any], feeds: Mapping[Tensor, Array], options: object, metadata: object) -> list[Any]:
        """Values of distinct tensors, None for operations; fed tensors are returned as fed."""
        if not watching.wants_step(self, elements, feeds):
            return [feeds.get(element) for element in elements]
        computed = [element for element in elements if element not in feeds]
        values: dict[Any, Any] = {}
        if computed:
            try:
                values = self._run_step(computed, feeds, options, metadata)
            except PlacesimError as error:
                found = as_tensorflow(error, self._graph)
                if isinstance(found, OpError) and self._session is not None:
                    found.classic = self._log.classic_error(error, self._session)
                raise found from error
        return [feeds[element] if element in feeds else values.get(element) for element in elements]

    def _run_step(
        self, elements: Sequence[Any], feeds: Mapping[Tensor, Array], options: Any, metadata: object
    ) -> dict[Any, Any]:
        from placesim.runtime.partitioning.step_requests import RequestedName

        fetched = [
            RequestedName(element.name, element.op.node.id, element.node_ref)
            if isinstance(element, Tensor)
            else RequestedName(element.name, element.node.id, None)
            for element in elements
        ]
        self._log.fetched(self._graph.builder.graph.nodes[one.node].name for one in fetched)
        with self._growing:
            session = self._placed_session()
        given = {tensor.node_ref: as_runtime(array) for tensor, array in feeds.items()}
        measurements = self._measurements(options, metadata)
        timeout = None if options is None or not options.timeout_in_ms else options.timeout_in_ms / 1000
        try:
            result = session.run_resolved(fetched, given, measurements, timeout)
        finally:
            with self._growing:
                self._log.write_placements(session)
        if metadata is not None:
            from placesim.tf1.session.step_stats import fill_metadata

            fill_metadata(metadata, options, measurements, session, fetched, given)
        tensors = [element for element in elements if isinstance(element, Tensor)]
        return {tensor: _as_result(value.value) for tensor, value in zip(tensors, result.values, strict=True)}

    def _placed_session(self) -> RuntimeSession:
        """The runtime's session, updated with the graph's new nodes."""
        graph = self._graph.builder.graph
        if self._session is None:
            self._session = self._opened.open_session(graph)
        elif len(graph) != self._known_nodes:
            self._session.grow()
        self._known_nodes = len(graph)
        if not self._session.config.place_pruned_graph:
            placement = self._session.placement
            if placement.error is not None:
                self._log.write_placements(self._session)
                raise placement.error
        return self._session

    def _measurements(self, options: Any, metadata: Any) -> Measurements | None:
        if metadata is None or options is None or not options.trace_level:
            return None
        from placesim.runtime.recording.kernel_timing import Measurements

        return Measurements(describes=True)


class Session(BaseSession):
    """`tf.Session`."""

    __module__ = "tensorflow.python.client.session"

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config=config)
        self._entered: ExitStack | None = None

    def __enter__(self) -> Session:
        if self._entered is not None:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you want to enter a session "
                "multiple times."
            )
        self._entered = ExitStack()
        self._entered.enter_context(self.graph.as_default())
        self._entered.enter_context(self.as_default())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._entered is not None:
            self._entered.close()
        self._entered = None
        self.close()

    @staticmethod
    def reset(target: str, containers: object = None, config: object = None) -> None:
        """Forget the resources of a target's containers."""
        from placesim.tf1.session.targets import reset_target

        reset_target(target, containers)


class InteractiveSession(BaseSession):
    """`tf.InteractiveSession`: the default session until it is closed; it places only the nodes that steps need."""

    __module__ = "tensorflow.python.client.session"
    _active = 0

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        if not config:
            config = message_class("ConfigProto")(gpu_options={"allow_growth": True})
        given = message_class("ConfigProto")()
        given.CopyFrom(_checked_config(config))
        given.graph_options.place_pruned_graph = True
        super().__init__(target, graph, given)
        if InteractiveSession._active > 0:
            sys.stderr.write(
                "ERROR:tensorflow:An interactive session is already active. This can cause out-of-memory errors or some other "
                "unexpected errors (due to the unpredictable timing of garbage collection) in some cases. You must explicitly "
                "call `InteractiveSession.close()` to release resources held by the other session(s). Please use "
                "`tf.Session()` if you intend to productionize.\n"
            )
        InteractiveSession._active += 1
        self._entered = ExitStack()
        if graph is not None:
            self._entered.enter_context(self._graph.as_default())
        self._entered.enter_context(default_session(self, enforces_nesting=False))

    def close(self) -> None:
        """End the session and restore the previous default session."""
        if not self._closed:
            InteractiveSession._active -= 1
        super().close()
        self._entered.close()


# --- arguments and results ------------------------------------------------------------------------------------------


def _checked_graph(graph: object) -> Graph:
    if not isinstance(graph, Graph):
        raise TypeError(f'Argument `graph` must be a tf.Graph, but got "{type(graph).__name__}"')
    return graph


def _checked_target(target: object) -> str:
    if target is None:
        return ""
    if isinstance(target, bytes):
        return target.decode()
    if not isinstance(target, str):
        raise TypeError(f'Argument `target` must be a string, but got "{type(target).__name__}"')
    return target


def _checked_config(config: object) -> Any:
    if config is not None and not isinstance(config, message_class("ConfigProto")):
        raise TypeError(f'Argument `config` must be a tf.ConfigProto, but got "{type(config).__name__}"')
    return config


def _as_result(value: Any) -> Any:
    """Fetched value as TensorFlow returns it: a scalar is a numpy scalar or bytes."""
    if getattr(value, "shape", None) == () and hasattr(value, "dtype"):
        return value[()]
    return value


def _no_partial_run(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"tf.Session.{name} is not there: placesim runs steps whole. Session.run with all feeds gives the same values; "
        "the graph itself can be written with `placesim convert`."
    )
