"""Ops by their safety in half precision, as in TensorFlow's graph optimizer `auto_mixed_precision` (release 2.21, for GPUs)."""


def _ops(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOW = _ops(
    """
    BatchMatMul BatchMatMulV2 BlockLSTM BlockLSTMGrad BlockLSTMGradV2 BlockLSTMV2 Conv2D Conv2DBackpropFilter
    Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2 CudnnRNN
    CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3 DepthwiseConv2dNative
    DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Einsum GRUBlockCell GRUBlockCellGrad LSTMBlockCell
    LSTMBlockCellGrad MatMul
    """
)
"""Ops that take most of the time, and are always computed in half precision."""
INFER = _ops(
    """
    Add AddN AddV2 AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad Erf Erfc FloorDiv
    FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 Inv LeakyRelu LeakyReluGrad Log Log1p LogSoftmax
    Mul Prod RealDiv Reciprocal Selu SeluGrad Sigmoid SigmoidGrad Softmax Softplus SoftplusGrad Softsign SoftsignGrad Sqrt Sub
    Tanh TanhGrad
    """
)
"""Ops that are safe unless their input comes from an op of `DENY`."""
DENY = _ops("Exp Expm1 L2Loss Mean Pow SaveV2 SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits Sum")
"""Ops that are computed in float32. Ops of `INFER` that depend on them are also computed in float32."""
CLEAR = _ops(
    """
    Abs ArgMax ArgMin BatchToSpace BatchToSpaceND BroadcastTo Ceil CheckNumerics ClipByValue Concat ConcatV2 DepthToSpace
    DynamicPartition DynamicStitch EnsureShape Equal ExpandDims Fill Floor Gather GatherNd GatherV2 Greater GreaterEqual
    Identity IdentityN IsFinite IsInf IsNan Less LessEqual Max MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad
    MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2 Maximum Min Minimum MirrorPad MirrorPadGrad Neg NotEqual OneHot
    OnesLike Pack Pad PadV2 PreventGradient Rank Relu Relu6 Relu6Grad ReluGrad Reshape ResizeNearestNeighbor
    ResizeNearestNeighborGrad Reverse ReverseSequence ReverseV2 Round Select SelectV2 Shape ShapeN Sign Size Slice Snapshot
    SpaceToBatch SpaceToBatchND SpaceToDepth Split SplitV Squeeze StopGradient StridedSlice StridedSliceGrad Tile TopK TopKV2
    Transpose Unpack Where ZerosLike
    """
)
"""Ops that lose no precision, and take the precision of neighbouring ops.

Ops of control flow and of tensor lists, which TensorFlow's list has too, keep float32 here: all tensors that meet in a loop
must have one type.
"""
