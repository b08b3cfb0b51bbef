"""The simulated release of TensorFlow, and the switches between version 1 and 2 behaviour."""

from __future__ import annotations

from placesim.core.releases import CURRENT, Release
from placesim.ops.registry import Registry, load_registry

VERSION = __version__ = CURRENT.version
GIT_VERSION = "placesim"
GRAPH_DEF_VERSION = CURRENT.producer
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0


_registry = load_registry()


def spoken_registry() -> Registry:
    """Registry of the TensorFlow release that this process simulates."""
    return _registry


def speak(release: Release) -> None:
    """Make this process simulate a release of TensorFlow.  Call it before a script imports TensorFlow."""
    global VERSION, __version__, GRAPH_DEF_VERSION, _registry
    VERSION = __version__ = release.version
    GRAPH_DEF_VERSION = release.producer
    _registry = load_registry(release.name)


def disable_v2_behavior() -> None:
    """Do nothing: it is always off."""


def disable_eager_execution() -> None:
    """Do nothing: it is always off."""


def disable_v2_tensorshape() -> None:
    """Do nothing: shapes are always version 1's."""


def enable_v2_tensorshape() -> None:
    """Raise NotImplementedError: shapes are always version 1's."""
    raise _no_eager("tf.enable_v2_tensorshape")


def disable_tensor_equality() -> None:
    """Do nothing: a tensor always equals itself only."""


def enable_tensor_equality() -> None:
    """Raise NotImplementedError: a tensor always equals itself only."""
    raise _no_eager("tf.enable_tensor_equality")


def enable_v2_behavior() -> None:
    """Raise NotImplementedError: scripts are TensorFlow 1's."""
    raise _no_eager("tf.enable_v2_behavior")


def enable_eager_execution(config: object = None, device_policy: object = None, execution_mode: object = None) -> None:
    """Raise NotImplementedError: scripts always build graphs."""
    raise _no_eager("tf.enable_eager_execution")


def executing_eagerly() -> bool:
    """Return False: scripts always build graphs."""
    return False


def executing_eagerly_outside_functions() -> bool:
    """Return False: scripts always build graphs."""
    return False


def _no_eager(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name} is not there: placesim.tf1 builds graphs and runs them in sessions. Export the GraphDef of a tf.function with "
        "TensorFlow (get_concrete_function().graph.as_graph_def()) and give that to placesim (`placesim convert`)."
    )
