"""SavedModels."""

from __future__ import annotations

_FILES = (
    "ASSETS_DIRECTORY ASSETS_KEY DEBUG_DIRECTORY DEBUG_INFO_FILENAME_PB LEGACY_INIT_OP_KEY MAIN_OP_KEY SAVED_MODEL_FILENAME_PB "
    "SAVED_MODEL_FILENAME_PBTXT SAVED_MODEL_SCHEMA_VERSION VARIABLES_DIRECTORY VARIABLES_FILENAME"
)
_SIGNATURES = (
    "CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES CLASSIFY_OUTPUT_SCORES DEFAULT_SERVING_SIGNATURE_DEF_KEY "
    "PREDICT_INPUTS PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS REGRESS_METHOD_NAME REGRESS_OUTPUTS"
)
_TAGS = "GPU SERVING TPU TRAINING"
_DEFINITIONS = (
    "build_signature_def predict_signature_def regression_signature_def classification_signature_def is_valid_signature"
)
_INFOS = "build_tensor_info get_tensor_from_tensor_info"


def _in(module: str, names: str) -> list[str]:
    """The names in `tf.saved_model` and in a module of it."""
    return [f"saved_model{place}.{name}" for name in names.split() for place in ("", f".{module}")]


ROWS = {
    "saving.saved_model_constants": " ".join(
        [*_in("constants", _FILES), *_in("signature_constants", _SIGNATURES), *_in("tag_constants", _TAGS)]
    ),
    "saving.signatures": " ".join([*_in("signature_def_utils", _DEFINITIONS), *_in("utils", _INFOS)]),
    "saving.saved_models": (
        "saved_model.Builder=SavedModelBuilder saved_model.builder.SavedModelBuilder saved_model.simple_save saved_model.load "
        "saved_model.loader.load saved_model.maybe_saved_model_directory saved_model.loader.maybe_saved_model_directory "
        "saved_model.contains_saved_model saved_model.main_op.main_op "
        "saved_model.main_op_with_restore saved_model.main_op.main_op_with_restore"
    ),
    "graph_defs.protos": "TensorInfo SummaryMetadata",
}
