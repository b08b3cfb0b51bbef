"""Which edges tie a node to what it reads: those of references, of resources, and of datasets between two datasets (5.6)."""

from __future__ import annotations

import re

from placesim.dtypes import VARIANT
from placesim.graph.graph import Signature
from placesim.ops.definitions import OpDef

EXEMPT_OPS = frozenset(
    [
        "ChooseFastestBranchDataset",
        "DeleteMultiDeviceIterator",
        "ExperimentalChooseFastestDataset",
        "ExperimentalGroupByReducerDataset",
        "ExperimentalGroupByWindowDataset",
        "ExperimentalMapAndBatchDataset",
        "ExperimentalMapDataset",
        "ExperimentalParallelInterleaveDataset",
        "ExperimentalScanDataset",
        "ExperimentalTakeWhileDataset",
        "FilterDataset",
        "FlatMapDataset",
        "GeneratorDataset",
        "GroupByReducerDataset",
        "GroupByWindowDataset",
        "InterleaveDataset",
        "LegacyParallelInterleaveDatasetV2",
        "MapAndBatchDataset",
        "MapDataset",
        "ParallelFilterDataset",
        "ParallelInterleaveDataset",
        "ParallelInterleaveDatasetV2",
        "ParallelInterleaveDatasetV3",
        "ParallelInterleaveDatasetV4",
        "ParallelMapDataset",
        "ParallelMapDatasetV2",
        "PartitionedCall",
        "ReduceDataset",
        "ScanDataset",
        "StatefulPartitionedCall",
        "TakeWhileDataset",
    ]
)
"""Ops whose resource inputs do not tie them to the resource (5.6)."""

_DATASET_NAME = re.compile(r"DatasetFromGraph|.*Dataset(V[0-9]+)?", re.DOTALL)


def is_dataset_op(definition: OpDef | None) -> bool:
    """Whether an op's only output is a variant and its name is a dataset's (TensorFlow's `DatasetOpKernel::IsDatasetOp`)."""
    if definition is None or len(definition.outputs) != 1 or definition.outputs[0].dtype is not VARIANT:
        return False
    return _DATASET_NAME.fullmatch(definition.name) is not None


def tying_slots(signature: Signature) -> tuple[tuple[int, bool], ...]:
    """The inputs that may tie a node to what it reads, and whether they do so only to a dataset."""
    tied = () if signature.op in EXEMPT_OPS else signature.tied_inputs
    if VARIANT not in signature.input_dtypes or not is_dataset_op(signature.definition):
        return tuple((slot, False) for slot in tied)
    variants = {slot for slot, dtype in enumerate(signature.input_dtypes) if dtype is VARIANT}
    return tuple((slot, slot in variants) for slot in sorted({*tied, *variants}))
