# SPDX-License-Identifier: Apache-2.0
"""What parameters are made from, as a digest: a model, the functions that convert it, and all that those refer to.

Objects are followed to the end: attributes, items, tensors, closures, the globals that functions read, the functions
that these call, and the modules of which they use a name. Code of installed packages is known by the contents of its
file, and is not followed further. What cannot be seen is `NotCacheable`: a stale answer is worse than none.
"""

from __future__ import annotations

import builtins
import enum
import functools
import hashlib
import logging
import sys
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.preprocessing.referenced_code import (
    codes_in,
    contents,
    imported,
    is_installed,
    is_installed_module,
    own_sources,
    read_globals,
)

_PLAIN = (str, int, float, bool, complex, bytes, type(None), type(...), type(NotImplemented))
_NO_STATE_OF_A_CLASS = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__annotate_func__", "__abstractmethods__",
    "_abc_impl", "__firstlineno__", "__static_attributes__", "__annotations_cache__",
}  # fmt: skip
_UNSEEN = {
    "open", "input", "eval", "exec", "globals", "__import__", "import_module", "environ", "getenv", "read_text",
    "read_bytes", "urlopen", "load", "load_file", "safe_open", "fromfile", "loadtxt", "rand", "randn", "randint",
    "randperm", "rand_like", "randn_like", "random", "normal_", "uniform_", "time", "time_ns", "perf_counter", "now",
}  # fmt: skip
"""Names that a function goes by to what lies outside the program: files, the environment, time and chance."""
_ANYTHING = {"getattr", "vars", "__dict__"}
"""Names by which a function may use any name of a module."""


class NotCacheable(Exception):
    """Something cannot be seen, or has no word in the file format."""


def fingerprint(model: Any, options: Mapping[str, Any]) -> str:
    """The same for the same model and options; another one when anything changes that they depend on."""
    reader = _Reader()
    reader.token(sys.version_info[:2], torch.__version__, torch.get_default_dtype(), ttnn.Tensor, own_sources())
    try:
        reader.read("the model", model)
        reader.watches = True
        for name in sorted(options):
            reader.token("option", name)
            reader.read(name, options[name])
    except RecursionError as error:
        raise NotCacheable("a set holds itself") from error
    return reader.digest.hexdigest()


Child = tuple[str, Any]
"""How to get to it, and what it is."""


class _Used:
    """A module, of which some names are used; all where `names` is None."""

    def __init__(self, module: ModuleType, names: frozenset[str] | None) -> None:
        self.module, self.names = module, names


