# SPDX-License-Identifier: Apache-2.0
"""Each family of ops as a tiny module, brought up and run beside torch; and what a lowering can get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.bringup.bringing import Written, assert_comes_up, bring_up
from tests.bringup.random_models import RandomModel
from tt_cnn import ttnn

Forward = Callable[..., Any]


def conv(inputs: int, outputs: int, kernel: Any = 3, **settings: Any) -> nn.Conv2d:
    padding = settings.pop("padding", kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel))
    return nn.Conv2d(inputs, outputs, kernel, padding=padding, **settings)


def norm(channels: int) -> nn.BatchNorm2d:
    made = nn.BatchNorm2d(channels)
    for name, values in (("running_mean", torch.randn(channels)), ("running_var", torch.rand(channels) + 0.5)):
        getattr(made, name).data = values
    made.weight.data, made.bias.data = torch.rand(channels) + 0.5, torch.randn(channels)
    return made


def one_layer(layer: nn.Module) -> nn.Module:
    return Written(lambda m, x: m.layer(x), layer=layer)


def pure(forward: Forward) -> nn.Module:
    return Written(lambda _, x: forward(x))


def block(forward: Forward, **layers: nn.Module) -> nn.Module:
    return Written(forward, **layers)


def of_few_channels(**resize: Any) -> nn.Module:
    """As segmentation ends: a map for each class, as large as the picture."""
    return block(lambda m, x: F.interpolate(m.c(x), **resize).sigmoid() * 4, c=conv(32, 5, 1))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "conv": lambda: one_layer(conv(32, 48)),
    "conv_bn_relu": lambda: one_layer(nn.Sequential(conv(32, 48, bias=False), norm(48), nn.ReLU())),
    "conv_strided": lambda: one_layer(conv(32, 48, stride=2)),
    "conv_dilated": lambda: one_layer(conv(32, 32, dilation=2, padding=2)),
    "conv_depthwise": lambda: one_layer(conv(32, 32, groups=32)),
    "conv_grouped": lambda: one_layer(conv(32, 64, groups=4)),
    "conv_asymmetric": lambda: one_layer(nn.Sequential(conv(32, 32, (1, 5)), conv(32, 32, (5, 1)))),
    "conv_same": lambda: one_layer(nn.Conv2d(32, 32, 3, padding="same")),
    "conv_after_pad": lambda: block(lambda m, x: m.c(F.pad(x, (1, 2, 0, 1))), c=conv(32, 32, padding=0)),
    "conv_transposed": lambda: one_layer(nn.ConvTranspose2d(32, 16, 2, 2)),
    "conv_functional": lambda: block(lambda m, x: F.conv2d(x, m.c.weight * 2, None, padding=1), c=conv(32, 32)),
    "max_pool": lambda: one_layer(nn.MaxPool2d(3, 2, 1)),
    "max_pool_functional": lambda: pure(lambda x: F.max_pool2d(x, 2)),
    "avg_pool": lambda: one_layer(nn.AvgPool2d(2)),
    "avg_pool_without_padding": lambda: one_layer(nn.AvgPool2d(3, 1, 1, count_include_pad=False)),
    "adaptive_pool_even": lambda: one_layer(nn.AdaptiveAvgPool2d(4)),
    "adaptive_pool_uneven": lambda: one_layer(nn.AdaptiveAvgPool2d((5, 3))),
    "adaptive_max_pool": lambda: one_layer(nn.AdaptiveMaxPool2d(4)),
    "global_pool": lambda: one_layer(nn.AdaptiveAvgPool2d(1)),
    "upsample_nearest": lambda: one_layer(nn.Upsample(scale_factor=2)),
    "upsample_bilinear": lambda: one_layer(nn.Upsample(scale_factor=2, mode="bilinear")),
    "upsample_corners": lambda: one_layer(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)),
    "resize": lambda: pure(lambda x: F.interpolate(x, size=(11, 13), mode="bilinear")),
    "resize_nearest": lambda: pure(lambda x: F.interpolate(x, size=(11, 5))),
    "few_channels_bilinear": lambda: of_few_channels(scale_factor=4, mode="bilinear"),
    "few_channels_corners": lambda: of_few_channels(size=(11, 13), mode="bilinear", align_corners=True),
    "few_channels_by_factor": lambda: of_few_channels(scale_factor=(1.6, 2.3), mode="bilinear"),
    "few_channels_nearest": lambda: of_few_channels(scale_factor=3),
    "few_channels_read_by_conv": lambda: block(
        lambda m, x: m.b(F.interpolate(m.a(x), scale_factor=2, mode="bilinear")), a=conv(32, 5), b=conv(5, 8)
    ),
    "batch_norm": lambda: one_layer(norm(32)),
    "group_norm": lambda: one_layer(nn.GroupNorm(4, 32)),
    "layer_norm": lambda: block(lambda m, x: m.n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), n=nn.LayerNorm(32)),
    "layer_norm_functional": lambda: pure(lambda x: F.layer_norm(x.flatten(2).transpose(1, 2), (32,))),
    "instance_norm": lambda: one_layer(nn.InstanceNorm2d(32, affine=True)),
    "prelu": lambda: one_layer(nn.PReLU(32)),
    "linear": lambda: block(lambda m, x: m.fc(x.mean([2, 3])), fc=nn.Linear(32, 10)),
    "linear_of_flattened": lambda: block(lambda m, x: m.fc(x.flatten(1)), fc=nn.Linear(32 * 64, 10)),
    "pixel_shuffle": lambda: one_layer(nn.PixelShuffle(2)),
    "pixel_unshuffle": lambda: one_layer(nn.PixelUnshuffle(2)),
    "channel_shuffle": lambda: one_layer(nn.ChannelShuffle(4)),
    "flatten_transpose": lambda: pure(lambda x: x.flatten(2).transpose(1, 2)),
    "softmax_channels": lambda: pure(lambda x: x.softmax(1)),
    "softmax_pixels": lambda: pure(lambda x: x.flatten(2).softmax(-1)),
    "mean_channels": lambda: pure(lambda x: x.mean(1, keepdim=True)),
    "mean_rows": lambda: pure(lambda x: x.mean(2)),
    "max_channels": lambda: pure(lambda x: x.max(1, keepdim=True)[0]),
    "sum_all_pixels": lambda: pure(lambda x: x.sum((2, 3))),
    "chunk_and_product": lambda: pure(lambda x: torch.mul(*x.chunk(2, 1))),
    "split_and_cat": lambda: pure(lambda x: torch.cat(x.split([16, 4, 12], 1)[::-1], 1)),
    "cat_of_pixels": lambda: pure(lambda x: torch.cat([x, x * 2], 2)),
    "slices_of_pixels": lambda: pure(lambda x: torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2]], 1)),
    "select": lambda: pure(lambda x: x.flatten(2).transpose(1, 2)[:, 3]),
    "pad": lambda: pure(lambda x: F.pad(x, (1, 0, 2, 1), value=1.5)),
    "crop": lambda: pure(lambda x: F.pad(x, (-1, 0, -2, -1))),
    "crop_and_pad": lambda: pure(lambda x: F.pad(x, (-1, 2, 1, -3), value=0.5)),
    "where_zeros": lambda: pure(lambda x: torch.where(x > 0.2, x, torch.zeros_like(x)) + x.new_full((8,), 0.5)),
    "roll": lambda: pure(lambda x: torch.roll(x, (-3, 2), (2, 3))),
    "windows": lambda: pure(lambda x: x.reshape(x.shape[0], 32, 2, 4, 2, 4).transpose(3, 4)),
    "normalize": lambda: pure(lambda x: F.normalize(x)),
    "gate_of_channels": lambda: pure(lambda x: x * x.mean((2, 3), keepdim=True).sigmoid()),
    "gate_of_pixels": lambda: pure(lambda x: x * x.mean(1, keepdim=True).sigmoid()),
    "shift_of_channels": lambda: pure(lambda x: x - x.mean((2, 3), keepdim=True)),
    "outer_sum": lambda: pure(lambda x: x.mean(2, keepdim=True) + x.mean(3, keepdim=True)),
    "numbers": lambda: pure(lambda x: 1 - (2 * x + 3) / 4),
    "number_over_tensor": lambda: pure(lambda x: 1 / (x.abs() + 1)),
    "layer_scale": lambda: block(lambda m, x: x * m.n.weight.view(1, -1, 1, 1), n=norm(32)),
    "positions": lambda: block(lambda m, x: x.flatten(2) + m.fc.weight, fc=nn.Linear(64, 32)),
    "matmul": lambda: pure(lambda x: x.flatten(2) @ x.flatten(2).transpose(1, 2)),
    "expand": lambda: pure(lambda x: x.mean((2, 3), keepdim=True).expand_as(x).sigmoid() + x),
    "view_across_runs": lambda: pure(lambda x: x[:, :, :6, :6].reshape(x.shape[0], 144, 8).softmax(-1)),
    "repeat": lambda: pure(lambda x: x.mean((2, 3), keepdim=True).repeat(1, 1, 4, 4)),
}
ACTIVATIONS = {
    "relu": nn.ReLU(),
    "relu6": nn.ReLU6(),
    "leaky": nn.LeakyReLU(0.1),
    "silu": nn.SiLU(),
    "mish": nn.Mish(),
    "gelu": nn.GELU(),
    "hardswish": nn.Hardswish(),
    "hardsigmoid": nn.Hardsigmoid(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "elu": nn.ELU(),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    assert_comes_up(LAYERS[name](), torch.randn(batch, 32, 8, 8), device)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str, device: Any) -> None:
    """Behind a convolution, in it where the card can, and of the input itself."""
    torch.manual_seed(0)
    model = block(lambda m, x: m.act(m.c(m.act(x))), act=ACTIVATIONS[name], c=conv(32, 32))
    least = 0.998 if name == "gelu" else 0.999  # the card's GELU is a table of few lines
    assert_comes_up(model, torch.randn(1, 32, 8, 8), device, least=least)


class Attention(nn.Module):
    """Of tokens, as ViT, Swin and MobileViT write it."""

    def __init__(self, channels: int, heads: int, style: str) -> None:
        super().__init__()
        self.heads, self.style = heads, style
        self.qkv = nn.Linear(channels, 3 * channels)
        self.proj = nn.Linear(channels, channels)
        self.bias = nn.Parameter(torch.randn(heads, 16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, channels = x.shape
        if self.style == "chunks":
            parts = [p.view(batch, tokens, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1)]
        elif self.style == "heads_first":  # not in the order that one op takes
            q = self.qkv(x).reshape(batch, tokens, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
            parts = list(q.unbind(0))
        else:
            parts = list(self.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0))
        q, k, v = parts
        if self.style == "written_out":
            scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + self.bias
            y = scores.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, channels))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("style", "layers"), [("fused", 3), ("chunks", 3), ("written_out", 3), ("heads_first", None)])
def test_attention(style: str, layers: int | None, batch: int, device: Any) -> None:
    """Where q, k and v are parts of one projection in the op's order, nothing is cut or turned."""
    torch.manual_seed(0)
    program = assert_comes_up(Attention(64, 2, style), torch.randn(batch, 16, 64), device)
    assert layers is None or [each.method for each in program.layers()] == ["linear", "attention", "linear"]


