# SPDX-License-Identifier: Apache-2.0
"""Statements of networks: convolutions, pools, products, reductions, norms."""

from __future__ import annotations

import math

import torch

from tests.differential.drawing import ACTIVATIONS, Drawing, Info


def _square(draw: Drawing) -> tuple[str, tuple[int, int, int, int]]:
    """An image; one is made where there is none."""
    x = draw.pick(lambda n: draw.infos[n].image is not None and draw.is_float(n))
    if x is None:
        n, h, w, c = 1, draw.random.randint(3, 12), draw.random.randint(3, 12), draw.random.choice((8, 16, 32))
        x = draw.source("input", shape=(1, 1, n * h * w, c), image=(n, h, w, c), dtype="bfloat16")
    image = draw.infos[x].image
    assert image is not None
    return x, image


def _weights(draw: Drawing, shape: tuple[int, ...], bias: int) -> str:
    """Host weights under a name that the body refills with prepared ones."""
    name = f"w{draw._next()}"
    row = (
        f"ttnn.from_torch(torch.randn(1, 1, 1, {bias}), dtype=ttnn.bfloat16)" if draw.random.random() < 0.7 else "None"
    )
    fan = max(1, math.prod(shape[1:])) ** 0.5
    seed = draw.seed * 100 + 50 + draw._count
    line = (
        f"torch.manual_seed({seed}); {name} = "
        f"[ttnn.from_torch(torch.randn({shape}) / {fan:.3f}, dtype=ttnn.bfloat16), {row}]"
    )
    draw.names["torch"] = torch
    exec(line, draw.names)
    draw.setup.append(line)
    return name