class _Reader:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.watches = False
        """Whether functions may reach outside the program. Those of a model have done so when it was made."""
        self._numbers: dict[Any, int] = {}
        self._alive: list[Any] = []
        """All that was numbered by its identity, so that no identity is used twice."""

    def token(self, *parts: Any) -> None:
        self.digest.update(repr(parts).encode() + b"\n")

    def read(self, where: str, value: Any) -> None:
        pending: list[Child] = [(where, value)]
        while pending:
            where, value = pending.pop()
            if type(value) in _PLAIN:
                self.token(type(value).__name__, value)
                continue
            key = (id(value.module), value.names) if isinstance(value, _Used) else id(value)
            if key in self._numbers:
                self.token("seen", self._numbers[key])
                continue
            self._numbers[key] = len(self._numbers)
            self._alive.append(value)
            children = list(self._look(where, value))
            self.token("holds", len(children))
            pending.extend(reversed(children))

    def _look(self, where: str, value: Any) -> Iterator[Child]:
        for kinds, look in _KINDS:
            if isinstance(value, kinds):
                yield from look(self, where, value)
                return
        yield from self._object(where, value)

    # --- kinds of values: what is known at once, and what is to be read next ------------------------------------------

    def _tensor(self, where: str, value: torch.Tensor) -> Iterator[Child]:
        data: Any
        try:
            data = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise NotCacheable(f"the values of {where} cannot be seen ({str(error).splitlines()[0]})") from error
        self.token(
            type(value).__name__, value.dtype, tuple(value.shape), value.stride(), value.requires_grad, data.size
        )
        self.digest.update(data)
        if vars(value):
            yield f"{where}.__dict__", vars(value)

    def _tt_tensor(self, where: str, value: Any) -> Iterator[Child]:
        self.token("ttnn", str(value.dtype), str(value.layout))
        for part in ttnn.get_device_tensors(value):
            yield where, ttnn.to_torch(part)

    def _name(self, where: str, value: Any) -> Iterator[Child]:
        self.token(type(value).__name__, str(value))
        yield from ()

    def _enum(self, where: str, value: enum.Enum) -> Iterator[Child]:
        self.token("enum", value.name)
        yield f"the class of {where}", type(value)

    def _mapping(self, where: str, value: Mapping[Any, Any]) -> Iterator[Child]:
        self.token("items", len(value))
        yield f"the class of {where}", type(value)
        for key, item in value.items():
            yield f"a key of {where}", key
            yield f"{where}[{key!r:.40}]", item
        yield from self._beyond_items(where, value)

    def _sequence(self, where: str, value: Any) -> Iterator[Child]:
        self.token("sequence", len(value))
        yield f"the class of {where}", type(value)
        for index, item in enumerate(tuple(value)):
            yield f"{where}[{index}]", item
        yield from self._beyond_items(where, value)

    def _set(self, where: str, value: Any) -> Iterator[Child]:
        """In an order of its own: a set's differs from run to run."""
        found = []
        for item in value:
            reader = _Reader()
            reader.watches = self.watches
            reader.read(f"an item of {where}", item)
            found.append(reader.digest.hexdigest())
        self.token("set", sorted(found))
        yield f"the class of {where}", type(value)
        yield from self._attributes(where, value)

    def _beyond_items(self, where: str, value: Any) -> Iterator[Child]:
        """What a kind of list or dictionary holds besides, such as a default."""
        if type(value) not in (list, tuple, dict, MappingProxyType):
            yield from self._object(where, value)

    def _module(self, where: str, value: ModuleType) -> Iterator[Child]:
        yield where, _Used(value, None)

    def _used(self, where: str, value: _Used) -> Iterator[Child]:
        module, names = value.module, value.names
        self.token("module", module.__name__, getattr(module, "__version__", None))
        if is_installed_module(module):
            return
        for name, item in sorted(vars(module).items(), key=lambda pair: pair[0]):
            if not name.startswith("__") and (names is None or name in names):
                self.token("name", name)
                yield f"{module.__name__}.{name}", _Used(item, names) if isinstance(item, ModuleType) else item

    def _function(self, where: str, value: FunctionType) -> Iterator[Child]:
        code = value.__code__
        installed = is_installed(code.co_filename)
        self.token("function", value.__qualname__, contents(code.co_filename) if installed else "")
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            yield f"{name} in {value.__qualname__}", cell
        yield f"the defaults of {value.__qualname__}", (value.__defaults__, value.__kwdefaults__)
        yield f"{value.__qualname__}.__dict__", vars(value)
        if not installed:
            yield value.__qualname__, code
            yield from self._globals(value)

    def _globals(self, function: FunctionType) -> Iterator[Child]:
        codes = list(codes_in(function.__code__))
        names = frozenset(name for code in codes for name in code.co_names)
        if self.watches and (unseen := sorted(names & _UNSEEN)):
            raise NotCacheable(
                f"{function.__qualname__} uses {', '.join(unseen)}, and what comes from there cannot be seen"
            )
        used = None if names & _ANYTHING else names
        for name in sorted({name for code in codes for name in read_globals(code)}):
            if name in function.__globals__:
                self.token("global", name)
                item = function.__globals__[name]
                yield name, _Used(item, used) if isinstance(item, ModuleType) else item
            else:
                self.token("builtin" if hasattr(builtins, name) else "missing", name)
        try:
            modules = list(imported(codes, function.__globals__.get("__package__") or ""))
        except Exception as error:  # of whatever kind a module raises; so would the function, when it runs
            raise NotCacheable(f"a module that {function.__qualname__} imports cannot be seen ({error})") from error
        for name, module in modules:
            self.token("imports", name)
            if module is not None:
                yield name, _Used(module, used)

    def _code(self, where: str, value: CodeType) -> Iterator[Child]:
        self.token("code", value.co_code, value.co_names, value.co_varnames, value.co_flags, value.co_argcount)
        yield where, value.co_consts

    def _cell(self, where: str, value: CellType) -> Iterator[Child]:
        try:
            yield where, value.cell_contents
        except ValueError:  # it is filled later, as for a function that calls itself
            self.token("empty")

    def _builtin(self, where: str, value: BuiltinFunctionType) -> Iterator[Child]:
        self.token("builtin", value.__qualname__)
        if not isinstance(value.__self__, ModuleType):
            yield where, value.__self__

    def _class(self, where: str, value: type) -> Iterator[Child]:
        module = sys.modules.get(value.__module__)
        installed = module is not None and is_installed_module(module)
        self.token("class", value.__module__, value.__qualname__)
        if installed:
            self.token(contents(getattr(module, "__file__", None)))
            return
        yield f"the class of {value.__qualname__}", type(value)
        yield f"the bases of {value.__qualname__}", value.__bases__
        for name, item in vars(value).items():
            if name not in _NO_STATE_OF_A_CLASS:
                self.token("name", name)
                yield f"{value.__qualname__}.{name}", item

    def _device(self, where: str, value: Any) -> Iterator[Child]:
        grid = value.compute_with_storage_grid_size()
        self.token("device", str(value.arch()), str(value.shape), str(grid))
        yield from ()

    def _logger(self, where: str, value: logging.Logger) -> Iterator[Child]:
        self.token("logger", value.name)
        yield from ()

    def _descriptor(self, where: str, value: Any) -> Iterator[Child]:
        self.token(type(value).__name__, value.__qualname__)
        yield from ()

    def _object(self, where: str, value: Any) -> Iterator[Child]:
        """By what it would be pickled as, which says where there is more than can be seen, and by its attributes."""
        try:
            made = value.__reduce_ex__(4)
        except Exception as error:  # whatever a class raises that does not want to be pickled
            raise NotCacheable(f"{where} is a {type(value).__name__}, and what it holds cannot be seen") from error
        self.token("object")
        yield f"the class of {where}", type(value)
        yield where, made if isinstance(made, str) else [list(part) if _iterates(part) else part for part in made]
        yield from self._attributes(where, value)

    def _attributes(self, where: str, value: Any) -> Iterator[Child]:
        own = getattr(value, "__dict__", None)
        for name, item in own.items() if isinstance(own, dict) else ():
            self.token("attribute", name)
            yield f"{where}.{name}", item