def test_multihead_attention(device: Any) -> None:
    torch.manual_seed(0)
    made = nn.MultiheadAttention(64, 2, batch_first=True)
    assert_comes_up(block(lambda m, x: m.a(x, x, x, need_weights=False)[0], a=made), torch.randn(2, 16, 64), device)


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(32, 8, 1), nn.Conv2d(8, 32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1)))))


@pytest.mark.parametrize("batch", [1, 2])
def test_squeeze_excite_is_one_layer(batch: int, device: Any) -> None:
    torch.manual_seed(0)
    program = assert_comes_up(SqueezeExcite(), torch.randn(batch, 32, 8, 8), device)
    assert [each.method for each in program.layers()] == ["squeeze_excite"]


def test_the_products_of_a_squeeze_and_excite_have_settings_of_their_own(device: Any) -> None:
    model = SqueezeExcite()
    _, kind = bring_up(model, (1, 32, 8, 8))
    table = kind.__init__.__globals__["LAYERS"]
    table["squeeze_excite.expand"] = {"math_fidelity": ttnn.MathFidelity.LoFi, "weights_dtype": ttnn.bfloat8_b}
    made = kind(model, device, batch_size=1).squeeze_excite
    assert made.expand.configuration.weights_dtype == ttnn.bfloat8_b
    assert made.expand.configuration.math_fidelity == ttnn.MathFidelity.LoFi
    assert made.reduce.configuration.weights_dtype == ttnn.bfloat16