def convolution(draw: Drawing) -> None:
    x, (n, h, w, c) = _square(draw)
    pick = draw.random.choice
    kernel = pick(((3, 3), (3, 3), (1, 1), (5, 5), (1, 3), (2, 2)))
    stride = pick(((1, 1), (1, 1), (2, 2)))
    padding = pick(((kernel[0] // 2, kernel[1] // 2), (0, 0)))
    dilation = pick(((1, 1), (1, 1), (1, 1), (2, 2)))
    out, groups = pick((8, 16, 32, 48)), 1
    if draw.random.random() < 0.15:
        out, groups = c, c
    oh, ow = (
        (side + 2 * p - d * (k - 1) - 1) // s + 1
        for side, p, d, k, s in zip((h, w), padding, dilation, kernel, stride, strict=True)
    )
    if oh < 1 or ow < 1:
        return
    names = _weights(draw, (out, c // groups, *kernel), out)
    config = ""
    options = []
    if draw.random.random() < 0.5:
        options.append(f"activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.{pick(ACTIVATIONS)})")
    if draw.random.random() < 0.5:
        options.append(f"shard_layout=ttnn.TensorMemoryLayout.{pick(('HEIGHT', 'BLOCK', 'WIDTH'))}_SHARDED")
    if draw.random.random() < 0.2:
        options.append("output_layout=ttnn.ROW_MAJOR_LAYOUT")
    if options:
        config = f", conv_config=ttnn.Conv2dConfig({', '.join(options)})"
    if draw.random.random() < 0.4:
        fidelity, wide = pick(("LoFi", "HiFi2", "HiFi4")), pick((True, False))
        config += (
            f", compute_config=ttnn.init_device_compute_kernel_config(device.arch(), "
            f"math_fidelity=ttnn.MathFidelity.{fidelity}, fp32_dest_acc_en={wide})"
        )
    if draw.random.random() < 0.2:
        config += f", dtype=ttnn.{pick(('bfloat16', 'bfloat8_b', 'float32'))}"
    name = f"t{draw._next()}"
    statement = (
        f"{name}, {names}[:] = ttnn.conv2d(input_tensor={x}, weight_tensor={names}[0], bias_tensor={names}[1], "
        f"device=device, in_channels={c}, out_channels={out}, batch_size={n}, input_height={h}, input_width={w}, "
        f"kernel_size={kernel}, stride={stride}, padding={padding}, dilation={dilation}, groups={groups}{config}, "
        "return_weights_and_bias=True)"
    )
    if not draw.attempt(statement, name, Info(False, (n, oh, ow, out))):
        draw.setup.pop()


def transposed_convolution(draw: Drawing) -> None:
    x, (n, h, w, c) = _square(draw)
    pick = draw.random.choice
    kernel, stride, padding = pick((((2, 2), (2, 2), (0, 0)), ((3, 3), (2, 2), (1, 1)), ((3, 3), (1, 1), (1, 1))))
    out = pick((8, 16, 32))
    oh, ow = ((side - 1) * s - 2 * p + k for side, s, p, k in zip((h, w), stride, padding, kernel, strict=True))
    names, name = _weights(draw, (c, out, *kernel), out), f"t{draw._next()}"
    statement = (
        f"{name}, {names}[:] = ttnn.conv_transpose2d(input_tensor={x}, weight_tensor={names}[0], "
        f"bias_tensor={names}[1], device=device, in_channels={c}, out_channels={out}, batch_size={n}, "
        f"input_height={h}, input_width={w}, kernel_size={kernel}, stride={stride}, padding={padding}, "
        "output_padding=(0, 0), dilation=(1, 1), groups=1, return_weights_and_bias=True)"
    )
    if not draw.attempt(statement, name, Info(False, (n, oh, ow, out))):
        draw.setup.pop()


def pool(draw: Drawing) -> None:
    x, (n, h, w, c) = _square(draw)
    pick = draw.random.choice
    kernel, stride, padding = pick(
        (
            ([2, 2], [2, 2], [0, 0]),
            ([3, 3], [2, 2], [1, 1]),
            ([3, 3], [1, 1], [1, 1]),
            ([5, 5], [1, 1], [2, 2]),
        )
    )
    oh, ow = ((side + 2 * p - k) // s + 1 for side, p, k, s in zip((h, w), padding, kernel, stride, strict=True))
    if oh < 1 or ow < 1:
        return
    common = (
        f"input_tensor={x}, batch_size={n}, input_h={h}, input_w={w}, channels={c}, kernel_size={kernel}, "
        f"stride={stride}, padding={padding}"
    )
    if draw.random.random() < 0.1:
        size = (min(h, pick((1, 2, 3))), min(w, pick((1, 2, 3))))
        given = f"input_tensor={x}, batch_size={n}, input_h={h}, input_w={w}, channels={c}, output_size={list(size)}"
        name = pick(("adaptive_avg_pool2d", "adaptive_max_pool2d"))
        draw.make(f"ttnn.{name}({given})", draw.infos[x].exact and "max" in name, (n, *size, c))
    elif draw.random.random() < 0.5:
        draw.make(f"ttnn.max_pool2d({common}, dilation=[1, 1])", draw.infos[x].exact, (n, oh, ow, c))
    elif draw.random.random() < 0.8:
        counted = pick((True, False))
        draw.make(f"ttnn.avg_pool2d({common}, ceil_mode=False, count_include_pad={counted})", False, (n, oh, ow, c))
    else:
        draw.make(f"ttnn.global_avg_pool2d(ttnn.reshape({x}, {(n, h, w, c)}))", False)


def upsampling(draw: Drawing) -> None:
    x, (n, h, w, c) = _square(draw)
    mode = draw.random.choice(("nearest", "nearest", "bilinear"))
    image = f"ttnn.reshape(ttnn.to_layout({x}, ttnn.ROW_MAJOR_LAYOUT), {(n, h, w, c)})"
    flat = f"ttnn.reshape(ttnn.upsample({image}, 2, mode={mode!r}), (1, 1, {4 * n * h * w}, {c}))"
    exact = draw.infos[x].exact and mode == "nearest"
    draw.make(f"ttnn.to_layout({flat}, ttnn.TILE_LAYOUT)", exact, (n, 2 * h, 2 * w, c))


def product(draw: Drawing) -> None:
    x = draw.pick(lambda n: draw.is_float(n) and len(draw.shape(n)) >= 2)
    if x is None:
        return
    inner = draw.shape(x)[-1]
    pick = draw.random.random()
    more = ""
    if draw.random.random() < 0.3:
        more = f", activation={draw.random.choice(('relu', 'silu', 'gelu'))!r}"
    if pick < 0.5:
        columns = draw.random.choice((8, 32, 40))
        dtype = draw.random.choice(("bfloat16", "bfloat8_b"))
        w = draw.source("constant", shape=(inner, columns), dtype=dtype, kind="weights", layout="TILE")
        bias = ""
        if draw.random.random() < 0.5:
            row = draw.source("constant", shape=(1, columns), dtype="bfloat16", kind="normal", layout="TILE")
            bias = f", bias={row}"
        draw.make(f"ttnn.linear({x}, {w}{bias}{more})")
        return
    if pick < 0.55 and len(draw.shape(x)) == 2:
        row = draw.source("input", shape=(draw.shape(x)[0], draw.shape(x)[0]), dtype="bfloat16", layout="TILE")
        draw.make(f"ttnn.addmm({row}, {x}, ttnn.transpose({x}, -2, -1))")
        return
    y = draw.pick(lambda n: draw.is_float(n) and len(draw.shape(n)) == len(draw.shape(x))) if pick < 0.8 else x
    if y is not None and math.prod(draw.shape(x)[:-1]) * draw.shape(y)[-2] <= draw.taste.largest:
        draw.make(f"ttnn.matmul({x}, ttnn.transpose({y}, -2, -1))")


def reduction(draw: Drawing) -> None:
    x = draw.pick(draw.is_float)
    if x is None:
        return
    rank = len(draw.shape(x))
    dim = draw.random.choice((-1, -2, rank - 1, 0, None, (-2, -1)))
    names = ("mean", "sum", "max", "min", "mean", "sum", "var", "std", "prod")
    name = draw.random.choice(names)
    if name in ("var", "std") and not draw.free_to_jump(x):
        return
    keep = draw.random.choice((True, True, False))
    draw.make(f"ttnn.{name}({x}, dim={dim}, keepdim={keep})", draw.infos[x].exact and name in ("max", "min"))


def ordering(draw: Drawing) -> None:
    """Answers that hang on which value is larger."""
    x = draw.pick(lambda n: draw.is_float(n) and draw.free_to_jump(n))
    if x is None:
        return
    pick = draw.random.random()
    if pick < 0.3:
        draw.make(f"ttnn.argmax({x}, dim=-1)", True)
        return
    name, other = f"t{draw._next()}", f"t{draw._next()}"
    call = f"ttnn.sort({x}, dim=-1)" if pick < 0.6 else f"ttnn.topk({x}, 32, dim=-1)"
    if draw.attempt(f"{name}, {other} = {call}", name, Info(draw.infos[x].exact)):
        draw.infos[other] = Info(True)


def normalization(draw: Drawing) -> None:
    x = draw.pick(draw.is_float)
    if x is None:
        return
    width, pick = draw.shape(x)[-1], draw.random.random()
    if pick < 0.35:
        draw.make(f"ttnn.softmax({x}, dim={draw.random.choice((-1, -1, -2))})", image=draw.image_like(x))
    elif pick < 0.55:
        draw.make(f"ttnn.rms_norm({x}, epsilon=1e-2)", image=draw.image_like(x))
    elif pick < 0.8:
        gamma = draw.source("constant", shape=(1, width), dtype="bfloat16", kind="positive", layout="TILE")
        draw.make(f"ttnn.layer_norm({x}, weight={gamma}, epsilon=1e-2)", image=draw.image_like(x))
    else:
        draw.make(f"ttnn.cumsum({x}, dim={draw.random.choice((0, 1, -1))})")
