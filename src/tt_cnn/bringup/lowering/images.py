"""Rules for layers of images: convolutions, pools, upsampling, norms of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from tt_cnn.bringup.forms import IMAGE, Form, image_form
from tt_cnn.bringup.lowering.lowering import Lowering, Unsupported, lowers
from tt_cnn.bringup.lowering.program import Code, Ref, Value
from tt_cnn.bringup.torch_graph import Parameter, TorchNode


@lowers("conv2d")
def conv2d(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["input"]
    x = low.value(source)
    *_, height, width = source.shape
    if height == width == 1 and _is_pointwise(node):
        return _as_linear(low, node, x)
    settings = {"input_size": (height, width)}
    extra = node.fused.get("extra_padding")
    conv = low.module(node, nn.Conv2d)
    if extra is not None:
        settings["padding"] = _padded(low, node, extra)
    return low.emit(
        node,
        "conv2d",
        [low.image(node, x)],
        _image(node),
        (conv or _functional_conv(node), *_norm(node)),
        _activation(node),
        settings,
        frees="deallocate_activation",
    )


@lowers("conv_transpose2d")
def conv_transpose2d(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments["input"]
    conv = low.module(node, nn.ConvTranspose2d)
    if conv is None:
        raise Unsupported("F.conv_transpose2d outside of nn.ConvTranspose2d")
    return low.emit(
        node,
        "conv_transpose2d",
        [low.image(node, low.value(source))],
        _image(node),
        (conv, *_norm(node)),
        _activation(node),
        {"input_size": tuple(source.shape[-2:])},
        frees="deallocate_activation",
    )


def _is_pointwise(node: TorchNode) -> bool:
    """A convolution of one pixel, as squeeze-and-excite has it, is a matmul."""
    weight = node.arguments["weight"]
    return weight.shape[-2:] == (1, 1) and node.arguments["groups"] == 1 and "norm" not in node.fused


def _as_linear(low: Lowering, node: TorchNode, x: Value) -> Value:
    conv = low.module(node, nn.Conv2d)
    if conv is None:
        raise Unsupported("F.conv2d of one pixel outside of nn.Conv2d")
    low.note(node, "decomposed", "a 1x1 convolution of one pixel is a linear layer")
    form = image_form(node.shape)  # type: ignore[arg-type]
    batch, channels = node.shape[0], node.shape[1]
    rows = low.rows(node, x, IMAGE)
    made = Value(form, (1, 1, batch, channels))  # type: ignore[arg-type]
    return low.emit(node, "linear", [rows], made, (conv,), _activation(node))


def _functional_conv(node: TorchNode) -> Code:
    weight, bias = node.arguments["weight"], node.arguments["bias"]
    if not isinstance(weight, Parameter) or not isinstance(bias, (Parameter, type(None))):
        raise Unsupported("a convolution whose weight is computed")
    raise Unsupported("F.conv2d with a weight that is no nn.Conv2d's")


def _padded(low: Lowering, node: TorchNode, extra: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """The convolution's own padding and zeros that were put around the image before."""
    own = node.arguments["padding"]
    if not isinstance(own, (list, tuple)):
        raise Unsupported(f"padding {own!r} after a pad")
    height, width = own
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
    kind = nn.MaxPool2d if node.op == "max_pool2d" else nn.AvgPool2d
    return low.emit(
        node,
        node.op,
        [low.image(node, low.value(source))],
        _image(node, tiles=False),
        (low.module(node, kind) or Code(_window(node, kind.__name__)),),
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
        raise Unsupported(f"an adaptive pool of {height}x{width} to {out_height}x{out_width}: windows of several sizes")
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
    made = Value(form, (batch, 1, 1, channels), tiles=True, node=node)  # type: ignore[arg-type]
    return low.emit(
        node,
        "global_avg_pool2d",
        [low.image(node, low.value(source))],
        made,
        settings={"input_size": (height, width), "channels": channels},
    )


@lowers("upsample_nearest2d", "upsample_bilinear2d")
def upsample(low: Lowering, node: TorchNode) -> Value:
    source = node.arguments.get("input", node.arguments.get("self"))
    _, channels, height, width = source.shape
    *_, out_height, out_width = node.shape
    if node.arguments.get("align_corners"):
        raise Unsupported("align_corners=True, of which TT-NN has no form")
    if out_height % height or out_width % width:  # type: ignore[operator]
        raise Unsupported(f"{height}x{width} to {out_height}x{out_width}, which is no whole factor")
    scale = (out_height // height, out_width // width)  # type: ignore[operator]
    mode = "nearest" if node.op == "upsample_nearest2d" else "bilinear"
    if scale == (1, 1):
        return low.value(source)
    if not _same_factor(node.arguments.get("scale_factors"), scale):
        raise Unsupported("a scale factor that is not the quotient of the sizes")
    keyword = "" if mode == "nearest" else ', mode="bilinear"'
    module = Code(f"nn.Upsample(scale_factor={_short(scale)}{keyword})")
    return low.emit(
        node,
        "upsample",
        [low.image(node, low.value(source))],
        _image(node),
        (low.module(node, nn.Upsample) or module,),
        settings={"input_size": (height, width), "channels": channels, "output_layout": Code("ttnn.TILE_LAYOUT")},
        frees="deallocate_input",
    )


def _same_factor(factors: Sequence[float] | None, scale: tuple[int, int]) -> bool:
    return factors is None or tuple(factors) == scale


@lowers("batch_norm")
def batch_norm(low: Lowering, node: TorchNode) -> Value:
    norm = low.module(node, nn.BatchNorm2d)
    if norm is None or node.arguments.get("training"):
        raise Unsupported("F.batch_norm outside of nn.BatchNorm2d")
    x = low.image(node, low.value(node.arguments["input"]))
    return low.emit(node, "batch_norm2d", [x], _image(node), (norm,), _activation(node), frees="deallocate_input")


@lowers("group_norm")
def group_norm(low: Lowering, node: TorchNode) -> Value:
    norm = low.module(node, nn.GroupNorm)
    if norm is None or len(node.shape) != 4:
        raise Unsupported("F.group_norm outside of nn.GroupNorm, or of what is no image")
    x = low.image(node, low.value(node.arguments["input"]))
    return low.emit(node, "group_norm", [x], _image(node), (norm,), settings={"input_size": tuple(node.shape[-2:])})


@lowers("prelu")
def prelu(low: Lowering, node: TorchNode) -> Value:
    module = low.module(node, nn.PReLU)
    if module is None or len(node.shape) != 4:
        raise Unsupported("F.prelu outside of nn.PReLU, or of what is no image")
    x = low.image(node, low.value(node.arguments["self"]))
    return low.emit(node, "prelu", [x], _image(node), (module,), frees="deallocate_input")
