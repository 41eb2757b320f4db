# SPDX-License-Identifier: Apache-2.0
"""Ops that ignore parameters, each in a way of its own: what the check of `test_parameters_count` has to find."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual.ops import OPERATIONS
from tt_cnn.virtual.ops.eltwise.unary import Unary
from tt_cnn.virtual.ops.operation import Call, Operation


class Careless(Operation):
    def arguments(
        self, x: Any, used: int, bound: int = 0, deleted: int = 0, swallowed: int = 0, unread: int = 0
    ) -> Call:
        del deleted
        return Call([x], used=used, swallowed=swallowed, unread=unread)

    def plan(self, planner: Any, x: Any, used: int, unread: int, **_: Any) -> list[Any]:
        return [used]

    def numbers(self, context: Any, x: Any, **_: Any) -> list[Any]:
        return [x]


class Forgetful(Operation):
    def arguments(self, x: Any, *, kept: int = 0, lost: int = 0) -> Call:
        given = locals()
        del given["self"]
        return self.make_call(given.pop("x"), **given)

    def make_call(self, x: Any, **options: Any) -> Call:
        return Call([x], kept=options["kept"])

    def plan(self, planner: Any, x: Any, kept: int) -> list[Any]:
        return [kept]


class Deaf(Unary):
    arguments = type(OPERATIONS["elu"]).arguments
    make_kernel = staticmethod(lambda alpha: "elu")  # type: ignore[assignment]
