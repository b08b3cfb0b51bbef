"""Layers -> a graph file's nodes: the forward pass as it is written, its gradients and updates from a tape of it.

Images are `[images, height, width, channels]` here, whatever the graph's layout; padding is a number of pixels on each side, or
TensorFlow's word.  Ops are TensorFlow's, one for each kernel that a framework launches which runs a network op by op.  Kernels
of PyTorch that TensorFlow composes of several have an op in their place that moves the same bytes: a softmax stands for a layer
normalization, a product of elements for the gradient of a layer normalization or a softmax.  What the profiler showed on an
H100 is here too: PyTorch's Adam and masks pass more often over their tensors than TensorFlow's, as does its loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Literal, NamedTuple

Layout = Literal["NHWC", "NCHW"]
Padding = int | tuple[int, int] | Literal["SAME", "VALID"]
Size = int | tuple[int, int]
ADAM_TENSORS = 17
"""Tensors whose sum stands for the passes that PyTorch's Adam adds to the seven of TensorFlow's: 25 in all (on an H100)."""
FLOATS = {"float32": 4, "half": 2, "bfloat16": 2}


class Tensor(NamedTuple):
    """A node's output, its dims as this module counts them, and its type."""

    name: str
    dims: tuple[int, ...]
    dtype: str


class Numerics(NamedTuple):
    """`compute` is what products are of; `parameters` what weights are kept in, and cast from for each product."""

    compute: str = "float32"
    parameters: str = "float32"


