# SPDX-License-Identifier: Apache-2.0
"""Classes of the model's code: one for each kind of module, lists and loops where the model has stages."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from tt_cnn.bringup.codegen.blocks import Block, Flow
from tt_cnn.bringup.codegen.expressions import Expressions
from tt_cnn.bringup.codegen.lines import broken, folded, indented
from tt_cnn.bringup.codegen.variants import block_shape, grouped
from tt_cnn.bringup.lowering.program import Program, Statement, Value
from tt_cnn.bringup.torch_graph import Parameter
from tt_cnn.models.brought_up import BroughtUpPictureModel, BroughtUpTensorModel

Item = Block | Statement
_OF_MODELS = frozenset(
    name
    for model in (BroughtUpPictureModel, BroughtUpTensorModel)
    for base in model.__mro__
    for name in (*vars(base), *vars(base).get("__annotations__", ()))
    if name != "picture"
)
"""Names that the base of a model has a meaning for."""
KEEPERS = frozenset({"add", "concat"})
"""Layers that free their input unless a setting keeps it."""


@dataclass
class GeneratedClass:
    name: str
    torch_class: str
    init: list[str]
    call: list[str]
    parameters: list[str]
    """Names of what it is called with."""

    def serves(self, torch_class: str, init: list[str], call: list[str]) -> bool:
        return (self.torch_class, self.init, self.call) == (torch_class, init, call)

    def code(self) -> str:
        given = ", ".join(f"{name}: Any" for name in self.parameters)
        lines = [
            f"class {self.name}:",
            "    def __init__(self, layers: LayerFactory, module: Any, name: str) -> None:",
            *(f"        {line}" for line in self.init),
            "",
            f"    def __call__(self, {given}) -> Any:",
            *(f"        {line}" for line in self.call),
        ]
        return "\n".join(lines)


class ClassWriter:
    """Writes the class of every block; blocks with the same code, or that only lack layers, share one."""

    def __init__(self, program: Program, flow: Flow) -> None:
        self.program, self.flow = program, flow
        self.classes: list[GeneratedClass] = []
        self.optional: set[str] = set()
        """Names of layers and blocks that a class has only where the table of settings has them."""
        self._made: dict[Block, GeneratedClass] = {}

    def write_inside(self, block: Block) -> None:
        """The classes of all blocks inside, the innermost first: what is made of them is part of the outer ones."""
        by_depth: dict[int, list[Block]] = {}
        for depth, inner in _inner(block):
            by_depth.setdefault(depth, []).append(inner)
        for depth in sorted(by_depth, reverse=True):
            kinds: dict[str, list[Block]] = {}
            for inner in by_depth[depth]:
                kinds.setdefault(inner.call.qualified, []).append(inner)
            for blocks in kinds.values():
                self._write_kind(blocks)

    def _write_kind(self, blocks: list[Block]) -> None:
        """Blocks of one torch class."""
        shapes = {}
        for block in blocks:
            writer = BlockWriter(self, block, "module", named=True)
            shapes[block] = block_shape(block, self.flow, writer.runs(), writer.run_name, writer.run_made)
        for whole, optional, served in grouped(shapes):
            init, call, parameters = BlockWriter(self, whole, "module", named=True, optional=optional).write()
            found = next((each for each in self.classes if each.serves(whole.call.qualified, init, call)), None)
            if found is None:
                name = self._free_name(f"Tt{camel(whole.call.kind)}")
                found = GeneratedClass(name, whole.call.qualified, init, call, parameters)
                self.classes.append(found)
            for block in served:
                self._made[block] = found
                own = BlockWriter(self, block, "module", named=True)
                for run in own.runs():
                    if own.run_name(run) in optional:
                        self.optional |= {
                            each.layer.name if isinstance(each, Statement) else each.call.name for each in run
                        }

    def class_of(self, block: Block) -> GeneratedClass:
        return self._made[block]

    def _free_name(self, name: str) -> str:
        taken = {each.name for each in self.classes}
        letters = (f"{name}{letter}" for letter in "BCDEFGHIJKLMNOPQRSTUVWXYZ")
        numbers = (f"{name}{number}" for number in count(27))
        return next(free for free in (name, *letters, *islice(numbers, len(taken))) if free not in taken)


def _inner(block: Block, depth: int = 1) -> Iterator[tuple[int, Block]]:
    for item in block.items:
        if isinstance(item, Block):
            yield depth, item
            yield from _inner(item, depth + 1)


class BlockWriter:
    """`__init__` and `__call__` of one block."""

    def __init__(
        self,
        writer: ClassWriter,
        block: Block,
        variable: str,
        named: bool,
        optional: frozenset[str] = frozenset(),
    ) -> None:
        self.writer, self.block, self.flow = writer, block, writer.flow
        self.expressions = Expressions(writer.program.graph.model, block.call.path, variable)
        self.named = named
        self.optional = optional
        self.init: list[str] = []
        self.call: list[str] = []
        self.attributes: set[str] = set()
        self.reserved = frozenset() if named else _OF_MODELS
        self.names: dict[Value, str] = {}
        self.inputs: dict[Value, str] = {}
        self.constants: dict[str, str] = {}

    def write(self) -> tuple[list[str], list[str], list[str]]:
        parameters = self._name_inputs(self.flow.inputs(self.block))
        for run in self.runs():
            if self._is_loop(run):
                self._loop(run)
            else:
                self._one(run[0])
        values = self.flow.outputs(self.block)
        if not self.named:  # the model itself: as torch returns them, not as they are made
            values = [self.flow.tensor(value) for value in self.writer.program.outputs]
        results = [self.names[value] for value in values]
        self._finish(results)
        return self.init, self.call, parameters

    def name_of(self, value: Value) -> str:
        """Of an input; one that nothing reads has none."""
        return self.inputs.get(value, "_")

    def _name_inputs(self, values: list[Value]) -> list[str]:
        names = ["x", "y", "z"] if len(values) <= 3 else [f"x{i}" for i in range(1, len(values) + 1)]
        for value, name in zip(values, names, strict=False):
            self.names[value] = self.inputs[value] = name
        return [self.names[value] for value in values]

    def _finish(self, results: list[str]) -> None:
        """`return self.conv2(x)` in the place of a last assignment."""
        if len(results) == 1 and self.call and self.call[-1].startswith(f"{results[0]} = "):
            self.call[-1] = "return " + self.call[-1][len(results[0]) + 3 :]
            return
        self.call.append(f"return {', '.join(results)}")

    # -- lists and loops

    def runs(self) -> list[list[Item]]:
        """Items one after the other that a loop over a container of the model does, and single ones."""
        runs: list[list[Item]] = []
        for item in self.block.items:
            if runs and self._continues(runs[-1], item):
                runs[-1].append(item)
            else:
                runs.append([item])
        return runs

    def _is_loop(self, run: Sequence[Item]) -> bool:
        """Several items, or the only one of a list that may be longer in another block of the class."""
        if len(run) > 1:
            return True
        container = self._container(run[0])
        return (
            self.named
            and container is not None
            and isinstance(run[0], Block)
            and self.relative(run[0]) == f"{container}.0"
            and self._count(run[0]) == 1
            and len(self.flow.inputs(run[0])) == len(self.flow.outputs(run[0])) == 1
        )

    def run_name(self, run: Sequence[Item]) -> str:
        container = self._container(run[0])
        return container if self._is_loop(run) and container is not None else self.relative(run[0])

    def run_made(self, run: Sequence[Item]) -> str:
        container = self._container(run[0])
        if self._is_loop(run) and container is not None:
            return ", ".join(self._list(run, container))
        item = run[0]
        given = [self._constant(value) for value in item.inputs] if isinstance(item, Statement) else []
        return f"{self.made(item)} {given}" if any(given) else self.made(item)

    def _constant(self, value: Value) -> str:
        """The code of a constant as the card has it; empty for what is computed."""
        if value.constant is None:
            return ""
        rows = value.constant.shape[:-1]
        shape = (*rows, -1) if set(rows) <= {1} else value.constant.shape
        return f"layers.constant({self.expressions.constant(value.constant)}, {shape})"

    def _count(self, item: Item) -> int:
        """Of the modules in the list that the block is an element of."""
        return len(self.writer.program.graph.model.get_submodule(_list_path(item)))  # type: ignore[arg-type]

    def _continues(self, run: list[Item], item: Item) -> bool:
        container = self._container(item)
        if container is None or container != self._container(run[0]):
            return False
        before = self.flow.outputs(run[-1])
        inputs = self.flow.inputs(item)
        if len(before) != 1 or inputs != before or len(self.flow.outputs(item)) != 1:
            return False
        if isinstance(item, Statement) and not _plain_call(item):
            return False
        if isinstance(run[-1], Statement) and not _plain_call(run[-1]):
            return False
        if len(run) == 1 and len(self.flow.inputs(run[0])) != 1:
            return False
        return all(self.flow.place[s] >= 0 for s in _all(item)) and not self._read_elsewhere(before[0], item)

    def _read_elsewhere(self, value: Value, item: Item) -> bool:
        inside = {self.flow.place[statement] for statement in _all(item)}
        return any(place not in inside for place in self.flow.read[value])

    def _container(self, item: Item) -> str | None:
        """`layer1` of `layer1.0`, where `layer1` is a list of modules."""
        relative = self.relative(item)
        match = re.match(r"^(.*?)\.(\d+)(\.|$)", relative)
        return match.group(1) if match and match.group(1) else None

    def relative(self, item: Item) -> str:
        name = item.layer.name if isinstance(item, Statement) else item.call.name
        return name[len(self.block.call.name) :].lstrip(".") if self.block.call.name else name

    def _loop(self, run: Sequence[Item]) -> None:
        container = self._container(run[0])
        assert container is not None
        attribute = self._attribute(container)
        source = self.names[self.flow.inputs(run[0])[0]]
        made = broken(f"self.{attribute} = [", self._list(run, container), "]")
        if container in self.optional:  # a block that lacks it goes through no loop
            prefix = f'f"{{name}}.{container}"' if self.named else f'"{container}"'
            made = [f"self.{attribute} = []", f"if layers.has({prefix}):", *indented(made)]
        self.init += made
        result = self.flow.outputs(run[-1])[0]
        name = self._result_name(run, [source], attribute)
        one = "block" if any(isinstance(item, Block) for item in run) else "layer"
        if name != source:
            self.call.append(f"{name} = {source}")
        self.call += [f"for {one} in self.{attribute}:", f"    {name} = {one}({name})"]
        self.names[result] = name

    def _list(self, run: Sequence[Item], container: str) -> list[str]:
        """The elements; those of one class one after the other as a comprehension."""
        groups: list[list[Item]] = []
        for item in run:
            same = groups and isinstance(item, Block) and isinstance(groups[-1][-1], Block)
            if (
                same
                and self._class(groups[-1][-1]) == self._class(item)
                and _follow(self._index(groups[-1][-1]), self._index(item))
            ):
                groups[-1].append(item)
            else:
                groups.append([item])
        parts: list[str] = []
        for group in groups:
            if len(group) < 2 and not (len(groups) == 1 and self._count(group[0]) == 1):
                parts += [self.made(item) for item in group]
                continue
            parts.append(self._comprehension(group, container, alone=len(groups) == 1))
        return parts

    def _comprehension(self, group: list[Item], container: str, alone: bool) -> str:
        first, last = self._index(group[0]), self._index(group[-1])
        modules = self.expressions.access(_list_path(group[0]))
        count = self._count(group[0])
        part = "" if first == 0 and last == count - 1 else f"[{first or ''}:{'' if last == count - 1 else last + 1}]"
        start = f", {first}" if first else ""
        prefix = f"{{name}}.{container}" if self.named else container
        code = (
            f'{self._class(group[0])}(layers, block, f"{prefix}.{{index}}") '
            f"for index, block in enumerate({modules}{part}{start})"
        )
        return code if alone else f"*({code})"

    def _class(self, item: Item) -> str:
        assert isinstance(item, Block)
        return self.writer.class_of(item).name

    def _index(self, item: Item) -> int:
        container = self._container(item)
        assert container is not None
        match = re.match(r"^(\d+)$", self.relative(item)[len(container) + 1 :])
        return int(match.group(1)) if match else -1

    # -- single items

    def _one(self, item: Item) -> None:
        attribute = self._attribute(self._short(item))
        made = folded(f"self.{attribute} = {self.made(item)}")
        optional = self.relative(item) in self.optional
        if optional:
            made = [f"self.{attribute} = None", f"if layers.has({self._name_code(item)}):", *indented(made)]
        self.init += made
        tensors = self.flow.inputs(item)
        sources = [self.names[value] for value in tensors]
        call = self._arguments(item) if isinstance(item, Statement) else ", ".join(sources)
        outputs = self.flow.outputs(item) or ([*item.outputs] if isinstance(item, Statement) else [])
        targets = []
        dead = [self.names[v] for v in tensors if not self.flow.readers_after(v, item)]
        for value in outputs:
            self.names[value] = dead.pop(0) if dead else self._new_name(attribute)
            targets.append(self.names[value])
        line = f"{', '.join(targets)} = self.{attribute}({call})"
        if not optional:
            self.call += folded(line)
        elif targets[0] == sources[0]:
            self.call += [f"if self.{attribute} is not None:", *indented(folded(line))]
        else:
            self.call.append(f"{targets[0]} = {sources[0]} if self.{attribute} is None else self.{attribute}({call})")

    def made(self, item: Item) -> str:
        if isinstance(item, Block):
            module = self.expressions.access(item.call.path)
            return f"{self.writer.class_of(item).name}(layers, {module}, {self._name_code(item)})"
        spec = item.layer
        arguments = [self._name_code(item), *(self.expressions.of(each) for each in spec.arguments)]
        arguments += [f"{key}={self.expressions.of(value)}" for key, value in spec.keywords.items()]
        return f"layers.{spec.method}({', '.join(arguments)})"

    def _name_code(self, item: Item) -> str:
        relative = self.relative(item)
        return f'f"{{name}}.{relative}"' if self.named else f'"{relative}"'

    def _arguments(self, statement: Statement) -> str:
        given = [self._argument(value) for value in statement.inputs]
        template = statement.call or ", ".join(f"{{{index}}}" for index in range(len(given)))
        kept = []
        if statement.layer.method in KEEPERS:
            owners = [value.owner for value in statement.inputs]
            for value, name in zip(statement.inputs, given, strict=True):
                twice = owners.count(value.owner) > 1
                if value.constant is not None or twice or self.flow.memory_read_after(value, statement):
                    kept.append(name)
        keep = f", kept=[{', '.join(dict.fromkeys(kept))}]" if kept else ""
        return template.format(*given) + keep

    def _argument(self, value: Value) -> str:
        if value.constant is None:
            return self.names[self.flow.tensor(value)]
        code = self._constant(value)
        if code not in self.constants:
            source = value.constant.constant.source
            hint = source.path if isinstance(source, Parameter) else source.name
            attribute = self._attribute(hint.split(".")[-1])
            self.constants[code] = f"self.{attribute}"
            self.init += folded(f"self.{attribute} = {code}")
        return self.constants[code]

    def _short(self, item: Item) -> str:
        """The module's name where one layer is all that has come of it: `cv1` for `cv1.conv`."""
        relative = self.relative(item)
        if isinstance(item, Statement):
            parts = relative.split(".")
            taken = {self.relative(each).split(".")[0] for each in self.block.items if each is not item}
            if len(parts) > 1 and parts[0] not in taken:
                return parts[0]
        return relative

    def _attribute(self, text: str) -> str:
        plain = re.sub(r"\W", "_", text)
        if plain[0].isdigit():
            plain = f"layer{plain}"
        if keyword.iskeyword(plain) or plain in self.reserved:
            plain += "_"
        name, number = plain, 2
        while name in self.attributes:
            name, number = f"{plain}_{number}", number + 1
        self.attributes.add(name)
        return name

    def _result_name(self, run: Sequence[Item], sources: list[str], attribute: str) -> str:
        value = self.flow.inputs(run[0])[0]
        still = any(self.flow.readers_after(value, item) for item in run[-1:]) or value in self.flow.outputs(run[0])
        return self._new_name(attribute) if still else sources[0]

    def _new_name(self, hint: str) -> str:
        plain = re.sub(r"^\d+", "", re.sub(r"\W", "_", hint)) or "y"
        taken = set(self.names.values()) | {"layers", "module", "name", "self", "block", "layer"}
        short = next((letter for letter in "xyz" if letter not in taken), None)
        if short is not None:
            return short
        name, number = plain, 2
        while name in taken or keyword.iskeyword(name):
            name, number = f"{plain}_{number}", number + 1
        return name


def _list_path(item: Item) -> str:
    """In the model, of the list that a block is an element of; its name says which call of the list it is, too."""
    assert isinstance(item, Block)
    return item.call.path.rpartition(".")[0]


def _plain_call(statement: Statement) -> bool:
    return not statement.call and len(statement.inputs) == 1 and statement.layer.method not in KEEPERS


def _all(item: Item) -> Sequence[Statement]:
    return [item] if isinstance(item, Statement) else list(item.statements())


def _follow(first: int, second: int) -> bool:
    return first >= 0 and second == first + 1


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9a-zA-Z]+", name) if part)
