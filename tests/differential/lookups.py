# SPDX-License-Identifier: Apache-2.0
"""Statements that read where indices say, and those of attention."""

from __future__ import annotations

from tests.differential.drawing import Drawing, Info


def indexing(draw: Drawing) -> None:
    """Values of whole numbers are below 200, and tables have 256 rows."""
    pick = draw.random.random()
    if pick < 0.4:
        rows = draw.source("input", shape=(draw.random.choice((1, 2)), 32), dtype="uint32", layout="ROW_MAJOR")
        role = draw.random.choice(("constant", "input"))
        table = draw.source(role, shape=(256, 32), dtype="bfloat16", layout="ROW_MAJOR", kind="normal")
        layout = draw.random.choice(("", ", layout=ttnn.TILE_LAYOUT"))
        draw.make(f"ttnn.embedding({rows}, {table}{layout})", True)
        return
    index = draw.source("input", shape=(1, 1, 32, 32), dtype="uint32", layout="TILE")
    wide = draw.source("input", shape=(1, 1, 32, 256), dtype="bfloat16", layout="TILE")
    if pick < 0.7:
        draw.make(f"ttnn.gather({wide}, -1, index={index})", True)
    else:
        x = draw.source("input", shape=(1, 1, 32, 32), dtype="bfloat16", layout="TILE")
        draw.make(f"ttnn.scatter({wide}, -1, {index}, {x})", True)


def sampling(draw: Drawing) -> None:
    n, h, w, c = 1, draw.random.randint(4, 9), draw.random.randint(4, 9), draw.random.choice((32, 64))
    image = draw.source("input", shape=(n, h, w, c), dtype="bfloat16", layout="ROW_MAJOR")
    if draw.random.random() < 0.4:
        draw.make(f"ttnn.fold({image}, 2, 2)", draw.infos[image].exact)
        return
    kind = draw.random.choice(("normal", "small"))
    grid = draw.source("input", shape=(n, 4, 5, 2), dtype="float32", layout="ROW_MAJOR", kind=kind)
    draw.make(f"ttnn.grid_sample({image}, {grid})")


def attention(draw: Drawing) -> None:
    heads, rows = draw.random.choice((1, 2)), draw.random.choice((32, 64))
    pick = draw.random.random()
    if pick < 0.4:
        three = [draw.source("input", shape=(1, heads, rows, 32), dtype="bfloat16", layout="TILE") for _ in range(3)]
        causal = draw.random.choice((True, False))
        call = f"ttnn.transformer.scaled_dot_product_attention({', '.join(three)}, is_causal={causal})"
        draw.make(call)
    elif pick < 0.7:
        x = draw.source("input", shape=(1, rows, 3 * 32 * heads), dtype="bfloat16", layout="TILE")
        names = [f"t{draw._next()}" for _ in range(3)]
        call = f"ttnn.transformer.split_query_key_value_and_split_heads({x}, num_heads={heads})"
        if draw.attempt(f"{', '.join(names)} = {call}", names[0], Info(draw.infos[x].exact)):
            draw.infos |= {name: Info(draw.infos[x].exact) for name in names[1:]}
            draw.make(f"ttnn.transformer.attention_softmax(ttnn.matmul({names[0]}, {names[1]}), head_size=32)")
    else:
        x = draw.pick(lambda n: draw.is_float(n) and len(draw.shape(n)) == 4)
        name = draw.random.choice(("transformer.concatenate_heads", "experimental.nlp_concat_heads"))
        if x is not None:
            draw.make(f"ttnn.{name}({x})", draw.infos[x].exact)


def of_batches(draw: Drawing) -> None:
    """Batch norms, with what they learn as state, and group norms."""
    shape = (draw.random.choice((1, 2)), 4, 32, 32)
    if draw.random.random() < 0.3:
        x = draw.source("input", shape=(1, 1, 64, 64), dtype="bfloat16", layout="TILE", kind="normal")
        more = "core_grid=ttnn.CoreGrid(y=1, x=1), inplace=False"
        name = f"m{draw._next()}"
        line = f"{name} = ttnn.to_device(ttnn.create_group_norm_input_mask(64, 2, 1), device)"
        exec(line, draw.names)
        draw.setup.append(line)
        draw.make(f"ttnn.group_norm({x}, num_groups=2, input_mask={name}, epsilon=1e-2, {more})")
        return
    x = draw.source("input", shape=shape, dtype="bfloat16", layout="TILE", kind="normal")
    role = draw.random.choice(("constant", "state"))
    row = {"shape": (1, 4, 1, 1), "dtype": "bfloat16", "layout": "TILE"}
    mean, variance = draw.source(role, kind="normal", **row), draw.source(role, kind="positive", **row)
    more = ", training=True, momentum=0.2" if role == "state" else ""
    draw.make(f"ttnn.batch_norm({x}, running_mean={mean}, running_var={variance}{more})")
