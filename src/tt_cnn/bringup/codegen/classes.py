"""Classes of the model's code: one for each kind of module, lists and loops where the model has stages."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tt_cnn.bringup.codegen.blocks import Block, Flow
from tt_cnn.bringup.codegen.expressions import Expressions
from tt_cnn.bringup.lowering.program import Program, Statement, Value

Item = Block | Statement
WIDTH = 120
KEEPERS = frozenset({"add", "concat"})
"""Layers that give back whatever they are not told to keep."""


@dataclass
class GeneratedClass:
    name: str
    torch_class: str
    init: list[str]
    call: list[str]
    parameters: list[str]
    """Names of what it is called with."""

    @property
    def body(self) -> tuple[str, ...]:
        return (*self.init, "--", *self.call)

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


@dataclass
class ClassWriter:
    """Writes the class of every block; blocks with the same code share one."""

    program: Program
    flow: Flow
    classes: list[GeneratedClass] = field(default_factory=list)
    made: dict[Block, GeneratedClass] = field(default_factory=dict)

    def class_of(self, block: Block) -> GeneratedClass:
        if block not in self.made:
            init, call, parameters = BlockWriter(self, block, "module", named=True).write()
            kind = _camel(block.call.kind)
            alike = [each for each in self.classes if each.torch_class == block.call.qualified]
            found = next((each for each in alike if each.body == (*init, "--", *call)), None)
            if found is None:
                found = GeneratedClass(
                    self._free_name(f"Tt{kind}"), block.call.qualified, init, call, parameters
                )
                self.classes.append(found)
            self.made[block] = found
        return self.made[block]

    def _free_name(self, name: str) -> str:
        taken = {each.name for each in self.classes}
        number = 2
        free = name
        while free in taken:
            free, number = f"{name}{number}", number + 1
        return free


class BlockWriter:
    """`__init__` and `__call__` of one block."""

    def __init__(self, writer: ClassWriter, block: Block, variable: str, named: bool) -> None:
        self.writer, self.block, self.flow = writer, block, writer.flow
        self.expressions = Expressions(writer.program.graph.model, block.call.path, variable)
        self.named = named
        self.init: list[str] = []
        self.call: list[str] = []
        self.attributes: set[str] = set()
        self.names: dict[Value, str] = {}
        self.constants: dict[tuple[str, tuple[int, ...]], str] = {}

    def write(self) -> tuple[list[str], list[str], list[str]]:
        parameters = self._name_inputs(self.flow.inputs(self.block))
        for run in self._runs():
            if len(run) == 1:
                self._one(run[0])
            else:
                self._loop(run)
        results = [self.names[value] for value in self.flow.outputs(self.block)]
        self._finish(results)
        return self.init, self.call, parameters

    def _name_inputs(self, values: list[Value]) -> list[str]:
        names = ["x", "y", "z"] if len(values) <= 3 else [f"x{i}" for i in range(1, len(values) + 1)]
        for value, name in zip(values, names, strict=False):
            self.names[value] = name
        return [self.names[value] for value in values]

    def _finish(self, results: list[str]) -> None:
        """`return self.conv2(x)` in the place of a last assignment."""
        if len(results) == 1 and self.call and self.call[-1].startswith(f"{results[0]} = "):
            self.call[-1] = "return " + self.call[-1][len(results[0]) + 3 :]
            return
        self.call.append(f"return {', '.join(results)}")

    # -- lists and loops

    def _runs(self) -> list[list[Item]]:
        """Items one after the other that a loop over a container of the model does."""
        runs: list[list[Item]] = []
        for item in self.block.items:
            if runs and self._continues(runs[-1], item):
                runs[-1].append(item)
            else:
                runs.append([item])
        return [part for run in runs for part in ([run] if _worth_a_loop(run) else [[item] for item in run])]

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
        relative = self._relative(item)
        match = re.match(r"^(.*?)\.(\d+)(\.|$)", relative)
        return match.group(1) if match and match.group(1) else None

    def _relative(self, item: Item) -> str:
        name = item.layer.name if isinstance(item, Statement) else item.call.name
        return name[len(self.block.call.name) :].lstrip(".") if self.block.call.name else name

    def _loop(self, run: list[Item]) -> None:
        container = self._container(run[0])
        assert container is not None
        attribute = self._attribute(container)
        source = self.names[self.flow.inputs(run[0])[0]]
        made = self._list(run, container)
        self.init += _broken(f"self.{attribute} = [", made, "]")
        result = self.flow.outputs(run[-1])[0]
        name = self._result_name(run, [source], attribute)
        one = "block" if any(isinstance(item, Block) for item in run) else "layer"
        if name != source:
            self.call.append(f"{name} = {source}")
        self.call += [f"for {one} in self.{attribute}:", f"    {name} = {one}({name})"]
        self.names[result] = name

    def _list(self, run: list[Item], container: str) -> list[str]:
        """The elements; those of one class one after the other as a comprehension."""
        groups: list[list[Item]] = []
        for item in run:
            same = groups and isinstance(item, Block) and isinstance(groups[-1][-1], Block)
            if same and self._class(groups[-1][-1]) == self._class(item) and _follow(self._index(groups[-1][-1]), self._index(item)):
                groups[-1].append(item)
            else:
                groups.append([item])
        parts: list[str] = []
        for group in groups:
            if len(group) < 2:
                parts += [self._made(item) for item in group]
                continue
            parts.append(self._comprehension(group, container, alone=len(groups) == 1))
        return parts

    def _comprehension(self, group: list[Item], container: str, alone: bool) -> str:
        first, last = self._index(group[0]), self._index(group[-1])
        path = f"{self.block.call.path}.{container}" if self.block.call.path else container
        modules = self.expressions.access(path)
        count = len(self.writer.program.graph.model.get_submodule(path))  # type: ignore[arg-type]
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
        match = re.match(r"^(\d+)$", self._relative(item)[len(container) + 1 :])
        return int(match.group(1)) if match else -1

    # -- single items

    def _one(self, item: Item) -> None:
        attribute = self._attribute(self._short(item))
        self.init += _folded(f"self.{attribute} = {self._made(item)}")
        tensors = self.flow.inputs(item)
        sources = [self.names[value] for value in tensors]
        call = self._arguments(item) if isinstance(item, Statement) else ", ".join(sources)
        outputs = self.flow.outputs(item) or ([*item.outputs] if isinstance(item, Statement) else [])
        targets = []
        dead = [self.names[v] for v in tensors if not self.flow.readers_after(v, item)]
        for value in outputs:
            self.names[value] = dead.pop(0) if dead else self._new_name(attribute)
            targets.append(self.names[value])
        self.call += _folded(f"{', '.join(targets)} = self.{attribute}({call})")

    def _made(self, item: Item) -> str:
        if isinstance(item, Block):
            module = self.expressions.access(item.call.path)
            return f"{self.writer.class_of(item).name}(layers, {module}, {self._name_code(item)})"
        spec = item.layer
        arguments = [self._name_code(item), *(self.expressions.of(each) for each in spec.arguments)]
        arguments += [f"{key}={self.expressions.of(value)}" for key, value in spec.keywords.items()]
        return f"layers.{spec.method}({', '.join(arguments)})"

    def _name_code(self, item: Item) -> str:
        relative = self._relative(item)
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
        code = self.expressions.constant(value.constant)
        key = (code, value.constant.shape)
        if key not in self.constants:
            source = value.constant.constant.source
            hint = getattr(source, "path", None) or getattr(source, "name", "constant")
            attribute = self._attribute(hint.split(".")[-1])
            self.constants[key] = f"self.{attribute}"
            self.init += _folded(f"self.{attribute} = layers.constant({code}, {value.constant.shape})")
        return self.constants[key]

    def _short(self, item: Item) -> str:
        """The module's name where one layer is all that has come of it: `cv1` for `cv1.conv`."""
        relative = self._relative(item)
        if isinstance(item, Statement):
            parts = relative.split(".")
            taken = {self._relative(each).split(".")[0] for each in self.block.items if each is not item}
            if len(parts) > 1 and parts[0] not in taken:
                return parts[0]
        return relative

    def _attribute(self, text: str) -> str:
        plain = re.sub(r"\W", "_", text)
        if plain[0].isdigit():
            plain = f"layer{plain}"
        if keyword.iskeyword(plain):
            plain += "_"
        name, number = plain, 2
        while name in self.attributes:
            name, number = f"{plain}_{number}", number + 1
        self.attributes.add(name)
        return name

    def _result_name(self, run: list[Item], sources: list[str], attribute: str) -> str:
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


