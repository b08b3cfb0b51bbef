"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor_likes import Padding, PerDimension, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.nn.convolutions import channels_of, explicit_padding, is_channels_first, sequence_of
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _pooled(
    op: str, count: int, value: TensorLike, ksize: Any, strides: Any, padding: object, data_format: str, name: str
) -> Any:
    """Make a pool over `count` dimensions; only MaxPool has a padding that may be a list."""
    channels = channels_of(data_format, count + 1)
    attrs: dict[str, Any] = {"ksize": sequence_of(ksize, count, channels, "ksize")}
    attrs["strides"] = sequence_of(strides, count, channels, "strides")
    if op == "MaxPool":
        padding, attrs["explicit_paddings"] = explicit_padding(padding)
    return gen(op)(value, **attrs, padding=padding, data_format=data_format, name=name)


_max_pool, _avg_pool = partial(_pooled, "MaxPool", 2), partial(_pooled, "AvgPool", 2)


def max_pool(
    value: TensorLike,
    ksize: PerDimension,
    strides: PerDimension,
    padding: Padding,
    data_format: str = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
) -> Any:
    """Maximum of each window."""
    value = renamed("input", input, "value", value)
    with name_scope(name, "MaxPool", [value]) as scope:
        return _max_pool(value, ksize, strides, padding, data_format or "NHWC", scope)


def avg_pool(
    value: TensorLike | None = None,
    ksize: PerDimension | None = None,
    strides: PerDimension | None = None,
    padding: Padding | None = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
) -> Any:
    """Mean of each window."""
    value = renamed("input", input, "value", value)
    with name_scope(name, "AvgPool", [value]) as scope:
        return _avg_pool(value, ksize, strides, padding, data_format or "NHWC", scope)


