"""Datasets that take each element from one of several datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.array.shaping import expand_dims, squeeze
from placesim.tf1.data import mapping, structures
from placesim.tf1.data.batches import batch
from placesim.tf1.data.building import make
from placesim.tf1.data.changes import not_divided, take
from placesim.tf1.data.datasets import Dataset
from placesim.tf1.data.sources import random_numbers, zipped
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True) -> Dataset:
    """Each element comes from the dataset with the next index in `choice_dataset`.  Raises ValueError and TypeError."""
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    numbers = choice_dataset.element_spec
    if structures.types_of(numbers) is not dtypes.int64 or structures.shapes_of(numbers).rank != 0:
        raise TypeError(
            f"Invalid `choice_dataset`. Elements of `choice_dataset` must be scalar `tf.int64` tensors but are {numbers}."
        )
    return _directed(not_divided(choice_dataset), datasets, stop_on_empty_dataset)


def _directed(selector: Dataset, datasets: Sequence[Dataset], stops: bool) -> Dataset:
    spec = datasets[0].element_spec
    for i, dataset in enumerate(datasets[1:]):
        wider = structures.common(spec, dataset.element_spec)
        if wider is None:
            raise TypeError(
                f"Invalid `datasets`. `datasets` must have compatible element specs.\n Dataset 0 element_spec={spec}.\n"
                f"Dataset {i + 1} element_spec={dataset.element_spec}."
            )
        spec = wider
    variants = [dataset._variant_tensor for dataset in datasets]
    return make(
        "DirectedInterleaveDataset",
        selector._variant_tensor,
        variants,
        spec=spec,
        inputs=(selector, *datasets),
        stop_on_empty_dataset=stops,
    )


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Any = None,
    seed: int | None = None,
    stop_on_empty_dataset: bool = False,
    rerandomize_each_iteration: object = None,
) -> Dataset:
    """Elements of randomly drawn datasets.  Raises ValueError without datasets, and unless each dataset has one weight."""
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    if isinstance(weights, Dataset):
        logits = mapping.mapped(weights, lambda *p: expand_dims(tf.log(*p, name="logits"), 0))
        seeds = batch(random_numbers(seed), 2)

        def select_dataset_varying_logits(logits: TensorLike, seed: int) -> Any:
            return squeeze(gen("StatelessMultinomial")(logits, 1, seed), [0, 1])

        selector = mapping.mapped(zipped(logits, seeds), select_dataset_varying_logits)
        return _directed(selector, datasets, stop_on_empty_dataset)
    if isinstance(weights, list | tuple) and len(weights) == len(datasets):
        # the others are never drawn: they would not end the loop for an element
        pairs = [pair for pair in zip(datasets, weights, strict=True) if pair[1] > 0]
        datasets, weights = map(list, zip(*pairs or [(take(datasets[0], 0), 1.0)], strict=True))
    logits = _logits(datasets, weights)
    if len(datasets) == 1:
        return datasets[0]

    def select_dataset_constant_logits(seed: int) -> Any:
        return squeeze(gen("StatelessMultinomial")(logits, 1, seed), [0, 1])

    seeds = batch(random_numbers(seed), 2)
    selector = mapping.mapped(seeds, select_dataset_constant_logits, keeps_count=True, runs_between_ops=False)
    return _directed(selector, datasets, stop_on_empty_dataset)


def _logits(datasets: Sequence[Dataset], weights: Any) -> Any:
    """Row `[1, datasets]` of logits: the logarithms of the weights; 1 for each dataset if no weights are given."""
    if weights is None:
        return [[1.0] * len(datasets)]
    if isinstance(weights, list | tuple) and len(weights) != len(datasets):
        raise ValueError(
            f"Invalid `weights`. `weights` should have the same length as `datasets` but got `len(weights)={len(weights)}` vs. "
            f"`len(datasets)={len(datasets)}`."
        )
    given = convert_to_tensor(weights, name="weights")
    if given.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"Invalid `weights`. `weights` type must be either `tf.float32` or `tf.float64` but is {given.dtype}.")
    if not given.shape.is_compatible_with([len(datasets)]):
        raise ValueError(
            f"Invalid `weights`. The shape of `weights` should be compatible with `[len(datasets)]` but is {given.shape}."
        )
    return expand_dims(tf.log(given, name="logits"), 0)
