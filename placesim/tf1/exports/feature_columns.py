"""Feature columns."""

_MAKING = (
    "numeric_column bucketized_column categorical_column_with_hash_bucket categorical_column_with_vocabulary_file "
    "categorical_column_with_vocabulary_list categorical_column_with_identity weighted_categorical_column crossed_column "
    "indicator_column embedding_column shared_embedding_columns make_parse_example_spec"
)

_SEQUENCES = (
    "sequence_numeric_column sequence_categorical_column_with_identity sequence_categorical_column_with_hash_bucket "
    "sequence_categorical_column_with_vocabulary_file sequence_categorical_column_with_vocabulary_list"
)

ROWS = {
    "feature_columns.making": " ".join(f"feature_column.{name}" for name in _MAKING.split()),
    "feature_columns.models": "feature_column.input_layer feature_column.linear_model",
    "feature_columns.dense_features": "keras.layers.DenseFeatures keras.experimental.SequenceFeatures",
    "feature_columns.sequences": " ".join(
        [
            *(f"{package}.{name}" for package in ("feature_column", "contrib.feature_column") for name in _SEQUENCES.split()),
            "contrib.feature_column.sequence_input_layer",
        ]
    ),
}
