"""Convolution layers."""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import PerDimension, ShapeLike, TensorLike
from placesim.tf1.layers.layer import InputSpec, Layer, data_format_of, padding_of, sizes
from placesim.tf1.types.shapes import TensorShape

_FORMATS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class _Convolution(Layer):
    """Base class of layers with a kernel over `rank` dimensions."""

    rank = 2
    op_name = "Conv2D"
    kernels: tuple[str, ...] = ("kernel",)

    def __init__(self, filters: int, kernel_size: PerDimension, options: dict[str, Any]) -> None:
        base = {"activity_regularizer": options.pop("activity_regularizer"), **options.pop("kwargs")}
        super().__init__(options.pop("trainable"), options.pop("name"), **base)
        rank = self.rank
        self.filters = filters
        if filters is not None and filters <= 0:
            wanted = "Invalid value for argument `filters`. Expected a strictly positive value."
            raise ValueError(f"{wanted} Received filters={filters}.")
        self.kernel_size = sizes(kernel_size, rank, "kernel_size")
        self.strides = sizes(options.pop("strides"), rank, "strides")
        self.padding = padding_of(options.pop("padding"))
        self.data_format = data_format_of(options.pop("data_format"))
        self.dilation_rate = sizes(options.pop("dilation_rate", 1), rank, "dilation_rate")
        self.activation, self.use_bias = options.pop("activation"), options.pop("use_bias")
        self._options = options
        self.bias: Any = None
        self.input_spec = InputSpec(min_ndim=rank + 2)

    def _weight_options(self, name: str) -> dict[str, Any]:
        kinds = ("initializer", "regularizer", "constraint")
        return {kind: self._options[f"{name.removesuffix('_kernel')}_{kind}"] for kind in kinds}

    @property
    def _channel_axis(self) -> int:
        return -1 if self.data_format == "channels_last" else -1 - self.rank

    def _channels(self, shape: TensorShape) -> int:
        size = shape.dims[self._channel_axis].value if shape.dims is not None else None
        if size is None:
            raise ValueError(
                f"The channel dimension of the inputs should be defined. The input_shape received is {shape}, where axis "
                f"{self._channel_axis} (0-based) is the channel dimension, which found to be `None`."
            )
        return size

    def _kernel_shapes(self, channels: int) -> list[list[int]]:
        return [[*self.kernel_size, channels, self.filters]]

    def build(self, input_shape: ShapeLike) -> None:
        channels = self._channels(TensorShape(input_shape))
        for name, shape in zip(self.kernels, self._kernel_shapes(channels), strict=True):
            setattr(self, name, self.add_weight(name, shape, trainable=True, **self._weight_options(name)))
        if self.use_bias:
            self.bias = self.add_weight("bias", [self.filters], trainable=True, **self._weight_options("bias"))
        self.input_spec = InputSpec(min_ndim=self.rank + 2, axes={self._channel_axis: channels})

    def call(self, inputs: TensorLike, *args: object, **kwargs: object) -> Any:
        outputs = self._convolve(inputs)
        if self.use_bias:
            outputs = self._biased(outputs)
        return outputs if self.activation is None else self.activation(outputs)

    @property
    def _layout(self) -> str:
        return _FORMATS[self.rank][self.data_format == "channels_last"]

    def _convolve(self, inputs: TensorLike) -> Any:
        return tf.nn.convolution(
            inputs,
            self.kernel,  # type: ignore[attr-defined]
            self.padding.upper(),
            strides=self.strides,
            dilation_rate=self.dilation_rate,
            data_format=self._layout,
            name=self.op_name,
        )

    def _biased(self, outputs: object) -> Any:
        if self.data_format == "channels_last":
            return tf.nn.bias_add(outputs, self.bias, data_format="NHWC")
        if self.rank == 1:
            return outputs + tf.reshape(self.bias, (1, self.filters, 1))
        return tf.nn.bias_add(outputs, self.bias, data_format="NCHW")


