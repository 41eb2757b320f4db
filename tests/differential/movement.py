# SPDX-License-Identifier: Apache-2.0
"""Statements that move values, join and part them, and give memory back."""

from __future__ import annotations

import math

from tests.differential.drawing import INTERLEAVED, Drawing, Info


def freed(draw: Drawing) -> None:
    """Memory given back in the middle of the trace, so that what follows lies there."""
    made = [n for n in draw.infos if n.startswith("t")]
    if len(made) < 3:
        return
    name = draw.random.choice(made[:-1])
    if not draw.shared(name) and draw.attempt(f"ttnn.deallocate({name})", None, Info(False)):
        del draw.infos[name]


def moved(draw: Drawing) -> None:
    """To another place in memory; the former is given back."""
    made = [n for n in draw.infos if n.startswith("t")]
    if len(made) < 2:
        return
    x, name = draw.random.choice(made), f"t{draw._next()}"
    call = draw.random.choice(("move", "reallocate"))
    if not draw.shared(x) and draw.attempt(f"{name} = ttnn.{call}({x})", name, draw.infos[x]):
        del draw.infos[x]


def rearrangement(draw: Drawing) -> None:
    x = draw.pick()
    if x is None:
        return
    shape, rank, pick = draw.shape(x), len(draw.shape(x)), draw.random.choice
    axis = draw.random.randrange(rank)
    dims = list(range(rank))
    draw.random.shuffle(dims)
    low = [draw.random.randint(0, max(0, n // 3)) for n in shape]
    high = [draw.random.randint(n - n // 3, n) for n in shape]
    flat = math.prod(shape)
    shapes = [
        (1, 1, flat // shape[-1], shape[-1]),
        (flat // shape[-1], shape[-1]),
        (1, 1, 1, flat),
        tuple(reversed(shape)),
    ]
    shapes += [(1, 1, flat // n, n) for n in (16, 32, 64) if flat % n == 0]
    whole_tiles = (*shape[:-2], *(-(-n // 32) * 32 for n in shape[-2:]))
    last = (*(n - 1 for n in shape[:-2]), *(max(0, n - 2) for n in shape[-2:]))
    image = draw.image_like(x)
    if image:
        shapes.append(image)
    padding = ", ".join(f"({pick((0, 0, 1, 2))}, {pick((0, 1, 3))})" for _ in shape)
    forms = [
        f"ttnn.reshape({x}, {pick(shapes)})",
        f"ttnn.reshape({x}, {pick(shapes)})",
        f"ttnn.permute({x}, {tuple(dims)})",
        f"ttnn.transpose({x}, {axis}, {draw.random.randrange(rank)})",
        f"ttnn.slice({x}, {low}, {high})",
        f"ttnn.pad({x}, [{padding}], {pick((0.0, 0.0, 1.5))})",
        f"ttnn.repeat({x}, {tuple(2 if i == axis else 1 for i in range(rank))})",
        f"ttnn.repeat_interleave({x}, 2, {axis})",
        f"ttnn.unsqueeze({x}, 0)",
        f"ttnn.squeeze({x}, 0)",
        f"ttnn.roll({x}, {pick((1, 3))}, {axis})",
        f"ttnn.clone({x})",
        f"ttnn.to_layout({x}, ttnn.{pick(('TILE', 'ROW_MAJOR'))}_LAYOUT)",
        f"ttnn.to_memory_config({x}, {pick(INTERLEAVED)})",
        f"ttnn.typecast({x}, ttnn.{pick(('bfloat16', 'float32', 'bfloat8_b'))})",
        f"ttnn.view({x}, (1, 1, {flat // shape[-1]}, {shape[-1]}))",
        f"ttnn.expand({x}, {tuple(2 if n == 1 and i == axis else n for i, n in enumerate(shape))})",
        f"ttnn.unsqueeze_to_4D({x})",
        f"ttnn.tilize({x})",
        f"ttnn.tilize_with_zero_padding({x})",
        f"ttnn.tilize_with_val_padding({x}, {whole_tiles}, 0.5)",
        f"ttnn.untilize({x})",
        f"ttnn.untilize_with_unpadding({x}, {last})",
        f"ttnn.fill_implicit_tile_padding({x}, {pick((0.0, 1.5))})",
        f"ttnn.assign({x}, memory_config={pick(INTERLEAVED)})",
    ]
    form = pick(forms)
    moved = form.startswith(("ttnn.clone", "ttnn.to_", "ttnn.typecast", "ttnn.assign", "ttnn.fill_"))
    exact = draw.infos[x].exact and (not form.startswith("ttnn.typecast") or not draw.taste.native)
    if not draw.is_float(x) and "typecast" in form:
        return
    draw.make(form, exact, image if moved else None)


def sharding(draw: Drawing) -> None:
    """Into shards and out of them; what comes between works on shards."""
    x = draw.pick(lambda n: draw.infos[n].image is not None or len(draw.shape(n)) == 4)
    if x is None:
        return
    rows, columns = math.prod(draw.shape(x)[:-1]), draw.shape(x)[-1]
    cores = draw.random.choice((1, 2, 4, 8))
    kind = draw.random.choice(("HEIGHT", "WIDTH", "BLOCK"))
    if draw.names[x].is_sharded() and draw.random.random() < 0.7:
        draw.make(
            f"ttnn.sharded_to_interleaved({x}, {draw.random.choice(INTERLEAVED)})",
            draw.infos[x].exact,
            draw.image_like(x),
        )
        return
    tall, wide = -(-rows // 32) * 32, -(-columns // 32) * 32
    shard = {
        "HEIGHT": (-(-tall // 32 // cores) * 32, wide),
        "WIDTH": (tall, -(-wide // 32 // cores) * 32),
        "BLOCK": (-(-tall // 32 // 2) * 32, -(-wide // 32 // 2) * 32),
    }[kind]
    grid = (2, 2) if kind == "BLOCK" else (cores, 1)
    config = (
        f"ttnn.create_sharded_memory_config({shard}, core_grid=ttnn.CoreGrid(x={grid[0]}, y={grid[1]}), "
        f"strategy=ttnn.ShardStrategy.{kind}, use_height_and_width_as_shard_shape=True)"
    )
    calls = ("to_memory_config", "reshard" if draw.names[x].is_sharded() else "interleaved_to_sharded")
    call = draw.random.choice(calls)
    draw.make(f"ttnn.{call}({x}, {config})", draw.infos[x].exact, draw.image_like(x))


def joining(draw: Drawing) -> None:
    x = draw.pick()
    if x is None:
        return
    shape = draw.shape(x)
    axis = draw.random.randrange(len(shape))
    if draw.random.random() < 0.4:
        name, other = f"t{draw._next()}", f"t{draw._next()}"
        call = draw.random.choice(
            (f"ttnn.split({x}, {max(1, shape[axis] // 2)}, {axis})", f"ttnn.chunk({x}, 2, {axis})")
        )
        if draw.attempt(f"{name}, {other} = {call}", name, Info(draw.infos[x].exact)):
            draw.infos[other] = Info(draw.infos[x].exact)
        return

    def joins(name: str) -> bool:
        other = draw.shape(name)
        same = len(other) == len(shape) and draw.dtype(name) == draw.dtype(x)
        return same and all(m == n for i, (m, n) in enumerate(zip(other, shape, strict=False)) if i != axis)

    parts = [x, *(one for _ in range(draw.random.randint(1, 2)) if (one := draw.pick(joins)) is not None)]
    image, exact = None, all(draw.infos[p].exact for p in parts)
    if len({draw.shape(p) for p in parts}) == 1 and draw.random.random() < 0.2:
        draw.make(f"ttnn.stack([{', '.join(parts)}], {axis})", exact)
        return
    if axis == len(shape) - 1 and all(draw.image_like(p) for p in parts):
        n, h, w, _ = draw.image_like(x) or (0, 0, 0, 0)
        image = (n, h, w, sum(draw.shape(p)[-1] for p in parts))
    draw.make(f"ttnn.concat([{', '.join(parts)}], {axis})", exact, image)