class Tape:
    """A network as it is written down; `parameters` and `multiply_adds` count, `finish` gives the graph file's mapping.

    A transformer is trained with Adam, and its products add their bias themselves, as PyTorch's do.
    """

    def __init__(
        self, images: tuple[int, ...], layout: Layout, numerics: Numerics, *, is_training: bool, is_transformer: bool = False
    ) -> None:
        self.layout = layout
        self._is_transformer = is_transformer
        self.numerics = numerics
        self.is_training = is_training
        self.parameters = 0
        self.multiply_adds = 0
        self._nodes: list[dict[str, Any]] = []
        self._counts: dict[str, int] = {}
        self._backward: list[Callable[[], None]] = []
        self._gradients: dict[str, list[str]] = {}
        self._variables: list[str] = []
        self._updates: list[str] = []
        self._weight_gradients: list[str] = []
        self._made: set[str] = set()
        dims = self._physical(images) if len(images) == _IMAGE_RANK else images
        # they lie on the device: as a variable, since no constant may have more than 2 GiB
        made = self._variable("images", dims, numerics.parameters)
        self.input = self.cast(Tensor(made, images, numerics.parameters), numerics.compute)

    # --- nodes

    def _name(self, stem: str) -> str:
        number = self._counts[stem] = self._counts.get(stem, -1) + 1
        return f"{stem}_{number}" if number else stem

    def _add(self, op: str, stem: str, inputs: Sequence[Any], attrs: Mapping[str, Any] | None = None) -> str:
        name = self._name(stem)
        self._nodes.append({"op": op, "name": name, "inputs": list(inputs), "attrs": dict(attrs or {})})
        return name

    def _constant(self, stem: str, dims: Sequence[int], dtype: str) -> str:
        name = self._name(stem)
        value: Any = 0.0 if prod(dims) else []
        self._nodes.append({"op": "Const", "name": name, "value": value, "dtype": dtype, "shape": list(dims)})
        return name

    def _physical(self, dims: Sequence[int]) -> list[int]:
        images, height, width, channels = dims
        return [images, channels, height, width] if self.layout == "NCHW" else [images, height, width, channels]

    def _along(self, height: Any, width: Any, rest: Any) -> list[Any]:
        """A list by axis of the graph's layout."""
        return [rest, rest, height, width] if self.layout == "NCHW" else [rest, height, width, rest]

    def _weights(self, dims: tuple[int, ...], stem: str, dtype: str = "") -> tuple[str, Callable[[str], None]]:
        """A parameter's value in the type that it is used in (without one, that of products), and what takes its gradient."""
        self.parameters += prod(dims)
        kept, used = self.numerics.parameters, dtype or self.numerics.compute
        if not self.is_training:
            name = self._constant(stem, dims, kept)
            return (self._add("Cast", f"{stem}_cast", [name], {"DstT": used}) if used != kept else name), lambda gradient: None
        variable = self._name(stem)
        slots = [f"{variable}/{slot}" for slot in (("m", "v") if self._is_transformer else ("momentum",))]
        value = self._variable(variable, dims, kept)
        for slot in slots:
            self._handle(slot, dims, kept)
        if used != kept:
            value = self._add("Cast", f"{variable}/cast", [value], {"DstT": used})

        def update(gradient: str) -> None:
            if used != kept:
                gradient = self._add("Cast", f"{variable}/gradient", [gradient], {"DstT": kept})
            self._weight_gradients.append(gradient)
            if self._is_transformer:
                gradient = self._add("AddN", f"{variable}/passes", [gradient] * ADAM_TENSORS)
            rate = self._scalar(kept)
            inputs = (
                [variable, *slots, *[rate] * 6, gradient] if self._is_transformer else [variable, *slots, rate, gradient, rate]
            )
            op = "ResourceApplyAdam" if self._is_transformer else "ResourceApplyMomentum"
            self._updates.append(self._add(op, f"{variable}/update", inputs))

        return value, update

    def _variable(self, name: str, dims: Sequence[int], dtype: str) -> str:
        """A variable of zeros, and what reads it."""
        self._handle(name, dims, dtype)
        return self._add("ReadVariableOp", f"{name}/read", [name], {"dtype": dtype})

    def _handle(self, name: str, dims: Sequence[int], dtype: str) -> None:
        attrs = {"dtype": dtype, "shape": list(dims), "shared_name": name}
        self._nodes.append({"op": "VarHandleOp", "name": name, "attrs": attrs})
        self._nodes.append({"op": "Fill", "name": f"{name}/zeros", "inputs": [list(dims), self._scalar(dtype)]})
        self._nodes.append({"op": "AssignVariableOp", "name": f"{name}/assign", "inputs": [name, f"{name}/zeros"]})
        self._variables.append(f"{name}/assign")

    def _scalar(self, dtype: str) -> str:
        name = f"scalar_{dtype}"
        if name not in self._made:
            self._made.add(name)
            self._nodes.append({"op": "Const", "name": name, "value": 0.0, "dtype": dtype, "shape": []})
        return name

    # --- gradients

    def _record(self, result: Tensor, backward: Callable[[str], None]) -> Tensor:
        """Has `backward` run with the sum of the gradients of the result."""
        if self.is_training:

            def run() -> None:
                found = self._gradients.pop(result.name, [])
                if found:
                    backward(found[0] if len(found) == 1 else self._add("AddN", "gradient_sum", found))

            self._backward.append(run)
        return result

    def _give(self, tensor: Tensor, gradient: Callable[[], str]) -> None:
        """Passes a gradient on; the images' own is not computed."""
        if tensor.name != self.input.name:
            self._gradients.setdefault(tensor.name, []).append(gradient())

    # --- layers

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """The same in another type."""
        if x.dtype == dtype:
            return x
        made = self._add("Cast", "cast", [x.name], {"DstT": dtype})
        back = lambda dy: self._give(x, lambda: self._add("Cast", "cast_gradient", [dy], {"DstT": x.dtype}))  # noqa: E731
        return self._record(Tensor(made, x.dims, dtype), back)

    def convolution(
        self, x: Tensor, filters: int, size: Size, stride: int = 1, padding: Padding | None = None, groups: int = 1, *,
        has_bias: bool = False,
    ) -> Tensor:  # fmt: skip
        """Square or oblong filters; without `padding`, half of the filter on each side."""
        rows, columns = (size, size) if isinstance(size, int) else size
        images, height, width, channels = x.dims
        padding = (rows // 2, columns // 2) if padding is None else padding
        window = self._window((rows, columns), stride, padding)
        out = _extent(height, rows, stride, padding, 0), _extent(width, columns, stride, padding, 1)
        is_depthwise = groups == channels == filters and groups > 1
        dims = (rows, columns, channels, 1) if is_depthwise else (rows, columns, channels // groups, filters)
        weights, update = self._weights(dims, "filter")
        op = "DepthwiseConv2dNative" if is_depthwise else "Conv2D"
        made = Tensor(self._add(op, "conv", [x.name, weights], window), (images, *out, filters), x.dtype)
        self.multiply_adds += prod(made.dims) * rows * columns * channels // groups

        def backward(dy: str) -> None:
            image_dims, filter_dims = self._physical(x.dims), list(dims)
            names = (f"{op}BackpropFilter", f"{op}BackpropInput")
            if is_depthwise:
                names = ("DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput")
            update(self._add(names[0], "conv_filter_gradient", [x.name, filter_dims, dy], window))
            self._give(x, lambda: self._add(names[1], "conv_input_gradient", [image_dims, weights, dy], window))

        made = self._record(made, backward)
        return self.bias(made) if has_bias else made

    def _window(self, size: tuple[int, int], stride: int, padding: Padding) -> dict[str, Any]:
        attrs: dict[str, Any] = {"strides": self._along(stride, stride, 1), "data_format": self.layout}
        if isinstance(padding, str):
            return attrs | {"padding": padding}
        height, width = (padding, padding) if isinstance(padding, int) else padding
        if not (height or width):
            return attrs | {"padding": "VALID"}
        pairs = self._along([height, height], [width, width], [0, 0])
        return attrs | {"padding": "EXPLICIT", "explicit_paddings": [pixels for pair in pairs for pixels in pair]}

    def bias(self, x: Tensor, *, is_fused: bool = False) -> Tensor:
        """A number for each channel added; `is_fused`: by the kernel that makes `x`."""
        weights, update = self._weights(x.dims[-1:], "bias")
        layout = self.layout if len(x.dims) == _IMAGE_RANK else "NHWC"
        made = x.name if is_fused else self._add("BiasAdd", "biased", [x.name, weights], {"data_format": layout})

        def backward(dy: str) -> None:
            update(self._add("BiasAddGrad", "bias_gradient", [dy], {"data_format": layout}))
            self._give(x, lambda: dy)

        return self._record(Tensor(made, x.dims, x.dtype), backward)

    def normalization(self, x: Tensor) -> Tensor:
        """Batch normalization, of its statistics in training; scale and offset stay float32 beside narrower images."""
        layout = self.layout if len(x.dims) == _IMAGE_RANK else "NHWC"
        kept = "float32"
        (scale, scale_update), (offset, offset_update) = (
            self._weights(x.dims[-1:], stem, kept) for stem in ("scale", "offset")
        )
        empty = [0] if self.is_training else [x.dims[-1]]
        moments = [self._constant(stem, empty, kept) for stem in ("mean", "variance")]
        attrs = {"data_format": layout, "is_training": self.is_training}
        made = self._add("FusedBatchNormV3", "normalized", [x.name, scale, offset, *moments], attrs)

        def backward(dy: str) -> None:
            kept_outputs = [f"{made}:{number}" for number in (3, 4, 5)]
            gradient = self._add("FusedBatchNormGradV3", "normalization_gradient", [dy, x.name, scale, *kept_outputs], attrs)
            scale_update(f"{gradient}:1")
            offset_update(f"{gradient}:2")
            self._give(x, lambda: gradient)

        return self._record(Tensor(made, x.dims, x.dtype), backward)

    def relu(self, x: Tensor, op: Literal["Relu", "Relu6"] = "Relu") -> Tensor:
        """What is below 0 is 0."""
        # PyTorch's ReLU6 works in place, on a copy of what its gradient needs
        entered = self._add("Neg", "copy", [x.name]) if op == "Relu6" and self.is_training else x.name
        made = Tensor(self._add(op, "relu", [entered]), x.dims, x.dtype)
        return self._record(made, lambda dy: self._give(x, lambda: self._add(f"{op}Grad", "relu_gradient", [dy, made.name])))

    def unary(self, x: Tensor, op: str) -> Tensor:
        """An elementwise op, whose gradient is taken for a product with what it made."""
        made = Tensor(self._add(op, op.lower(), [x.name]), x.dims, x.dtype)
        return self._record(made, lambda dy: self._give(x, lambda: self._add("Mul", "gradient", [dy, made.name])))

    def add(self, first: Tensor, second: Tensor) -> Tensor:
        """The sum of two tensors of one shape."""
        made = Tensor(self._add("AddV2", "sum", [first.name, second.name]), first.dims, first.dtype)

        def backward(dy: str) -> None:
            self._give(first, lambda: dy)
            self._give(second, lambda: dy)

        return self._record(made, backward)

    def scaled(self, x: Tensor, gate: Tensor) -> Tensor:
        """Each channel of `x` times its gate, `[images, 1, 1, channels]`."""
        made = Tensor(self._add("Mul", "scaled", [x.name, gate.name]), x.dims, x.dtype)

        def backward(dy: str) -> None:
            self._give(x, lambda: self._add("Mul", "scaled_gradient", [dy, gate.name]))
            parts = self._add("Mul", "gate_gradient", [dy, x.name])
            axes = [2, 3] if self.layout == "NCHW" else [1, 2]
            self._give(gate, lambda: self._add("Sum", "gate_sum", [parts, axes], {"keep_dims": True}))

        return self._record(made, backward)

    def pool(
        self, x: Tensor, size: int, stride: int, padding: Padding = "VALID", op: Literal["MaxPool", "AvgPool"] = "MaxPool"
    ) -> Tensor:
        """Largest or mean of windows; padding in pixels is the graph's SAME, which pads as many in all to within one."""
        images, height, width, channels = x.dims
        out = _extent(height, size, stride, padding, 0), _extent(width, size, stride, padding, 1)
        word = padding if isinstance(padding, str) else "SAME" if padding else "VALID"
        attrs = {
            "ksize": self._along(size, size, 1),
            "strides": self._along(stride, stride, 1),
            "padding": word,
            "data_format": self.layout,
        }
        made = Tensor(self._add(op, "pool", [x.name], attrs), (images, *out, channels), x.dtype)
        dims = self._physical(x.dims)

        def gradient(dy: str) -> str:
            inputs = [x.name, made.name, dy] if op == "MaxPool" else [dims, dy]
            return self._add(f"{op}Grad", "pool_gradient", inputs, attrs)

        return self._record(made, lambda dy: self._give(x, lambda: gradient(dy)))

    def response_normalization(self, x: Tensor) -> Tensor:
        """Local response normalization, over channels."""
        made = Tensor(self._add("LRN", "response", [x.name]), x.dims, x.dtype)
        inputs = (x.name, made.name)
        return self._record(made, lambda dy: self._give(x, lambda: self._add("LRNGrad", "response_gradient", [dy, *inputs])))

    def mean(self, x: Tensor, *, keeps_dims: bool = False) -> Tensor:
        """The mean of each channel of each image, `[images, channels]`."""
        images, _, _, channels = x.dims
        axes = [2, 3] if self.layout == "NCHW" else [1, 2]
        dims = (images, 1, 1, channels) if keeps_dims else (images, channels)
        made = Tensor(self._add("Mean", "mean", [x.name, axes], {"keep_dims": keeps_dims}), dims, x.dtype)

        def gradient(dy: str) -> str:
            spread = self._add("Reshape", "mean_gradient_dims", [dy, self._physical((images, 1, 1, channels))])
            divided = self._add("Mul", "mean_gradient", [spread, self._scalar(x.dtype)])
            return self._add("BroadcastTo", "mean_gradients", [divided, self._physical(x.dims)])

        return self._record(made, lambda dy: self._give(x, lambda: gradient(dy)))

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Side by side, channel after channel."""
        axis = 1 if self.layout == "NCHW" else 3
        images, height, width, _ = parts[0].dims
        dims = images, height, width, sum(part.dims[-1] for part in parts)
        made = Tensor(self._add("ConcatV2", "joined", [*(part.name for part in parts), axis]), dims, parts[0].dtype)

        def backward(dy: str) -> None:
            at = 0
            for part in parts:
                begin = self._physical((0, 0, 0, at))
                size = self._physical(part.dims)
                self._give(part, lambda begin=begin, size=size: self._add("Slice", "part_gradient", [dy, begin, size]))  # type: ignore[misc]
                at += part.dims[-1]

        return self._record(made, backward)

    def flat(self, x: Tensor) -> Tensor:
        """Each image as one row."""
        return self.reshaped(x, (x.dims[0], prod(x.dims[1:])), are_images=len(x.dims) == _IMAGE_RANK)

    def reshaped(self, x: Tensor, dims: tuple[int, ...], *, are_images: bool = False) -> Tensor:
        """The same numbers in other dims; `are_images`: `x` has the graph's layout."""
        made = Tensor(self._add("Reshape", "reshaped", [x.name, list(dims)]), dims, x.dtype)
        back = self._physical(x.dims) if are_images else list(x.dims)
        return self._record(made, lambda dy: self._give(x, lambda: self._add("Reshape", "reshaped_back", [dy, back])))

    def linear(self, x: Tensor, units: int, *, has_bias: bool = True) -> Tensor:
        """A product with weights: `[rows, features]` to `[rows, units]`; weights of a unit are adjacent, as in PyTorch."""
        rows, features = x.dims
        weights, update = self._weights((units, features), "weights")
        product = self._add("MatMul", "product", [x.name, weights], {"transpose_b": True})
        made = Tensor(product, (rows, units), x.dtype)
        self.multiply_adds += rows * features * units

        def backward(dy: str) -> None:
            update(self._add("MatMul", "weights_gradient", [dy, x.name], {"transpose_a": True}))
            self._give(x, lambda: self._add("MatMul", "product_gradient", [dy, weights]))

        made = self._record(made, backward)
        return self.bias(made, is_fused=self._is_transformer) if has_bias else made

    # --- layers of transformers

    def embedded(self, words: int, dims: tuple[int, int, int]) -> Tensor:
        """A row of a table of `words` for each position: `[batch, length, width]`."""
        batch, length, width = dims
        table, update = self._weights((words, width), "embedding")
        ids = self._name("words")
        self._nodes.append({"op": "Const", "name": ids, "value": 0, "dtype": "int64", "shape": [batch, length]})
        made = self._add("GatherV2", "embedded", [table, ids, 0])

        def backward(dy: str) -> None:
            update(self._add("UnsortedSegmentSum", "embedding_gradient", [dy, ids, words]))

        return self._record(Tensor(made, dims, self.numerics.compute), backward)

    def with_class_token(self, x: Tensor) -> Tensor:
        """Tokens `[images, pixels + 1, channels]` of images, one more than pixels."""
        images, height, width, channels = x.dims
        dims = images, height * width, channels
        if self.layout == "NCHW":
            planes = self.reshaped(x, (images, channels, height * width), are_images=True)
            tokens = self.transposed(planes, (0, 2, 1))
        else:
            tokens = self.reshaped(x, dims, are_images=True)
        token = self._constant("class_token", (images, 1, channels), x.dtype)
        made = self._add("ConcatV2", "tokens", [token, tokens.name, 1])
        back = lambda dy: self._give(tokens, lambda: self._add("Slice", "tokens_gradient", [dy, [0, 1, 0], list(dims)]))  # noqa: E731
        return self._record(Tensor(made, (images, height * width + 1, channels), x.dtype), back)

    def first_token(self, x: Tensor) -> Tensor:
        """The first of the tokens: `[images, channels]`."""
        images, length, channels = x.dims
        made = Tensor(self._add("Slice", "token", [x.name, [0, 0, 0], [images, 1, channels]]), (images, 1, channels), x.dtype)
        paddings = [[0, 0], [0, length - 1], [0, 0]]
        made = self._record(made, lambda dy: self._give(x, lambda: self._add("Pad", "token_gradient", [dy, paddings])))
        return self.reshaped(made, (images, channels))

    def transposed(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        """The axes in another order."""
        made = self._add("Transpose", "transposed", [x.name, list(axes)])
        back = [axes.index(axis) for axis in range(len(axes))]
        dims = tuple(x.dims[axis] for axis in axes)
        gradient = lambda dy: self._give(x, lambda: self._add("Transpose", "transposed_back", [dy, back]))  # noqa: E731
        return self._record(Tensor(made, dims, x.dtype), gradient)

    def batch_product(self, x: Tensor, y: Tensor, *, transposes: bool = False) -> Tensor:
        """Products of the last two axes; `transposes`: those of `y` change places first."""
        made = self._add("BatchMatMulV2", "batch_product", [x.name, y.name], {"adj_y": transposes})
        self.multiply_adds += prod(x.dims) * y.dims[-2 if transposes else -1]

        def backward(dy: str) -> None:
            other = {"adj_y": not transposes}
            self._give(x, lambda: self._add("BatchMatMulV2", "left_gradient", [dy, y.name], other))
            pair = [dy, x.name] if transposes else [x.name, dy]
            self._give(y, lambda: self._add("BatchMatMulV2", "right_gradient", pair, {"adj_x": True}))

        return self._record(Tensor(made, (*x.dims[:-1], y.dims[-2 if transposes else -1]), x.dtype), backward)

    def softmax(self, x: Tensor) -> Tensor:
        """Of the last axis, with results of the type of parameters, cast for the product that reads them.

        PyTorch's kernel converts from half to float32 itself; a cast moves as many bytes.  It has no such kernel for bfloat16,
        whose numbers are cast before and whose gradients after (`softmax` in PyTorch's `SoftMax.cpp`).  The gradient has two
        kernels: PyTorch multiplies gradients and results first (`softmax_backward_cuda_out` in its `SoftMax.cu`).
        """
        used, kept = x.dtype, self.numerics.parameters
        if (used, kept) == ("half", "float32"):
            made = Tensor(self._add("Cast", "softmax", [x.name], {"DstT": kept}), x.dims, kept)

            def gradient(dy: str) -> str:
                products = self._add("Mul", "softmax_products", [dy, made.name])
                return self._add(
                    "Mul", "softmax_gradient", [self._add("Cast", "cast_gradient", [products], {"DstT": used}), x.name]
                )

            return self.cast(self._record(made, lambda dy: self._give(x, lambda: gradient(dy))), used)
        x = self.cast(x, kept)
        made = Tensor(self._add("Softmax", "softmax", [x.name]), x.dims, kept)

        def backward(dy: str) -> None:
            products = self._add("Mul", "softmax_products", [dy, made.name])
            self._give(x, lambda: self._add("Mul", "softmax_gradient", [products, made.name]))

        return self.cast(self._record(made, backward), used)

    def layer_normalization(self, x: Tensor) -> Tensor:
        """Of the last axis, computed in the type of parameters."""
        used = x.dtype
        x = self.cast(x, self.numerics.parameters)
        rows = (prod(x.dims[:-1]), x.dims[-1])
        updates = [self._weights(x.dims[-1:], stem, x.dtype)[1] for stem in ("layer_scale", "layer_offset")]
        made = Tensor(self._add("Softmax", "layer_normalized", [x.name]), x.dims, x.dtype)

        def backward(dy: str) -> None:
            self._give(x, lambda: self._add("Mul", "layer_normalization_gradient", [dy, made.name]))
            flat = self._add("Reshape", "layer_gradients", [dy, list(rows)])
            for update in updates:
                update(self._add("BiasAddGrad", "layer_scale_gradient", [flat]))

        return self.cast(self._record(made, backward), used)

    def scaled_rows(self, x: Tensor) -> Tensor:
        """T5's normalization, each op by itself: rows divided by the root of their mean square, times a scale."""
        used = x.dtype
        x = self.cast(x, self.numerics.parameters)
        square = self._add("Square", "square", [x.name])
        mean = self._add("Mean", "mean_square", [square, [-1]], {"keep_dims": True})
        root = self._add("Rsqrt", "inverse_root", [mean])
        normal = self._add("Mul", "normal", [x.name, root])
        scale, scale_update = self._weights(x.dims[-1:], "row_scale", x.dtype)
        made = Tensor(self._add("Mul", "scaled_row", [normal, scale]), x.dims, x.dtype)

        def backward(dy: str) -> None:
            parts = self._add("Mul", "row_scale_parts", [dy, normal])
            flat = self._add("Reshape", "row_scale_rows", [parts, [prod(x.dims[:-1]), x.dims[-1]]])
            scale_update(self._add("BiasAddGrad", "row_scale_gradient", [flat]))
            before = self._add("Mul", "normal_gradient", [dy, scale])
            self._give(x, lambda: self._add("Mul", "row_gradient", [before, root]))
            of_root = self._add("Mul", "root_parts", [before, x.name])
            of_mean = self._add("Sum", "root_gradient", [of_root, [-1]], {"keep_dims": True})
            twice = self._add("Mul", "twice", [x.name, self._scalar(x.dtype)])
            self._give(x, lambda: self._add("Mul", "square_gradient", [twice, of_mean]))

        return self.cast(self._record(made, backward), used)

    def parameter(self, dims: tuple[int, ...]) -> Tensor:
        """Numbers that are learnt, in the type that they are kept in."""
        made, update = self._weights(dims, "parameter", self.numerics.parameters)
        return self._record(Tensor(made, dims, self.numerics.parameters), update)

    def spread_sum(self, x: Tensor, same: Tensor) -> Tensor:
        """The sum of `x` and what is the same along its first axis, in the type of the latter."""
        x = self.cast(x, same.dtype)
        made = Tensor(self._add("AddV2", "spread_sum", [x.name, same.name]), x.dims, x.dtype)

        def backward(dy: str) -> None:
            self._give(x, lambda: dy)
            self._give(same, lambda: self._add("Sum", "spread_gradient", [dy, [0]], {"keep_dims": True}))

        return self._record(made, backward)

    def masked(self, x: Tensor) -> Tensor:
        """The sum with a mask `[length, length]` of the last two axes: of a copy, as for the gradient."""
        mask = self._constant("mask", x.dims[-2:], x.dtype)

        def masked(name: str) -> str:
            return self._add("AddV2", "masked", [self._add("Neg", "copy", [name]), mask])

        made = Tensor(masked(x.name), x.dims, x.dtype)
        return self._record(made, lambda dy: self._give(x, lambda: masked(dy)))

    def times_number(self, x: Tensor) -> Tensor:
        """The product with a number."""
        made = Tensor(self._add("Mul", "times", [x.name, self._scalar(x.dtype)]), x.dims, x.dtype)
        back = lambda dy: self._give(x, lambda: self._add("Mul", "times_gradient", [dy, self._scalar(x.dtype)]))  # noqa: E731
        return self._record(made, back)

    # --- the whole

    def finish(self, logits: Tensor, *, has_update: bool = True) -> dict[str, Any]:
        """The graph file: a step that gives the logits, or in training one of loss, gradients and, with those, updates."""
        if not self.is_training:
            return self._file([logits.name])
        single = self.cast(logits, "float32")
        loss = self._add("LogSoftmax", "loss", [single.name])
        zeros = self._add("Fill", "loss_zeros", [list(single.dims), self._scalar("float32")])
        self._gradients[single.name] = [self._add("Mul", "loss_gradient", [zeros, loss])]
        for backward in reversed(self._backward):
            backward()
        ends = self._updates
        if not has_update:
            ends = self._weight_gradients
            updates = set(self._updates)
            self._nodes = [node for node in self._nodes if node["name"] not in updates]
        return self._file([*ends, loss])

    def _file(self, ends: Sequence[str]) -> dict[str, Any]:
        nodes = [*self._nodes, _target("init", self._variables), _target("step", ends)]
        return {"nodes": nodes, "run": [{"fetch": ["init"]}, {"fetch": ["step"]}]}


_IMAGE_RANK = 4


def _target(name: str, nodes: Sequence[str]) -> dict[str, Any]:
    return {"op": "NoOp", "name": name, "control_inputs": [node.partition(":")[0] for node in nodes]}


def _extent(extent: int, size: int, stride: int, padding: Padding, axis: int) -> int:
    if padding == "SAME":
        return -(-extent // stride)
    pixels = 0 if isinstance(padding, str) else padding if isinstance(padding, int) else padding[axis]
    return (extent + 2 * pixels - size) // stride + 1