def _parts(*names: str) -> Any:
    """A kind that is all said by some of its attributes."""

    def look(reader: _Reader, where: str, value: Any) -> Iterator[Child]:
        reader.token(type(value).__name__)
        for name in names:
            yield f"{where}.{name}", getattr(value, name)

    return look


_DESCRIPTORS = (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
_KINDS: tuple[tuple[Any, Any], ...] = (
    (torch.Tensor, _Reader._tensor),
    (ttnn.Tensor, _Reader._tt_tensor),
    (ttnn.MeshDevice, _Reader._device),
    ((ttnn.DataType, ttnn.Layout), _Reader._name),
    (_Used, _Reader._used),
    (ModuleType, _Reader._module),
    (FunctionType, _Reader._function),
    (CodeType, _Reader._code),
    (CellType, _Reader._cell),
    (MethodType, _parts("__func__", "__self__")),
    (BuiltinFunctionType, _Reader._builtin),
    (property, _parts("fget", "fset", "fdel")),
    ((staticmethod, classmethod), _parts("__func__")),
    (functools.cached_property, _parts("func", "attrname")),
    (type(functools.cache(len)), _parts("__wrapped__")),
    (_DESCRIPTORS, _Reader._descriptor),
    (type, _Reader._class),
    (enum.Enum, _Reader._enum),
    ((set, frozenset), _Reader._set),
    ((dict, MappingProxyType), _Reader._mapping),
    ((list, tuple), _Reader._sequence),
    (logging.Logger, _Reader._logger),
)
"""The first that fits counts; what fits none is an object."""


def _iterates(value: Any) -> bool:
    return hasattr(value, "__next__")
