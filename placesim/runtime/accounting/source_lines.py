"""The lines of TensorFlow's source that it names in its log where a kernel finds no room.

Recorded with TensorFlow 2.21.0: an op whose kernel was never seen to fail has no row, and no line is logged for it.
"""

from __future__ import annotations

CONSTANT_LINE = "constant_op.cc:83"
"""Where the kernel of a constant is made."""

_OUTPUT_LINES = {
    "aggregate_ops.cc:66": "AddN",
    "argmax_op.cc:81": "ArgMax",
    "avgpooling_op.cc:113": "AvgPool",
    "avgpooling_op.cc:309": "AvgPoolGrad",
    "bias_op.cc:128": "BiasAdd",
    "bias_op.cc:192": "BiasAddGrad",
    "broadcast_to_op.cc:71": "BroadcastTo",
    "cast_op.cc:110": "Cast",
    "concat_op.cc:165": "Concat ConcatV2",
    "constant_op.cc:176": "Fill",
    "constant_op.cc:268": "ZerosLike",
    "constant_op.cc:317": "OnesLike",
    "conv_grad_filter_ops.cc:302": "Conv2DBackpropFilter",
    "conv_grad_input_ops.h:500": "Conv2DBackpropInput",
    "conv_ops_3d.cc:167": "Conv3D",
    "conv_ops_impl.h:679": "Conv2D",
    "cwise_op_clip.cc:49": "ClipByValue",
    "cwise_op_leakyrelu.cc:97": "LeakyRelu",
    "cwise_op_select.cc:102": "Select",
    "cwise_op_select.cc:189": "SelectV2",
    "cwise_ops_common.cc:82": "Equal Greater GreaterEqual Less LessEqual LogicalAnd NotEqual",
    "cwise_ops_common.h:111": ("Add AddV2 Atan2 Div FloorDiv FloorMod Maximum Minimum Mul Pow RealDiv SquaredDifference Sub"),
    "cwise_ops_common.h:290": "RsqrtGrad SigmoidGrad SqrtGrad TanhGrad",
    "cwise_ops_common.h:321": ("Abs Cos Erf Exp Floor Log Neg Reciprocal Round Rsqrt Sigmoid Sign Sin Sqrt Square Tanh"),
    "depthtospace_op.cc:118": "DepthToSpace",
    "depthwise_conv_grad_op.cc:635": "DepthwiseConv2dNativeBackpropInput",
    "depthwise_conv_op.cc:432": "DepthwiseConv2dNative",
    "dynamic_partition_op.cc:80": "DynamicPartition",
    "dynamic_stitch_op.cc:152": "DynamicStitch",
    "einsum_op_impl.h:533": "Einsum",
    "fused_batch_norm_op.cc:1560": "FusedBatchNormV3",
    "fused_batch_norm_op.cc:1783": "FusedBatchNormGradV3",
    "gather_nd_op.cc:65": "GatherNd",
    "gather_op.cc:171": "Gather GatherV2",
    "image_resizer_state.h:154": "ResizeBilinear ResizeNearestNeighbor",
    "lrn_op.cc:351": "LRN",
    "matmul_op_impl.h:962": "BatchMatMulV2 BatchMatMulV3 MatMul",
    "maxpooling_op.cc:287": "MaxPoolGrad",
    "mirror_pad_op.cc:120": "MirrorPad",
    "numeric_op.h:61": "Elu Relu Relu6 Selu Softplus Softsign",
    "numeric_op.h:82": "EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad",
    "one_hot_op.cc:98": "OneHot",
    "pack_op.cc:81": "Pack",
    "pad_op.cc:136": "Pad PadV2",
    "pooling_ops_common.h:145": "MaxPool",
    "random_op.cc:109": "RandomUniformInt",
    "random_op.cc:75": "RandomStandardNormal RandomUniform TruncatedNormal",
    "random_shuffle_op.cc:37": "RandomShuffle",
    "reduction_ops_common.h:186": "All Any Max Mean Min Prod Sum",
    "ref_var.cc:104": "Assign",
    "reverse_op.cc:282": "ReverseV2",
    "scan_ops.cc:62": "Cumsum",
    "scatter_nd_op.cc:177": "ScatterNd",
    "segment_reduction_ops_impl.h:132": "SegmentSum",
    "segment_reduction_ops_impl.h:518": "UnsortedSegmentSum",
    "sequence_ops.cc:124": "Range",
    "sequence_ops.cc:199": "LinSpace",
    "slice_op.cc:151": "Slice",
    "softmax_op.cc:62": "LogSoftmax Softmax",
    "spacetobatch_op.cc:232": "SpaceToBatchND",
    "spacetodepth_op.cc:128": "SpaceToDepth",
    "sparse_xent_op.cc:98": "SparseSoftmaxCrossEntropyWithLogits",
    "split_op.cc:163": "Split",
    "split_v_op.cc:259": "SplitV",
    "stateless_random_ops.cc:83": "StatelessRandomNormal StatelessRandomUniform",
    "strided_slice_op.cc:147": "StridedSlice",
    "strided_slice_op.cc:257": "StridedSliceGrad",
    "tile_ops.cc:201": "Tile",
    "topk_op.cc:110": "TopKV2",
    "transpose_op.cc:188": "ConjugateTranspose Transpose",
    "where_op.cc:148": "Where",
    "xent_op.cc:89": "SoftmaxCrossEntropyWithLogits",
}
"""By the line: the ops whose kernels ask there for their first output, or for what becomes it."""
_TEMPORARY_LINES = {
    "conv_grad_filter_ops.cc:380": "Conv2DBackpropFilter",
    "conv_grad_input_ops.h:598": "Conv2DBackpropInput",
    "conv_grad_input_ops_3d.cc:470": "Conv3DBackpropInputV2",
    "depthwise_conv_grad_op.cc:409": "DepthwiseConv2dNativeBackpropInput",
    "depthwise_conv_grad_op.cc:899": "DepthwiseConv2dNativeBackpropFilter",
    "mirror_pad_op.cc:338": "MirrorPadGrad",
    "multinomial_op.cc:100": "Multinomial",
    "reduction_ops_common.h:227": "All Any Max Mean Min Prod Sum",
}
"""The same for what a kernel needs beside its outputs."""


def _by_op(lines: dict[str, str]) -> dict[str, str]:
    return {op: line for line, ops in lines.items() for op in ops.split()}


_OF_OUTPUTS, _OF_TEMPORARIES = _by_op(_OUTPUT_LINES), _by_op(_TEMPORARY_LINES)


def kernel_line(op: str, *, temporary: bool = False) -> str | None:
    """`FILE:LINE` where the kernel of an op asks for its outputs, or for a temporary; None where that was never recorded."""
    return (_OF_TEMPORARIES if temporary else _OF_OUTPUTS).get(op)
