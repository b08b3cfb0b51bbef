"""Registry of gradient functions by op: TensorFlow's own, in families, and those that a script registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from placesim.tf1.graphs.tensor import Operation
from placesim.tf1.graphs.tensor_likes import TensorLike

GradientFunction = Callable[..., Any]
"""`function(op, *output_gradients)` returns the input gradients: a list, or one tensor for a single input."""

_FAMILIES = (
    "unary binary reductions segments array gathering joining neural windows linalg tridiagonal variables control_flow "
    "tensor_arrays images spectral sparse sampling branches functional_loops lists recurrent"
)

_NOT_DIFFERENTIABLE = """
ApproximateEqual AsString Assert Assign AssignAdd AssignSub AudioMicrofrontend AudioSummary AudioSummaryV2 BitwiseAnd
BitwiseOr BitwiseXor BroadcastGradientArgs CTCBeamSearchDecoder CTCGreedyDecoder ConcatOffset Const DecodeBase64
DecodePaddedRaw DecodeProtoV2 DecodeRaw DeleteSessionTensor DenseToDenseSetOperation DenseToSparseSetOperation
DrawBoundingBoxes EditDistance EncodeBase64 EncodeProto Equal ExtractGlimpse FakeQuantWithMinMaxArgsGradient
FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient FixedLengthRecordReader
GenerateBoundingBoxProposals GenerateVocabRemapping GetSessionHandle GetSessionHandleV2 GetSessionTensor Greater
GreaterEqual HSVToRGB HashTable HashTableV2 HistogramSummary IdentityReader ImageSummary InitializeTable
InitializeTableFromTextFile InitializeTableFromTextFileV2 InitializeTableV2 Invert InvertPermutation LMDBReader LeftShift
Less LessEqual LinSpace LoadAndRemapMatrix LogicalAnd LogicalNot LogicalOr LookupTableFind LookupTableFindV2
LookupTableInsert LookupTableInsertV2 LookupTableSize LookupTableSizeV2 MergeSummary Multinomial MutableDenseHashTable
MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableHashTableV2
NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionWithOverlaps NotEqual OneHot OnesLike ParameterizedTruncatedNormal
ParseTensor PopulationCount PyFunc PyFuncStateless Queue QueueClose QueueDequeue QueueDequeueMany QueueDequeueUpTo
QueueEnqueue QueueEnqueueMany QueueSize RaggedRange RandomCrop RandomIndexShuffle RandomShuffle RandomStandardNormal
RandomUniform Range Rank ReaderNumRecordsProduced ReaderNumWorkUnitsCompleted ReaderRead ReaderReadUpTo ReaderReset
ReaderRestoreState ReaderSerializeState ReduceDataset ReduceJoin RegexReplace ResizeBilinearGrad RightShift
SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 ScalarSummary ScatterAdd ScatterDiv ScatterMul ScatterNdAdd
ScatterNdDiv ScatterNdMul ScatterNdSub ScatterNdUpdate ScatterSub SdcaFprint SdcaOptimizer SdcaOptimizerV2 SdcaShrinkL1
SerializeTensor SetSize Shape ShapeN Size SparseAddGrad SparseConcat SparseMatrixNNZ SparseMatrixZeros
SparseToSparseSetOperation Stack StackClose StackPop StackPush StatelessMultinomial StatelessRandomBinomial
StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomShuffle StatelessRandomUniform
StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
StatelessRandomUniformV2 StatelessTruncatedNormal StatelessTruncatedNormalV2 StopGradient StringJoin StringSplit
StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber TFRecordReader TPUReplicatedInput
TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayGrad TensorArrayGradV2 TensorArrayGradV3
TensorArrayGradWithShape TensorArraySize TensorArraySizeV2 TensorArraySizeV3 TensorArrayV2 TensorArrayV3
TensorListConcatLists TensorListElementShape TensorListLength TensorListPushBackBatch TensorSummary TensorSummaryV2
TextLineReader Timestamp TruncatedNormal VarIsInitializedOp VariableShape WholeFileReader XlaVariadicReduce ZerosLike
"""
NOT_DIFFERENTIABLE = frozenset(_NOT_DIFFERENTIABLE.split())
"""The ops that TensorFlow 2.21 marks as not differentiable: `tf.gradients` stops at them without an error."""

_registered: dict[str, GradientFunction | None] = {}


def attrs_of(op: Operation, names: Sequence[str]) -> dict[str, Any]:
    """The named attrs of an op, for the op of its gradient.  Attrs that the graph's release does not have are left out."""
    definition = op.graph.builder.registry.op(op.type)
    return {name: op.get_attr(name) for name in names if definition is None or name in definition.attrs}


def text_of(value: TensorLike) -> str:
    """A string attr, which may be given as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


@cache
def built_in() -> Mapping[str, GradientFunction]:
    """TensorFlow's own gradient functions, by op."""
    families = (import_module(f"placesim.tf1.gradients.rules.{family}") for family in _FAMILIES.split())
    return {op: function for family in families for op, function in family.GRADIENTS.items()}


def register(name: str, function: GradientFunction | None) -> None:
    """Register a script's gradient function, None for "not differentiable".  Raises KeyError if the name is taken."""
    # a script cannot replace a gradient, only name another with `gradient_override_map`
    if name in _registered or name in NOT_DIFFERENTIABLE or name in built_in():
        raise KeyError(f"Registering two gradient with name '{name}'!")
    _registered[name] = function


def lookup(name: str) -> GradientFunction | None:
    """Gradient function of an op or registered name, None if not differentiable.  Raises LookupError for an unknown name."""
    if name in _registered:
        return _registered[name]
    # unlike an op without entry, which is an error
    if name in NOT_DIFFERENTIABLE:
        return None
    try:
        return built_in()[name]
    except KeyError:
        raise LookupError(f"gradient registry has no entry for: {name}") from None
