"""Recognition of dataset ops, whose variant outputs stay on the host, in one group with their readers (5.6, 5.12)."""

from __future__ import annotations

import re

from placesim.core.dtypes import VARIANT
from placesim.ops.definitions import OpDef

_DATASET_NAME = re.compile(r"DatasetFromGraph|.*Dataset(V[0-9]+)?", re.DOTALL)


def is_dataset_op(definition: OpDef | None) -> bool:
    """Return whether an op has only one output, a variant, and the name of a dataset, such as `MapDatasetV2`.

    Source: TensorFlow's `DatasetOpKernel::IsDatasetOp`.
    """
    if definition is None or len(definition.outputs) != 1 or definition.outputs[0].dtype is not VARIANT:
        return False
    # TensorFlow goes by the name alone, with or without a version (`MapDatasetV2`)
    return _DATASET_NAME.fullmatch(definition.name) is not None
