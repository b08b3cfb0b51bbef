"""Dataset ops: they make variants that an edge ties to their readers, and that live on the host (5.6, 5.12)."""

from __future__ import annotations

import re

from placesim.core.dtypes import VARIANT
from placesim.ops.definitions import OpDef

_DATASET_NAME = re.compile(r"DatasetFromGraph|.*Dataset(V[0-9]+)?", re.DOTALL)


def is_dataset_op(definition: OpDef | None) -> bool:
    """Whether an op's only output is a variant and its name is a dataset's (TensorFlow's `DatasetOpKernel::IsDatasetOp`)."""
    if definition is None or len(definition.outputs) != 1 or definition.outputs[0].dtype is not VARIANT:
        return False
    return _DATASET_NAME.fullmatch(definition.name) is not None