# -- what a lowering can get wrong

TWICE: dict[str, Forward] = {
    "sum": lambda m, x: (lambda y: y + y)(m.c(x)),
    "product": lambda m, x: (lambda y: y * y)(m.c(x)),
    "difference": lambda m, x: (lambda y: y - y)(m.c(x)) + x,
    "cat": lambda m, x: (lambda y: torch.cat([y, y], 1))(m.c(x)),
    "cat_and_read_on": lambda m, x: (lambda y: torch.cat([y, y, x], 1).mean(1, keepdim=True) + y)(m.c(x)),
    "sum_and_read_on": lambda m, x: (lambda y: m.c(y + y) + y)(m.c(x)),
    "residual_of_input": lambda m, x: m.c(x) + x,
    "input_twice": lambda m, x: m.c(x + x),
    "transposed_with_itself": lambda m, x: (lambda y: y + y.transpose(2, 3))(m.c(x)),
    "views_of_one": lambda m, x: (lambda y: y.flatten(2).transpose(1, 2) * 2 + y.flatten(2).transpose(1, 2))(m.c(x)),
    "parts_of_one": lambda m, x: (lambda a, b: torch.cat([a + b, a, b], 1))(*m.c(x).chunk(2, 1)),
    "skip_that_waits": lambda m, x: (lambda y: m.c(m.c(F.relu(m.c(y)))) + y)(m.c(x)),
    "shared_layer": lambda m, x: m.c(F.relu(m.c(m.c(x)))),
    "skip_of_rows": lambda m, x: (lambda y: F.relu(m.c(y)) + y)(F.max_pool2d(m.c(x), 3, 1, 1)),
    "view_and_itself": lambda m, x: (lambda y: (y.flatten(2).mean(2), y * 2))(m.c(x)),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", TWICE)
def test_tensors_that_are_read_twice(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    assert_comes_up(block(TWICE[name], c=conv(32, 32)), torch.randn(batch, 32, 8, 8), device)


OUTPUTS: dict[str, Forward] = {
    "read_on": lambda m, x: (lambda y: (y, m.c(F.relu(y))))(m.c(x)),
    "twice": lambda m, x: (lambda y: (y, y))(m.c(x)),
    "view": lambda m, x: (lambda y: (y, y.flatten(2)))(m.c(x)),
    "activation_read_before": lambda m, x: (lambda y: (F.relu(y), y))(m.c(x)),
    "norm_read_before": lambda m, x: (lambda y: (m.n(y), y))(m.c(x)),
    "input": lambda m, x: (m.c(x), x),
    "dictionary": lambda m, x: {"deep": m.c(m.c(x)), "flat": m.c(x).mean((2, 3))},
    "out_of_order": lambda m, x: (m.c(x).mean((2, 3)), m.c(x)),
    "turned": lambda m, x: m.c(x).permute(0, 3, 1, 2),
    "windows": lambda m, x: m.c(x).reshape(x.shape[0], 4, 8, 8, 8).permute(0, 2, 3, 1, 4),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name: str, batch: int, device: Any) -> None:
    torch.manual_seed(0)
    assert_comes_up(block(OUTPUTS[name], c=conv(32, 32), n=norm(32)), torch.randn(batch, 32, 8, 8), device)


@pytest.mark.parametrize("seed", range(40))
def test_random_models(seed: int, device: Any) -> None:
    x = torch.randn(1 + seed % 2, 32, 8, 8, generator=torch.Generator().manual_seed(seed))
    assert_comes_up(RandomModel(seed), x, device, least=0.995)


class Standardised(nn.Conv2d):
    """A convolution that is none: its weight is computed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, self.weight - mean, self.bias, self.stride, self.padding)


class Padded(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.pad(x, (0, 1, 0, 1)), self.weight, None, 2, 0)


@pytest.mark.parametrize("kind", [Standardised, Padded])
def test_classes_of_the_users_that_are_derived_from_torchs(kind: type, device: Any) -> None:
    torch.manual_seed(0)
    model = one_layer(nn.Sequential(kind(32, 32, 3, padding=1), norm(32), nn.ReLU()))
    assert_comes_up(model, torch.randn(1, 32, 8, 8), device)


def test_what_no_rule_is_for_runs_on_the_host(device: Any) -> None:
    torch.manual_seed(0)
    model = block(lambda m, x: m.c(torch.cumsum(m.c(x), 3)), c=conv(32, 32))
    assert_comes_up(model, torch.randn(2, 32, 8, 8), device, fallbacks=1)


def test_keywords_of_methods_reach_the_host(device: Any) -> None:
    torch.manual_seed(0)
    model = block(lambda m, x: m.c(torch.div(m.c(x), 0.3, rounding_mode="floor")), c=conv(32, 32))
    assert_comes_up(model, torch.randn(1, 32, 8, 8), device, least=0.99, fallbacks=1)


@pytest.mark.parametrize("batch", [1, 2])
def test_sums_with_a_factor(batch: int, device: Any) -> None:
    torch.manual_seed(0)
    model = block(lambda m, x: torch.sub(m.c(x), torch.add(x, 3, alpha=2), alpha=0.5), c=conv(32, 32))
    assert_comes_up(model, torch.randn(batch, 32, 8, 8), device)


def test_means_over_dimensions_of_one(device: Any) -> None:
    torch.manual_seed(0)
    model = block(lambda m, x: m.c(x)[:, :, 2:3].sum(2) + m.c(x)[:, :, 3:4].amax((0, 2)), c=conv(32, 32))
    assert_comes_up(model, torch.randn(1, 32, 8, 8), device)


def test_pictures(device: Any) -> None:
    """Three channels, which the card pads; a reader that is no convolution must not see the padding."""
    torch.manual_seed(0)
    model = block(lambda m, x: (m.c(x), x.mean(1), x * 2), c=conv(3, 16))
    assert_comes_up(model, torch.randn(2, 3, 16, 16), device)
