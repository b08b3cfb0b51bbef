"""Integer attrs that TensorFlow stores in 32 bits, although a graph may give any 64-bit value.

Each attr was tried in TensorFlow 2.21 with 2147483648, in two places: in an imported graph, whose shape functions run, and in a
branch of an `If`, where only kernels read attrs.
"""

from __future__ import annotations

from placesim.ops.attributes import Attrs

_LINES = """
axis: Pack Unpack
axis*: Dequantize OneHot QuantizeAndDequantizeV3 QuantizeAndDequantizeV4Grad QuantizeV2
batch_dims: GatherV2
batch_dims groups: Conv
batch_dims*: ResourceGather
beam_width: CTCBeamSearchDecoder
begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask: ResourceStridedSliceAssign StridedSlice StridedSliceAssign
begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask: StridedSliceGrad TensorStridedSliceUpdate
blank_index: CTCGreedyDecoder
block_size*: BatchToSpace DepthToSpace SpaceToBatch SpaceToDepth
capacity: FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2
capacity min_after_dequeue: RandomShuffleQueue RandomShuffleQueueV2
channels*: DecodeImage DecodePng
channels* ratio: DecodeAndCropJpeg DecodeJpeg
compression: EncodePng
concat_dim: SparseConcat
input_quantization_axis output_quantization_axis output_quantization_min_val output_quantization_max_val: UniformRequantize
k: ApproxTopK InTopK
ksize strides: AvgPool3DGrad AvgPoolGrad MaxPool3DGrad MaxPoolGrad
ksize* strides*: AvgPool AvgPool3D MaxPool MaxPool3D MaxPool3DGradGrad MaxPoolGradGrad MaxPoolWithArgmax QuantizedAvgPool
ksize* strides*: QuantizedMaxPool
ksizes strides: ExtractVolumePatches
ksizes* strides* rates*: ExtractImagePatches
loc: _ParallelConcatUpdate
max_attempts: SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox
maxsplit: StringSplitV2
ngram_widths pad_width: StringNGrams
num_bits: FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient
num_bits: FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient QuantizeAndDequantize
num_bits axis*: QuantizeAndDequantizeV2 QuantizeAndDequantizeV4
num_elements*: TensorListStack
num_true num_sampled: AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler
num_true num_sampled: LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler
parallel_iterations: Enter RefEnter
precision width: AsString
quality x_density y_density: EncodeJpeg
quantization_axis: UniformDequantize
quantization_axis quantization_min_val quantization_max_val: UniformQuantize
replacement_char: UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode
rounds: RandomIndexShuffle
seq_dim batch_dim: ReverseSequence
squeeze_dims: Squeeze
strides: DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput FusedPadConv2D FusedResizeAndPadConv2D
strides dilations: Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput
strides dilations: Conv3DBackpropInputV2
strides rates: Dilation2DBackpropFilter Dilation2DBackpropInput
strides* dilations: DepthwiseConv2dNative
strides* dilations*: Conv2D Conv3D QuantizedConv2D
strides* rates*: Dilation2D
summarize: Assert Print StringFormat
"""
"""Lines `attrs: ops`. A star marks attrs that shape functions read too: with too large a value, the graph can't be built."""
_LIMIT = 1 << 31


def _read(lines: str) -> dict[str, tuple[tuple[str, bool], ...]]:
    table: dict[str, tuple[tuple[str, bool], ...]] = {}
    for line in lines.split("\n")[1:-1]:
        names, _, ops = line.partition(": ")
        attrs = tuple((name.removesuffix("*"), name.endswith("*")) for name in names.split())
        table |= dict.fromkeys(ops.split(), attrs)
    return table


_ATTRS = _read(_LINES)


def int32_problem(op: str, attrs: Attrs, in_shape_function: bool = False) -> str | None:
    """Return TensorFlow's message for the first attr that does not fit into 32 bits, or None if all fit."""
    for name, is_looked_at in _ATTRS.get(op, ()):
        if in_shape_function and not is_looked_at:
            continue
        value = attrs.get(name)
        for number in value if isinstance(value, tuple) else (value,):
            if number.__class__ is int and not -_LIMIT <= number < _LIMIT:
                return f"Attr {name} has value {number} out of range for an int32"
    return None