def _layer(rank: int, name: str, op_name: str, default: object) -> type[_Convolution]:
    one = default

    def __init__(  # noqa: N807
        self: _Convolution,
        filters: int,
        kernel_size: PerDimension,
        strides: Any = one,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: object = one,
        activation: object = None,
        use_bias: bool = True,
        kernel_initializer: object = None,
        bias_initializer: object = None,
        kernel_regularizer: object = None,
        bias_regularizer: object = None,
        activity_regularizer: object = None,
        kernel_constraint: object = None,
        bias_constraint: object = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: object,
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "filters", "kernel_size", "one")}
        options["bias_initializer"] = tf.zeros_initializer() if bias_initializer is None else bias_initializer
        _Convolution.__init__(self, filters, kernel_size, options)

    described = f"A convolution over {rank} dimension{'s' * (rank > 1)}, a bias and an activation."
    return type(name, (_Convolution,), {"__init__": __init__, "__doc__": described, "rank": rank, "op_name": op_name})


Conv1D = _layer(1, "Conv1D", "Conv1D", 1)
Conv2D = _layer(2, "Conv2D", "Conv2D", (1, 1))
Conv3D = _layer(3, "Conv3D", "Conv3D", (1, 1, 1))


class _TransposedConvolution(_Convolution):
    def _kernel_shapes(self, channels: int) -> list[list[int]]:
        return [[*self.kernel_size, self.filters, channels]]

    def _convolve(self, inputs: Any) -> Any:
        last = self.data_format == "channels_last"
        shape = tf.shape(inputs)
        batch = shape[0]
        first = 1 if last else 2
        known = inputs.shape.as_list()
        spatial = [known[first + i] for i in range(self.rank)]
        if None in spatial:
            spatial = [shape[first + i] for i in range(self.rank)]
        lengths = self._lengths(spatial)
        whole = tf.stack([batch, *lengths, self.filters] if last else [batch, self.filters, *lengths])
        outputs = self._deconvolve(inputs, whole)
        lengths = self._lengths(known[first : first + self.rank])
        outputs.set_shape([known[0], *lengths, self.filters] if last else [known[0], self.filters, *lengths])
        return outputs

    def _lengths(self, spatial: list[Any]) -> list[Any]:
        """Output size along each spatial dimension, for the input sizes `spatial`; None for an unknown size."""
        found: list[Any] = []
        for size, kernel, stride in zip(spatial, self.kernel_size, self.strides, strict=True):
            length: Any = None if size is None else size * stride
            found.append(length + max(kernel - stride, 0) if length is not None and self.padding == "valid" else length)
        return found

    def _deconvolve(self, inputs: TensorLike, whole: Any) -> Any:
        strides = [1, *self.strides, 1] if self.data_format == "channels_last" else [1, 1, *self.strides]
        options = {"strides": strides, "padding": self.padding.upper(), "data_format": self._layout}
        kernel = self.kernel  # type: ignore[attr-defined]
        if self.rank == 3:
            return tf.nn.conv3d_transpose(inputs, kernel, whole, **options)
        whole[0]  # TensorFlow makes this op, which nothing reads
        return tf.nn.conv2d_transpose(inputs, kernel, whole, **options)


class _TransposedConvolutionInit(_TransposedConvolution):
    def __init__(
        self,
        filters: int,
        kernel_size: PerDimension,
        strides: PerDimension = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        activation: object = None,
        use_bias: bool = True,
        kernel_initializer: object = None,
        bias_initializer: object = None,
        kernel_regularizer: object = None,
        bias_regularizer: object = None,
        activity_regularizer: object = None,
        kernel_constraint: object = None,
        bias_constraint: object = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: object,
    ) -> None:
        skipped = ("self", "filters", "kernel_size", "__class__")
        options = {key: value for key, value in locals().items() if key not in skipped}
        options["bias_initializer"] = tf.zeros_initializer() if bias_initializer is None else bias_initializer
        super().__init__(filters, kernel_size, options)


