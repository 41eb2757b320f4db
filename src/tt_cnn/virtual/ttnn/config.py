# SPDX-License-Identifier: Apache-2.0
"""`ttnn.CONFIG`: switches of the library. They can be set and read, and each stands for what it does there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tt_cnn.cache_folder import home
from tt_cnn.virtual.references.comparison_mode import switch


@dataclass(repr=False)
class Config:
    """The settings of TT-NN 0.81.1 with its defaults. Other names are refused, as there."""

    cache_path: Path = home() / ".cache" / "ttnn"
    model_cache_path: Path = home() / ".cache" / "ttnn" / "models"
    tmp_dir: Path = Path("/tmp/ttnn")
    enable_model_cache: bool = False
    enable_fast_runtime_mode: bool = True
    validate_program_args: bool = False
    throw_exception_on_fallback: bool = False
    enable_logging: bool = False
    enable_graph_report: bool = False
    enable_graph_python_stack_traces: bool = False
    enable_detailed_buffer_report: bool = False
    enable_detailed_tensor_report: bool = False
    enable_comparison_mode: bool = False
    comparison_mode_should_raise_exception: bool = False
    comparison_mode_pcc: float = 0.9999
    root_report_path: Path = Path("generated/ttnn/reports")
    report_name: str | None = None
    strict_ccl_topology: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _KINDS:
            raise AttributeError(f"'ttnn.Config' object has no attribute {name!r}")
        kind = _KINDS[name]
        if kind is Path and isinstance(value, str):
            value = Path(value)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind):
            raise TypeError(f"CONFIG.{name} is {value!r}; it must be of type {_name(kind)}")
        before = getattr(self, name)
        object.__setattr__(self, name, value)
        if name == "enable_comparison_mode" and value is not before:
            switch(value, self)

    @staticmethod
    def keys() -> list[str]:
        return list(_KINDS)

    @property
    def report_path(self) -> Path | None:
        """The folder of the current report, where one is named."""
        return self.root_report_path / self.report_name if self.report_name else None

    def apply_json_overrides(self, text: str) -> None:
        for name, value in json.loads(text).items():
            setattr(self, name, value)

    def load_from_file(self, path: str | Path) -> None:
        self.apply_json_overrides(Path(path).read_text())

    def save_to_file(self, path: str | Path) -> None:
        values = {name: getattr(self, name) for name in self.keys()}
        Path(path).write_text(json.dumps(values, default=str, indent=4))

    def __repr__(self) -> str:
        settings = ",".join(f"{name}={_native(getattr(self, name))}" for name in self.keys())
        return f"Config{{{settings},{_native(self.report_path)}}}"

    __str__ = __repr__


_KINDS: dict[str, Any] = {
    field.name: {"Path": Path, "bool": bool, "float": float, "str | None": (str, type(None))}[str(field.type)]
    for field in fields(Config)
}


def _name(kind: Any) -> str:
    return "str or None" if isinstance(kind, tuple) else str(kind.__name__)


def _native(value: Any) -> str:
    """As the real library prints it."""
    if value is None:
        return "std::nullopt"
    return str(value).lower() if isinstance(value, bool) else str(value)


CONFIG = Config()


@contextmanager
def manage_config(name: str, value: Any) -> Iterator[None]:
    """A setting for the length of a `with` block."""
    before = getattr(CONFIG, name)
    setattr(CONFIG, name, value)
    try:
        yield
    finally:
        setattr(CONFIG, name, before)
