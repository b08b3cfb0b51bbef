"""Ragged tensors."""

from __future__ import annotations

ROWS = {
    "ragged.ragged_tensor": (
        "RaggedTensor ragged.RaggedTensorValue=RaggedTensorValue ragged.row_splits_to_segment_ids=segment_ids_of "
        "ragged.segment_ids_to_row_splits=splits_of"
    ),
    "ragged.making": "ragged.constant ragged.constant_value ragged.placeholder ragged.range=ragged_range",
    "ragged.joining": "ragged.stack ragged.boolean_mask ragged.stack_dynamic_partitions",
    "ragged.computing": "ragged.map_flat_values",
}