class Conv2DTranspose(_TransposedConvolutionInit):
    """The gradient of a convolution over images, as a layer."""


class Conv3DTranspose(_TransposedConvolutionInit):
    """The gradient of a convolution over volumes, as a layer."""

    rank = 3


class SeparableConv2D(_Convolution):
    """A convolution of each channel, and then a 1 x 1 convolution of all channels."""

    kernels = ("depthwise_kernel", "pointwise_kernel")

    def __init__(
        self,
        filters: int,
        kernel_size: PerDimension,
        strides: PerDimension = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: object = (1, 1),
        depth_multiplier: int = 1,
        activation: object = None,
        use_bias: bool = True,
        depthwise_initializer: object = None,
        pointwise_initializer: object = None,
        bias_initializer: object = None,
        depthwise_regularizer: object = None,
        pointwise_regularizer: object = None,
        bias_regularizer: object = None,
        activity_regularizer: object = None,
        depthwise_constraint: object = None,
        pointwise_constraint: object = None,
        bias_constraint: object = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: object,
    ) -> None:
        skipped = ("self", "filters", "kernel_size", "depth_multiplier", "__class__")
        options = {key: value for key, value in locals().items() if key not in skipped}
        options["bias_initializer"] = tf.zeros_initializer() if bias_initializer is None else bias_initializer
        super().__init__(filters, kernel_size, options)
        self.depth_multiplier = depth_multiplier

    def _kernel_shapes(self, channels: int) -> list[list[int]]:
        depth = channels * self.depth_multiplier
        return [[*self.kernel_size, channels, self.depth_multiplier], [1, 1, depth, self.filters]]

    def _convolve(self, inputs: TensorLike) -> Any:
        last = self.data_format == "channels_last"
        return tf.nn.separable_conv2d(
            inputs,
            self.depthwise_kernel,  # type: ignore[attr-defined]
            self.pointwise_kernel,  # type: ignore[attr-defined]
            strides=[1, *self.strides, 1] if last else [1, 1, *self.strides],
            padding=self.padding.upper(),
            rate=self.dilation_rate,
            data_format=self._layout,
        )


_INPUTS = Parameter("inputs", Parameter.POSITIONAL_OR_KEYWORD)
_REUSE = Parameter("reuse", Parameter.POSITIONAL_OR_KEYWORD, default=None)
"""First and last parameter of a layer's function; the parameters of the layer's class are between them."""


def _function(kind: type[_Convolution], documentation: str) -> Any:
    def layer(inputs: TensorLike, *args: Any, reuse: Any = None, **kwargs: Any) -> Any:
        made = kind(*args, _scope=kwargs.get("name"), _reuse=reuse, **kwargs)  # type: ignore[call-arg]
        return made(inputs)

    layer.__doc__ = documentation
    taken = [one for one in signature(kind).parameters.values() if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    layer.__signature__ = Signature([_INPUTS, *taken, _REUSE])  # type: ignore[attr-defined]
    return layer


conv1d = _function(Conv1D, "Make a `Conv1D` layer and apply it.")
conv2d = _function(Conv2D, "Make a `Conv2D` layer and apply it.")
conv3d = _function(Conv3D, "Make a `Conv3D` layer and apply it.")
conv2d_transpose = _function(Conv2DTranspose, "Make a `Conv2DTranspose` layer and apply it.")
conv3d_transpose = _function(Conv3DTranspose, "Make a `Conv3DTranspose` layer and apply it.")
separable_conv2d = _function(SeparableConv2D, "Make a `SeparableConv2D` layer and apply it.")
convolution1d, convolution2d, convolution3d = conv1d, conv2d, conv3d
Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution2DTranspose, Convolution3DTranspose, SeparableConvolution2D = Conv2DTranspose, Conv3DTranspose, SeparableConv2D
