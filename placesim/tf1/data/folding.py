"""Functions applied to a state and each element in turn, and to windows of elements with the same key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placesim.tf1.data import sources, structures
from placesim.tf1.data.building import element_attrs, metadata, transformed
from placesim.tf1.data.changes import repeat
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.data.functions import ElementFunction
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.type_specs import TensorSpec


def reduced(dataset: Dataset, initial_state: object, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
    """Final state after folding a function over the elements.  Raises TypeError for a state of another type."""
    with name_scope("initial_state"):
        state = structures.normalize(initial_state)
    spec, found = _stable(dataset, reduce_func, "reduce", structures.spec_of(state))
    tensors = gen("ReduceDataset")(
        dataset._variant_tensor,
        structures.to_tensors(state),
        found.captured,
        f=found.name,
        metadata=metadata(name),
        use_inter_op_parallelism=True,
        **element_attrs(spec),
    )
    return structures.from_tensors(spec, tensors if isinstance(tensors, list) else [tensors])


def _stable(
    dataset: Dataset,
    function: Callable[..., Any],
    caller: str,
    spec: object,
    state_of: Callable[[Any], Any] = lambda output: output,
) -> tuple[Any, ElementFunction]:
    """Spec of the state, and the function traced for it, whose new state has the same spec.

    Sizes that the function changes become unknown, and the function is traced again.  `state_of` takes the spec of the
    function's result, and returns the spec of the new state in it.
    """
    while True:
        found = ElementFunction(function, caller, (spec, dataset.element_spec))
        given = state_of(found.output_spec)
        _check_state(given, spec)
        wider = structures.common(spec, given)
        if wider is None or wider == spec:
            return spec, found
        spec = wider


def _check_state(given: object, spec: object) -> None:
    kinds, wanted = structures.classes_of(given), structures.classes_of(spec)
    if structures.flatten(kinds) != structures.flatten(wanted):
        raise TypeError(
            f"The element classes for the new state must match the initial state. Expected {wanted} but got {kinds}."
        )
    types, told = structures.types_of(given), structures.types_of(spec)
    if structures.flatten(types) != structures.flatten(told):
        raise TypeError(f"The element types for the new state must match the initial state. Expected {told} but got {types}.")


def scanned(dataset: Dataset, initial_state: object, scan_func: Callable[..., Any], name: str | None = None) -> Dataset:
    """Outputs of `scan_func(state, element)`, which returns the next state and an output.

    Raises TypeError for another result, or a state of another type.
    """
    state = structures.normalize(initial_state)
    _, found = _stable(dataset, scan_func, "Dataset_scan", structures.spec_of(state), _state_of_scan)
    return transformed(
        dataset,
        "ScanDataset",
        structures.to_tensors(state),
        found.captured,
        f=found.name,
        preserve_cardinality=True,
        use_default_device=True,
        spec=found.output_spec[1],
        name=name,
    )


def _state_of_scan(output: Any) -> Any:
    if not (isinstance(output, tuple) and len(output) == 2):
        raise TypeError(
            "Invalid `scan_func`. `scan_func` should return a pair consisting of new state and the output value but its "
            f"return type is {output}."
        )
    return output[0]


def grouped_by_window(
    dataset: Dataset,
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: TensorLike | None = None,
    window_size_func: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Dataset:
    """Apply `reduce_func` to windows of elements with the same key.  Raises ValueError unless exactly one size is given."""
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Either the `window_size` argument or the `window_size_func` argument must be specified.")

    def key_func_wrapper(*args: Any) -> Any:
        return cast(key_func(*args), dtypes.int64)

    def window_size_func_wrapper(key: Any) -> Any:
        if window_size_func is None:
            return constant(window_size, dtypes.int64)
        return cast(window_size_func(key), dtypes.int64)

    caller = "Dataset_group_by_window"
    number = TensorSpec([], dtypes.int64)
    keys = ElementFunction(key_func_wrapper, caller, dataset.element_spec)
    if not number.is_compatible_with(keys.output_spec):
        raise ValueError(
            "Invalid `key_func`. `key_func` must return a single `tf.int64` scalar tensor but its return type is "
            f"{keys.output_spec}."
        )
    windows = (number, structures.DatasetSpec(dataset.element_spec))
    reduces = ElementFunction(reduce_func, caller, windows)
    spec = reduces.dataset_spec()
    sizes = ElementFunction(window_size_func_wrapper, caller, number)
    return transformed(
        dataset,
        "GroupByWindowDataset",
        keys.captured,
        reduces.captured,
        sizes.captured,
        key_func=keys.name,
        reduce_func=reduces.name,
        window_size_func=sizes.name,
        spec=spec,
        name=name,
    )


def counter(start: TensorLike = 0, step: TensorLike = 1, dtype: DTypeLike = dtypes.int64) -> Dataset:
    """`tf.data.experimental.Counter`: infinite numbers from `start`, in steps of `step`."""
    with_step = repeat(sources.from_tensors(0))
    first = convert_to_tensor(start, dtype, "start")
    by = convert_to_tensor(step, dtype, "step")
    return scanned(with_step, first, lambda state, _: (state + by, state))