def max_pool2d(
    input: TensorLike,
    ksize: PerDimension,
    strides: PerDimension,
    padding: Padding,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Any:
    """Maximum of each window of an image."""
    with name_scope(name, "MaxPool2d", [input]) as scope:
        return _max_pool(input, ksize, strides, padding, data_format or "NHWC", scope)


def _one_dimension(word: str, pool: Callable[..., Any]) -> Any:
    def pool1d(
        input: TensorLike,
        ksize: PerDimension,
        strides: PerDimension,
        padding: Padding,
        data_format: str | None = "NWC",
        name: str | None = None,
    ) -> Any:
        with name_scope(name, word, [input]) as scope:
            data_format = data_format or "NWC"
            channels = channels_of(data_format, 2)
            ksize = [1, *sequence_of(ksize, 1, channels, "ksize")]
            strides = [1, *sequence_of(strides, 1, channels, "strides")]
            axis = 1 if data_format == "NWC" else 2
            layout = "NHWC" if data_format == "NWC" else "NCHW"
            wide = tf.expand_dims(input, axis)
            return tf.squeeze(pool(wide, ksize, strides, padding, layout, scope), axis)

    return pool1d


max_pool1d = _one_dimension("MaxPool1d", _max_pool)
avg_pool1d = _one_dimension("AvgPool1D", _avg_pool)


def _three_dimensions(op: str) -> Any:
    def pool3d(
        input: TensorLike,
        ksize: PerDimension,
        strides: PerDimension,
        padding: object,
        data_format: str | None = "NDHWC",
        name: str | None = None,
    ) -> Any:
        with name_scope(name, op, [input]) as scope:
            return _pooled(op, 3, input, ksize, strides, padding, data_format or "NDHWC", scope)

    return pool3d


max_pool3d = _three_dimensions("MaxPool3D")
avg_pool3d = _three_dimensions("AvgPool3D")


def _any_dimensions(one: Callable[..., Any], two: Callable[..., Any], three: Callable[..., Any]) -> Any:
    def pool(
        input: Any,
        ksize: PerDimension,
        strides: PerDimension,
        padding: Padding,
        data_format: Any = None,
        name: str | None = None,
    ) -> Any:
        input = convert_to_tensor(input, name="input")
        rank = len(input.shape) if data_format is None or input.shape.rank is None else len(data_format)
        count = rank - 2
        if count not in (1, 2, 3):
            raise ValueError(
                f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={input.shape} of rank {input.shape.rank}."
            )
        make, default = {1: (one, "NWC"), 2: (two, "NHWC"), 3: (three, "NDHWC")}[count]
        return make(input, ksize, strides, padding, data_format or default, name)

    return pool


max_pool_v2 = _any_dimensions(max_pool1d, max_pool2d, max_pool3d)
avg_pool_v2 = _any_dimensions(avg_pool1d, avg_pool, avg_pool3d)


def max_pool_with_argmax(
    input: TensorLike,
    ksize: object,
    strides: object,
    padding: object,
    data_format: str = "NHWC",
    Targmax: object = None,
    name: str | None = None,
    output_dtype: object = None,
    include_batch_in_index: bool = False,
) -> Any:
    """Maximum of each window, and its position."""
    if data_format != "NHWC":
        raise ValueError(f"`data_format` values other  than 'NHWC' are not supported. Received: data_format={data_format}")
    dtype = renamed("output_dtype", output_dtype, "Targmax", Targmax)
    return gen("MaxPoolWithArgmax")(
        input,
        ksize=ksize,
        strides=strides,
        padding=padding,
        Targmax="int64" if dtype is None else dtype,
        include_batch_in_index=include_batch_in_index,
        name=name,
    )


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: Any,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: object = None,
) -> Any:
    """Pooling of one, two or three dimensions."""
    from placesim.tf1.nn.dilated import steps_and_rates, with_space_to_batch

    dilation_rate = renamed("dilations", dilations, "dilation_rate", dilation_rate)
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        input = convert_to_tensor(input, name="input")
        count = len(window_shape)
        if not 1 <= count <= 3:
            received = f"Received: window_shape={window_shape} of length {count}"
            raise ValueError(f"`len(window_shape)` must be 1, 2, or 3. {received}")
        input.shape.with_rank(count + 2)
        steps, rates = steps_and_rates(count, strides, dilation_rate)
        if padding == "SAME" and (rates > 1).any():
            refused = "pooling with 'SAME' padding is not implemented for `dilation_rate` > 1"
            raise ValueError(f"{refused}. Received: padding={padding} and dilation_rate={rates}")
        if (steps > window_shape).any():
            refused = "`strides` > `window_shape` not supported due to inconsistency between CPU and GPU implementations"
            raise ValueError(f"{refused}. Received: strides={steps} and window_shape={window_shape}")
        if (pooling_type, count) not in _POOLINGS:
            raise ValueError(f"{count}-D {pooling_type} pooling is not supported.")
        layout = data_format or {1: "NWC", 2: "NHWC", 3: "NDHWC"}[count]
        if count == 1 and layout not in ("NWC", "NCW"):
            raise ValueError(f"data_format must be either 'NWC' or 'NCW'. Received: data_format={data_format}")
        first = is_channels_first(layout)

        def apply(given: object, _: int, mode: object) -> Any:
            return _POOLINGS[pooling_type, count](given, list(window_shape), steps.tolist(), mode, layout, scope)

        dims = list(range(2, 2 + count)) if first else list(range(1, 1 + count))
        return with_space_to_batch(input, rates, padding, apply, window_shape, dims)


_POOLINGS: dict[tuple[str, int], Any] = {
    ("MAX", 1): max_pool1d,
    ("MAX", 2): _max_pool,
    ("MAX", 3): max_pool3d,
    ("AVG", 1): avg_pool1d,
    ("AVG", 2): _avg_pool,
    ("AVG", 3): avg_pool3d,
}


def _fractional(op: str) -> Any:
    def apply(
        value: TensorLike,
        pooling_ratio: object,
        pseudo_random: bool = False,
        overlapping: bool = False,
        deterministic: bool = False,
        seed: int = 0,
        seed2: int = 0,
        name: str | None = None,
    ) -> Any:
        return gen(op)(value, pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2, name=name)

    return apply


fractional_max_pool = _fractional("FractionalMaxPool")
fractional_avg_pool = _fractional("FractionalAvgPool")
