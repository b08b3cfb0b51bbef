"""Memory use of a step on simulated devices, from a dry run before a cluster runs the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from placesim.core.errors import PlacesimError, ResourceExhaustedError
from placesim.graph.graph import TensorRef
from placesim.ops.kernels.device_resources import value_dims
from placesim.runtime.accounting.fixed_shapes import has_fixed_shapes
from placesim.runtime.accounting.ledger import Ledger
from placesim.runtime.dry_runs.abstract_values import MAX_KNOWN_ELEMENTS
from placesim.runtime.dry_runs.dry_run_feeds import FeedShapes, fed_sketch
from placesim.runtime.sessions.cached_step import CachedStep
from placesim.runtime.sessions.session import GraphSession


class MemoryShortage(NamedTuple):
    """The error of a device that lacks memory; `is_node` is false if the session's state does not fit before any node runs."""

    error: ResourceExhaustedError
    is_node: bool


class _UnknownShapesError(Exception):
    """Raised for a step whose shapes are not known before it runs."""


class MemoryPreviewSession(GraphSession):
    """A local session that dry-runs a cluster's steps to account for their memory.

    It accounts only for steps whose feeds determine all shapes, and whose nodes run once; for other steps, the memory is not
    known beforehand.
    """

    def __init__(self, *args: Any, ledger: Ledger, **options: Any) -> None:
        super().__init__(*args, **{**options, "ledger": ledger, "sketched": FeedShapes(), "measurements": None})
        self._books = ledger
        self._walked: dict[int, tuple[CachedStep, CachedStep]] = {}

    def lack_of_memory(self, prepared: CachedStep, feeds: Mapping[TensorRef, Any]) -> MemoryShortage | None:
        """Return the error of the first allocation in a step for which a device has no room; None if all fit."""
        _, walked = self._walked.setdefault(id(prepared), (prepared, CachedStep(prepared.step)))
        shapes = tuple(value_dims(value) for value in walked.arguments(self.graph, feeds).values())
        if shapes in (walked.fitting, walked.open):
            return None
        given = {ref: self._sketched_feed(ref, value) for ref, value in feeds.items()}
        self._books.failure = None
        try:
            self._execute(walked, given, None)
        except ResourceExhaustedError as error:
            return MemoryShortage(error, is_node=self._books.failure is not None)
        except (PlacesimError, _UnknownShapesError):
            self._books.is_partial = True  # if the step fails, its run on the cluster reports the error
            walked.open = shapes
        return None

    def _sketched_feed(self, ref: TensorRef, value: Any) -> Any:
        dims = value_dims(value)
        return value if math.prod(dims) <= MAX_KNOWN_ELEMENTS else fed_sketch(dims, self.graph.nodes[ref.node], ref.slot)

    def _run_accounted(
        self, ledger: Ledger, prepared: CachedStep, arguments: Mapping[int, Any], progress: Callable[[int], None] | None
    ) -> dict[int, Any]:
        assert prepared.executor is not None
        shapes = tuple(value_dims(value) for value in arguments.values())
        if has_fixed_shapes(prepared.step, prepared.executor.programs, shapes):
            return super()._run_accounted(ledger, prepared, arguments, progress)
        raise _UnknownShapesError
