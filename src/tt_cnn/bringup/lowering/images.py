# SPDX-License-Identifier: Apache-2.0
"""Rules for layers of images: convolutions, pools, upsampling, norms of channels."""

from __future__ import annotations

from typing import Any

from tt_cnn.bringup.forms import IMAGE, Form, image_form, order_of
from tt_cnn.bringup.lowering.lowering import TILE, Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.matrices import product
from tt_cnn.bringup.lowering.pointwise import is_value_by_value
from tt_cnn.bringup.lowering.program import Code, Made, Ref, Value
from tt_cnn.bringup.torch_graph import TorchNode

MOST_SHARES = 16 * 1024 * 1024
"""Values of a matrix that has each pixel's share of each window."""


@lowers("conv2d")
def conv2d(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["input"]
    x = low.value(source)
    *_, height, width = source.shape
    if height == width == 1 and _is_pointwise(node):
        return _as_linear(low, node, x)
    order = order_of(x.form)
    if order is not None and order[-1] == 1 and order != IMAGE and _is_pointwise(node) and _steps_by_one(node):
        low.note(node, "decomposed", "a 1x1 convolution of what is no image in memory is a linear layer")
        return product(low, node, x, order, low.own(node) or _functional(low, node), node.shape[1])  # type: ignore[arg-type]
    settings: dict[str, Any] = {"input_size": (height, width)}
    extra = node.fused.get("extra_padding")
    if extra is not None:
        settings["padding"] = _padded(node, extra)
    return low.emit(
        node,
        "conv2d",
        [low.image(node, x)],
        _image(node),
        (low.own(node) or _functional(low, node), *_norm(node)),
        _activation(node) | ({"outputs": node.fused["outputs"]} if "outputs" in node.fused else {}),
        settings,
        frees="deallocate_activation",
    )


@lowers("conv_transpose2d")
def conv_transpose2d(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["input"]
    return low.emit(
        node,
        "conv_transpose2d",
        [low.image(node, low.value(source))],
        _image(node),
        (low.own(node) or _functional(low, node), *_norm(node)),
        _activation(node),
        {"input_size": tuple(source.shape[-2:])},
        frees="deallocate_activation",
    )


def _is_pointwise(node: TorchNode) -> bool:
    """A convolution of one pixel, as squeeze-and-excite has it, is a matmul."""
    weight = node.arguments["weight"]
    alone = not set(node.fused) & {"norm", "extra_padding"} and set(node.arguments["padding"]) == {0}
    return bool(weight.shape[-2:] == (1, 1) and node.arguments["groups"] == 1 and alone)


def _steps_by_one(node: TorchNode) -> bool:
    return set(node.arguments["stride"]) == {1} and "outputs" not in node.fused


def _as_linear(low: Lowering, node: TorchNode, x: Value) -> Value:
    low.note(node, "decomposed", "a 1x1 convolution of one pixel is a linear layer")
    form = image_form(node.shape)  # type: ignore[arg-type]
    batch, channels = node.shape[0], node.shape[1]
    rows = low.rows(node, x, IMAGE)
    made = Value(form, (1, 1, batch, channels))  # type: ignore[arg-type]
    return low.emit(node, "linear", [rows], made, (low.own(node) or _functional(low, node),), _activation(node))


def _functional(low: Lowering, node: TorchNode) -> Made:
    """`F.conv2d` of tensors that are no module's own."""
    own = node.arguments
    plain: dict[str, Any] = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1}
    window = {name: _least(own[name]) for name in plain if name in own}
    said = {name: value for name, value in window.items() if value != plain[name]}
    function = "conv_of" if node.op == "conv2d" else "conv_transpose_of"
    return low.made(function, (own["weight"], own["bias"]), **said)


def _least(value: Any) -> Any:
    """2 for [2, 2]."""
    if not isinstance(value, (list, tuple)):
        return value
    return value[0] if len(set(value)) == 1 else tuple(value)


def _padded(node: TorchNode, extra: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """The convolution's own padding and zeros that were put around the image before."""
    height, width = node.arguments["padding"]
    top, bottom, left, right = extra
    return top + height, bottom + height, left + width, right + width


def _norm(node: TorchNode) -> tuple[Any, ...]:
    return (Ref(node.fused["norm"]),) if "norm" in node.fused else ()


def _activation(node: TorchNode) -> dict[str, Any]:
    return {"activation": Code(node.fused["activation"])} if "activation" in node.fused else {}


def _image(node: TorchNode, tiles: bool = True) -> Value:
    batch, channels, height, width = node.shape
    return Value(image_form(node.shape), (1, 1, batch * height * width, channels), tiles, node=node)  # type: ignore[arg-type, operator]


@lowers("max_pool2d", "avg_pool2d")
def pool(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["self"]
    if node.arguments.get("divisor_override") is not None:
        raise Unsupported("an average pool with a divisor of its own")
    kind = "MaxPool2d" if node.op == "max_pool2d" else "AvgPool2d"
    return low.emit(
        node,
        node.op,
        [low.image(node, low.value(source))],
        _image(node, tiles=False),
        (low.own(node) or Code(_window(node, kind)),),
        settings={"input_size": tuple(source.shape[-2:]), "channels": source.shape[1]},
        frees="deallocate_input",
    )


def _window(node: TorchNode, kind: str) -> str:
    """`F.max_pool2d(x, 2)` as the module that does it."""
    own = node.arguments
    kernel = _short(own["kernel_size"])
    stride = _short(own["stride"]) if own.get("stride") else kernel
    padding = _short(own["padding"])
    parts = [
        kernel,
        *([f"stride={stride}"] if stride != kernel else []),
        *([f"padding={padding}"] if padding != "0" else []),
    ]
    if own.get("dilation", [1, 1]) not in ([1, 1], [1]):
        parts.append(f"dilation={_short(own['dilation'])}")
    if own.get("ceil_mode"):
        parts.append("ceil_mode=True")
    if own.get("count_include_pad") is False:
        parts.append("count_include_pad=False")
    return f"nn.{kind}({', '.join(parts)})"


def _short(values: Any) -> str:
    """2 for [2, 2]."""
    sizes = [values] if isinstance(values, int) else list(values)
    return str(sizes[0]) if len(set(sizes)) == 1 else str(tuple(sizes))


@lowers("adaptive_avg_pool2d")
def adaptive_avg_pool2d(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["self"]
    height, width = source.shape[-2:]
    out_height, out_width = node.arguments["output_size"]
    if (out_height, out_width) == (1, 1):
        return global_average(low, node, source)
    if height == out_height and width == out_width:
        return low.value(source)
    if height % out_height or width % out_width:
        if height * width * out_height * out_width * node.shape[0] ** 2 > MOST_SHARES:  # type: ignore[operator]
            raise Unsupported(f"{height}x{width} to {out_height}x{out_width}: many windows of several sizes")
        return low.emit(
            node,
            "adaptive_avg_pool2d",
            [low.image(node, low.value(source))],
            _image(node),
            (Code(f"nn.AdaptiveAvgPool2d({_short((out_height, out_width))})"),),
            settings={"input_size": (height, width), "channels": source.shape[1]},
            frees="deallocate_input",
        )
    low.note(node, "decomposed", "an adaptive pool whose windows are all of one size is an average pool")
    kernel = (height // out_height, width // out_width)
    return low.emit(
        node,
        "avg_pool2d",
        [low.image(node, low.value(source))],
        _image(node, tiles=False),
        (Code(f"nn.AvgPool2d({_short(kernel)})"),),
        settings={"input_size": (height, width), "channels": source.shape[1]},
        frees="deallocate_input",
    )


@lowers("adaptive_max_pool2d")
def adaptive_max_pool2d(low: Lowering, node: TorchNode) -> list[Any]:
    source = node.arguments["self"]
    height, width = source.shape[-2:]
    out_height, out_width = node.arguments["output_size"]
    if height % out_height or width % out_width:
        raise Unsupported(f"an adaptive pool of {height}x{width} to {out_height}x{out_width}: windows of several sizes")
    low.note(node, "decomposed", "an adaptive pool whose windows are all of one size is a max pool")
    kernel = _short((height // out_height, width // out_width))
    batch, channels, high, wide = node.shape[0]  # type: ignore[misc]
    made = Value(image_form(node.shape[0]), (1, 1, batch * high * wide, channels), tiles=False)  # type: ignore[arg-type]
    low.emit(
        node,
        "max_pool2d",
        [low.image(node, low.value(source))],
        made,
        (Code(f"nn.MaxPool2d({kernel})"),),
        settings={"input_size": (height, width), "channels": source.shape[1]},
        frees="deallocate_input",
    )
    return [made, None]


def global_average(low: Lowering, node: TorchNode, source: TorchNode) -> Value:
    """(N, C, H, W) to a row of channels for each image, whatever torch's shape of the result is."""
    batch, channels, height, width = source.shape
    form = Form.in_order(node.shape)  # type: ignore[arg-type]
    made = Value(form, (1, 1, batch, channels), tiles=True, node=node)  # type: ignore[arg-type]
    return low.emit(
        node,
        "global_avg_pool2d",
        [low.image(node, low.value(source))],
        made,
        settings={"input_size": (height, width), "channels": channels, "as_mean": True, "as_rows": True},
    )


MODES = {
    "upsample_nearest2d": "nearest",
    "_upsample_nearest_exact2d": "nearest-exact",
    "upsample_bilinear2d": "bilinear",
}


@lowers(*MODES)
def upsample(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["input" if "input" in node.arguments else "self"]
    _, channels, height, width = source.shape
    out_height, out_width = node.shape[-2:]
    factors = node.arguments.get("scale_factors")
    scale = (out_height // height, out_width // width)
    mode, corners = MODES[node.op], bool(node.arguments.get("align_corners"))
    if scale == (1, 1) and (out_height, out_width) == (height, width) and (not factors or set(factors) == {1}):
        return low.value(source)
    whole = (out_height, out_width) == (scale[0] * height, scale[1] * width) and tuple(factors or scale) == scale
    simple = whole and (not corners or height == width == 1)
    size = f"scale_factor={_short(factors)}" if factors else f"size={_short((out_height, out_width))}"
    if simple:
        mode = "bilinear" if mode == "bilinear" else "nearest"  # whole factors are nearest to the same pixels
        size = f"scale_factor={_short(scale)}"
    said = [
        size,
        *([f'mode="{mode}"'] if mode != "nearest" else []),
        *(["align_corners=True"] if corners and not simple else []),
    ]
    settings: dict[str, Any] = {"input_size": (height, width), "channels": channels}
    method, made = "upsample" if simple else "resize", _image(node)
    if channels < TILE and (height, width) != (1, 1) and _leaves(low, node):
        method, made = "plane_resize", Value(Form.in_order(node.shape), node.shape, node=node)  # type: ignore[arg-type]
    elif simple:
        settings["output_layout"] = Code("ttnn.TILE_LAYOUT")
    return low.emit(
        node,
        method,
        [low.image(node, low.value(source))],
        made,
        (Code(f"nn.Upsample({', '.join(said)})"),),
        settings=settings,
        frees="deallocate_input",
    )


def _leaves(low: Lowering, node: TorchNode) -> bool:
    """Whether the values go out of the model, maybe by way of ops on each of them: no layer of images reads them."""
    users = low.users[node]
    if not users:
        return node in low.graph.outputs
    return all(is_value_by_value(user) and _leaves(low, user) for user in users)


@lowers("batch_norm")
def batch_norm(low: Lowering, node: TorchNode) -> Value:
    own = node.arguments
    if own.get("training"):
        raise Unsupported("a batch norm that takes the statistics of its input")
    statistics = (own["running_mean"], own["running_var"], own["weight"], own["bias"])
    module = low.own(node) or low.made("batch_norm_of", statistics, eps=own["eps"])
    return _of_channels(low, node, "batch_norm2d", own["input"], module)


@lowers("group_norm")
def group_norm(low: Lowering, node: TorchNode) -> Value:
    own = node.arguments
    if len(node.shape) != 4:
        raise Unsupported("a group norm of what is no image")
    weights, sizes = (own["weight"], own["bias"]), (own["num_groups"], node.shape[1])
    module = low.own(node) or low.made("group_norm_of", weights, *sizes, eps=own["eps"])
    return _of_channels(low, node, "group_norm", own["input"], module)


@lowers("instance_norm")
def instance_norm(low: Lowering, node: TorchNode) -> Value:
    own = node.arguments
    if len(node.shape) != 4 or not own.get("use_input_stats"):
        raise Unsupported("an instance norm with running statistics, or of what is no image")
    low.note(node, "decomposed", "an instance norm is a group norm of one channel a group")
    weights, channels = (own["weight"], own["bias"]), node.shape[1]
    module = low.made("group_norm_of", weights, channels, channels, eps=own["eps"])
    return _of_channels(low, node, "group_norm", own["input"], module)


@lowers("prelu")
def prelu(low: Lowering, node: TorchNode) -> Value:
    own = node.arguments
    module = low.own(node) or low.made("prelu_of", (own["weight"],))
    return _of_channels(low, node, "prelu", own["self"], module)


def _of_channels(low: Lowering, node: TorchNode, method: str, source: TorchNode, module: Any) -> Value:
    """A layer of (..., channels): torch has the channels second."""
    rank = len(node.shape)
    if rank < 2:
        raise Unsupported("a layer of channels of one dimension")
    rows = low.rows(node, low.value(source), (0, *range(2, rank), 1))
    made = Value(rows.form, rows.shape, node=node)
    return low.emit(node, method, [rows], made, (module,), _activation(node), frees="deallocate_input")


@lowers("squeeze_excite")
def squeeze_excite(low: Lowering, node: TorchNode) -> Value:
    x = low.image(node, low.value(node.arguments["self"]))
    parts = [Ref(path) for path in node.fused["parts"]]
    activations = [Code(code or "None") for code in node.fused["activations"]]
    return low.emit(
        node,
        "squeeze_excite",
        [x],
        _image(node),
        (*parts, *activations),
        name="squeeze_excite",
        frees="deallocate_input",
    )
