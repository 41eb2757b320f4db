# SPDX-License-Identifier: Apache-2.0
"""How a tensor of the torch model lies in the memory of the card.

TT-NN keeps images with their channels last and their pixels flattened, while torch has them NCHW. A `Form` says which
runs of memory make up each dimension that torch sees, so that views, transposes and permutations of torch mostly cost
nothing: they change the form, not the tensor. `x.flatten(2).transpose(1, 2)` of an image is the image itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod


class NotExpressible(ValueError):
    """A view that cuts through runs of memory: the tensor has to be brought into torch's order first."""


@dataclass(frozen=True)
class Form:
    """`runs` are sizes in the order of memory, none of them 1; `dims` are the runs of each torch dimension."""

    runs: tuple[int, ...]
    dims: tuple[tuple[int, ...], ...]

    @staticmethod
    def in_order(shape: Sequence[int], order: Iterable[int] | None = None) -> Form:
        """A tensor of torch's shape whose dimensions lie in memory in this order; torch's own where None."""
        places = list(order) if order is not None else list(range(len(shape)))
        kept = [dim for dim in places if shape[dim] != 1]
        runs = tuple(shape[dim] for dim in kept)
        return Form(runs, tuple((kept.index(dim),) if shape[dim] != 1 else () for dim in range(len(shape))))

    @property
    def shape(self) -> tuple[int, ...]:
        """As torch sees it."""
        return tuple(prod(self.runs[run] for run in dim) for dim in self.dims)

    def lies_in(self, order: Iterable[int]) -> bool:
        """Whether torch's dimensions lie one after the other in memory in this order."""
        listed = [run for dim in order for run in self.dims[dim]]
        return listed == list(range(len(self.runs)))

    def permuted(self, order: Sequence[int]) -> Form:
        return Form(self.runs, tuple(self.dims[dim] for dim in order))

    def reshaped(self, shape: Sequence[int]) -> Form:
        """The same memory seen in another shape; `NotExpressible` where the new dimensions cut through runs."""
        if prod(shape) != prod(self.runs):
            raise ValueError(f"{self.shape} cannot be seen as {tuple(shape)}")
        pieces: list[tuple[int, int]] = [(run, self.runs[run]) for dim in self.dims for run in dim]
        parts: dict[int, list[int]] = {run: [] for run in range(len(self.runs))}
        dims: list[list[tuple[int, int]]] = []
        queue = pieces[::-1]
        for size in shape:
            dim: list[tuple[int, int]] = []
            missing = size
            while missing > 1:
                run, length = queue.pop()
                if missing % length == 0:
                    taken = length
                elif length % missing == 0:
                    taken = missing
                    queue.append((run, length // missing))
                else:
                    raise NotExpressible(f"{self.shape} as {tuple(shape)} cuts through runs of memory {self.runs}")
                dim.append((run, len(parts[run])))
                parts[run].append(taken)
                missing //= taken
            dims.append(dim)
        starts: dict[int, int] = {}
        runs: list[int] = []
        for run in range(len(self.runs)):
            starts[run] = len(runs)
            runs += parts[run]
        return Form(tuple(runs), tuple(tuple(starts[run] + part for run, part in dim) for dim in dims)).merged()

    def merged(self) -> Form:
        """Neighbours in memory that are neighbours in the same torch dimension as one run."""
        follows = {first: second for dim in self.dims for first, second in pairwise(dim) if second == first + 1}
        joined: list[list[int]] = []
        for run in range(len(self.runs)):
            if joined and follows.get(joined[-1][-1]) == run:
                joined[-1].append(run)
            else:
                joined.append([run])
        place = {group[0]: index for index, group in enumerate(joined)}
        dims = tuple(tuple(place[run] for run in dim if run in place) for dim in self.dims)
        return Form(tuple(prod(self.runs[run] for run in group) for group in joined), dims)

    def movement(self, order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The permutation of memory that brings torch's dimensions into this order: the shape to see, and the order."""
        wanted = [run for dim in order for run in self.dims[dim]]
        return self.runs, tuple(wanted)


IMAGE = (0, 2, 3, 1)
"""Torch's NCHW as TT-NN keeps it."""


def image_form(shape: Sequence[int]) -> Form:
    return Form.in_order(shape, IMAGE)


def nearest_order(form: Form) -> tuple[int, ...]:
    """The order of torch's dimensions that is nearest to that of memory: the least has to be moved for it."""
    placed = sorted((dim for dim in range(len(form.dims)) if form.dims[dim]), key=lambda dim: min(form.dims[dim]))
    return _with_ones(placed, form)


def _with_ones(placed: list[int], form: Form) -> tuple[int, ...]:
    """Dimensions of 1 stand where torch has them: they lie nowhere."""
    order = list(placed)
    for dim in range(len(form.dims)):
        if not form.dims[dim]:
            order.insert(min(dim, len(order)), dim)
    return tuple(order)


def order_of(form: Form) -> tuple[int, ...] | None:
    """The order in which torch's dimensions lie in memory; None where one of them is spread."""
    order = nearest_order(form)
    return order if form.lies_in(order) else None
