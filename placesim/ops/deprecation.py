"""Removed ops, which TensorFlow still defines but current graphs may not contain; and TensorFlow's advice for each.

The registry has the version in which an op was removed. The texts are those of the op definitions of TensorFlow 2.21; its
messages add a full stop.
"""

from __future__ import annotations

from placesim.core.errors import UnimplementedError
from placesim.core.releases import CURRENT
from placesim.ops.definitions import OpDef

_WORD2VEC = "Moving word2vec into tensorflow_models/tutorials and deprecating its ops here as a result"
_EXPLANATIONS = {
    "AdjustContrast": "Use AdjustContrastv2 instead",
    "AudioSummary": "Use AudioSummaryV2.",
    "BatchNormWithGlobalNormalization": "Use tf.nn.batch_normalization()",
    "BatchNormWithGlobalNormalizationGrad": "Use tf.nn.batch_normalization()",
    "BatchSelfAdjointEig": "Use SelfAdjointEigV2 instead.",
    "MatrixExponential": "Use Python implementation tf.linalg.matrix_exponential instead.",
    "NegTrain": _WORD2VEC,
    "Old": "For reasons",
    "PlaceholderV2": "Placeholder now behaves the same as PlaceholderV2.",
    "QuantizeAndDequantize": "Replaced by QuantizeAndDequantizeV2",
    "RandomCrop": "Random crop is now pure Python",
    "RandomPoisson": "Replaced by RandomPoissonV2",
    "SelfAdjointEig": "Use SelfAdjointEigV2 instead.",
    "Skipgram": _WORD2VEC,
    "StatefulStandardNormal": "Use StatefulStandardNormalV2 instead",
    "TensorArrayConcat": "Use TensorArrayGradV3",
    "TensorArrayPack": "Use TensorArrayGatherV3 with RangeOp",
    "TensorArrayScatter": "Use TensorArrayGradV3",
    "TensorArrayUnpack": "Use TensorArrayScatterV3 with RangeOp",
    "TileGrad": "TileGrad has been replaced with reduce_sum",
    "TopK": "Use TopKV2 instead",
}


def check_not_removed(op: OpDef, producer: int = CURRENT.producer) -> None:
    """Raise TensorFlow's UnimplementedError for an op that graphs of this producer version may not contain."""
    if op.deprecated_at is None or producer < op.deprecated_at:
        return
    raise UnimplementedError(
        f"Op {op.name} is not available in GraphDef version {producer}. "
        f"It has been removed in version {op.deprecated_at}. {advice(op.name, op.deprecated_at)}."
    )


def advice(name: str, removed_in: int) -> str:
    """Return TensorFlow's advice for a removed op."""
    return _EXPLANATIONS.get(name) or _replacement(name, removed_in)


def _replacement(name: str, removed_in: int) -> str:
    """Return the advice for an op of a family whose ops were all replaced in the same way."""
    if name.startswith("TensorArray"):
        return f"Use {name.removesuffix('V2')}V3"
    if name.startswith("Batch"):
        return f"Use {name.removeprefix('Batch')}" + (" instead." if removed_in == 13 else "")
    return f"Use {name}V2"
