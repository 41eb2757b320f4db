# SPDX-License-Identifier: Apache-2.0
"""As much of FlatBuffers as a tensor's header needs: tables, vectors and numbers, read with all offsets checked.

A table starts with the distance back to its list of fields, which says for each where it stands in the table, or 0.
References are distances forward from where they stand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Damaged(Exception):
    """An offset that leads out of the buffer."""


@dataclass(frozen=True)
class Table:
    """A table of a buffer, to be asked for its fields by their numbers."""

    buffer: bytes
    at: int

    def _number(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(form) > len(self.buffer):
            raise Damaged(f"offset {at} of {len(self.buffer)} bytes")
        return int(struct.unpack_from(form, self.buffer, at)[0])

    def _place(self, number: int) -> int | None:
        fields = self.at - self._number("<i", self.at)
        if 4 + 2 * number >= self._number("<H", fields):
            return None
        offset = self._number("<H", fields + 4 + 2 * number)
        return self.at + offset if offset else None

    def number(self, field_number: int, form: str = "<I", default: int = 0) -> int:
        place = self._place(field_number)
        return default if place is None else self._number(form, place)

    def _target(self, place: int) -> int:
        return place + self._number("<I", place)

    def table(self, field_number: int) -> Table | None:
        place = self._place(field_number)
        return None if place is None else Table(self.buffer, self._target(place))

    def struct(self, field_number: int, form: str) -> tuple[int, ...]:
        """What a field of a union leads to: numbers one after the other."""
        place = self._place(field_number)
        if place is None or self._target(place) + struct.calcsize(form) > len(self.buffer):
            raise Damaged("a field that must be there is not")
        return struct.unpack_from(form, self.buffer, self._target(place))

    def numbers(self, field_number: int) -> list[int]:
        return [self._number("<I", at) for at in self._elements(field_number)]

    def tables(self, field_number: int) -> list[Table]:
        return [Table(self.buffer, self._target(at)) for at in self._elements(field_number)]

    def _elements(self, field_number: int) -> list[int]:
        place = self._place(field_number)
        if place is None:
            return []
        start = self._target(place)
        count = self._number("<I", start)
        if start + 4 + 4 * count > len(self.buffer):
            raise Damaged(f"a list of {count} elements")
        return [start + 4 + 4 * i for i in range(count)]


def root(buffer: bytes) -> Table:
    first = Table(buffer, 0)
    return Table(buffer, first._target(0))


class Number(NamedTuple):
    form: str
    value: int


class Struct(NamedTuple):
    form: str
    values: tuple[int, ...]


@dataclass
class Node:
    """A table to be written: numbers, lists of numbers, structs, other tables and lists of them, by field."""

    fields: dict[int, Number | Struct | Sequence[int] | Sequence[Node] | Node] = field(default_factory=dict)


def written(node: Node) -> bytes:
    """A buffer whose root is this table. What is referred to comes after what refers to it."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _write_table(out, node))
    return bytes(out) + bytes(-len(out) % 8)


def _align(out: bytearray, size: int, after: int = 0) -> None:
    out.extend(bytes(-(len(out) + after) % size))


def _write_table(out: bytearray, node: Node) -> int:
    """Returns where the table is."""
    places: dict[int, int] = {}
    size = 4
    for number, value in sorted(node.fields.items()):
        width = struct.calcsize(value.form) if isinstance(value, Number) else 4
        size += -size % width
        places[number] = size
        size += width
    count = max(node.fields, default=-1) + 1
    _align(out, 4, after=4 + 2 * count)
    fields = len(out)
    out.extend(struct.pack(f"<HH{count}H", 4 + 2 * count, size, *(places.get(i, 0) for i in range(count))))
    at = len(out)
    out.extend(bytes(size))
    struct.pack_into("<i", out, at, at - fields)
    for number, value in node.fields.items():
        place = at + places[number]
        if isinstance(value, Number):
            struct.pack_into(value.form, out, place, value.value)
        else:
            struct.pack_into("<I", out, place, _write_value(out, value) - place)
    return at


def _write_value(out: bytearray, value: Struct | Sequence[int] | Sequence[Node] | Node) -> int:
    if isinstance(value, Node):
        return _write_table(out, value)
    if isinstance(value, Struct):
        _align(out, 8)
        at = len(out)
        out.extend(struct.pack(value.form, *value.values))
        return at
    _align(out, 4)
    at = len(out)
    out.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
    for i, one in enumerate(value):
        place = at + 4 + 4 * i
        struct.pack_into("<I", out, place, _write_table(out, one) - place if isinstance(one, Node) else one)
    return at