def _plain_call(statement: Statement) -> bool:
    return not statement.call and len(statement.inputs) == 1 and statement.layer.method not in KEEPERS


def _worth_a_loop(run: list[Item]) -> bool:
    return len(run) > 1


def _all(item: Item) -> Sequence[Statement]:
    return [item] if isinstance(item, Statement) else list(item.statements())


def _follow(first: int, second: int) -> bool:
    return first >= 0 and second == first + 1


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9a-zA-Z]+", name) if part)


def _broken(opening: str, elements: list[str], closing: str) -> list[str]:
    whole = f"{opening}{', '.join(elements)}{closing}"
    if len(whole) + 8 <= WIDTH:
        return [whole]
    comma = "" if len(elements) == 1 and " for " in elements[0] and not elements[0].startswith("*") else ","
    inside = [line for each in elements for line in _folded_element(each + comma)]
    return [opening, *(f"    {line}" for line in inside), closing]


def _folded_element(text: str) -> list[str]:
    if len(text) + 12 <= WIDTH or " for " not in text:
        return [text]
    before, _, after = text.partition(" for ")
    return [before, f"for {after}"]


def _folded(text: str) -> list[str]:
    """A call that is too long for a line, an argument a line."""
    if len(text) + 8 <= WIDTH:
        return [text]
    start = text.index("(")
    inner = text[start + 1 : -1]
    return [text[: start + 1], *(f"    {part}," for part in _split(inner)), ")"]


def _split(text: str) -> list[str]:
    """At the commas of the outermost level."""
    parts, depth, current, quoted = [], 0, "", False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        if not quoted and letter in "([{":
            depth += 1
        if not quoted and letter in ")]}":
            depth -= 1
        if letter == "," and depth == 0 and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [*parts, current.strip()]
