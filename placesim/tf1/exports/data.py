"""Datasets and their iterators; specs of values."""

_EXPERIMENTAL = (
    "data.experimental.shuffle_and_repeat data.experimental.map_and_batch data.experimental.unbatch "
    "data.experimental.ignore_errors data.experimental.enumerate_dataset data.experimental.parallel_interleave "
    "data.experimental.group_by_window data.experimental.bucket_by_sequence_length data.experimental.scan "
    "data.experimental.take_while data.experimental.unique data.experimental.get_single_element data.experimental.cardinality "
    "data.experimental.assert_cardinality data.experimental.dense_to_sparse_batch data.experimental.prefetch_to_device "
    "data.experimental.parse_example_dataset data.experimental.choose_from_datasets"
)

_IN_CONTRIB = (
    "shuffle_and_repeat map_and_batch unbatch ignore_errors enumerate_dataset parallel_interleave group_by_window "
    "bucket_by_sequence_length scan unique get_single_element dense_to_sparse_batch prefetch_to_device parse_example_dataset "
    "choose_from_datasets"
)
"""Names that `tf.contrib.data` has as well as `tf.data.experimental`."""


def _of_contrib(names: str) -> str:
    return " ".join(f"contrib.data.{name}" for name in names.split())


ROWS = {
    "types.type_specs": "TensorSpec SparseTensorSpec TypeSpec NoneTensorSpec",
    "data.datasets": "data.Dataset",
    "data.structures": "data.DatasetSpec data.experimental.DatasetStructure=DatasetSpec",
    "data.options": (
        "data.Options data.ThreadingOptions data.experimental.ThreadingOptions data.experimental.AutotuneOptions "
        "data.experimental.DistributeOptions data.experimental.OptimizationOptions data.experimental.AutoShardPolicy "
        "data.experimental.AutotuneAlgorithm data.experimental.ExternalStatePolicy"
    ),
    "data.iterators": (
        "data.Iterator data.make_one_shot_iterator data.make_initializable_iterator data.get_output_types "
        "data.get_output_shapes data.get_output_classes data.experimental.get_structure contrib.data.Iterator=Iterator"
    ),
    "data.files": "data.TextLineDataset data.TFRecordDataset data.FixedLengthRecordDataset",
    "data.changes": (
        "data.AUTOTUNE data.INFINITE_CARDINALITY data.UNKNOWN_CARDINALITY data.experimental.AUTOTUNE "
        "data.experimental.INFINITE_CARDINALITY data.experimental.UNKNOWN_CARDINALITY"
    ),
    "data.folding": "data.experimental.Counter=counter contrib.data.Counter=counter",
    "data.sources": "data.experimental.RandomDataset=random_numbers",
    "data.choices": "data.experimental.sample_from_datasets contrib.data.sample_from_datasets",
    "data.experimental": f"{_EXPERIMENTAL} {_of_contrib(_IN_CONTRIB)}",
}
