# SPDX-License-Identifier: Apache-2.0
"""Where the ops of a graph stand: in layers from top to bottom, modules as boxes around their own ops.

Each module is laid out by itself and is one item in the module around it. Edges that leave a box do so at its bottom,
through a port of their own; edges that pass a layer get a place in it. So no edge runs through an op or into a box
where it has no business. A module that became much higher than wide goes on beside itself, in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt

Point = tuple[float, float]
Edge = tuple[str, str]

GAP = 16.0
"""Between items of one layer."""
LAYER_GAP = 26.0
PORT_GAP = 8.0
"""Between the edge of a box and its first or last layer."""
COLUMN_GAP = 34.0
PAD = 12.0
CHANNEL = 5.0
"""Between edges that go side by side to the next column."""
LABEL = 18.0
"""Height of a box's own line of text."""
LANE = 12.0
"""Width that an edge gets in a layer which it passes."""
MOST_HEIGHT = 1100.0
"""A module that is higher is put into columns."""
WIDER = 1.5
"""Width to height that columns aim at."""


@dataclass(eq=False)
class Leaf:
    """An op."""

    name: str
    width: float
    height: float


@dataclass(eq=False)
class Group:
    """A module with what is called in it; `items` are in the order of execution."""

    label: str
    items: list[Leaf | Group] = field(default_factory=list)

    def leaves(self) -> Iterable[Leaf]:
        for item in self.items:
            if isinstance(item, Leaf):
                yield item
            else:
                yield from item.leaves()


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Places of ops by name, of modules in the order of drawing, and the points of edges."""

    width: float
    height: float
    leaves: dict[str, Box]
    groups: list[tuple[Group, Box]]
    edges: dict[Edge, list[Point]]


def lay_out(root: Group, edges: Iterable[Edge]) -> Layout:
    """Edges go from earlier to later leaves; the root itself gets no box."""
    wanted = list(dict.fromkeys(edges))
    laid = _Laid(root, wanted, top=True)
    leaves: dict[str, Box] = {}
    groups: list[tuple[Group, Box]] = []
    places: dict[_Laid, Point] = {}
    laid.place((0.0, 0.0), leaves, groups, places)
    return Layout(laid.width, laid.height, leaves, groups, {edge: laid.path(edge, places) for edge in wanted})


@dataclass(eq=False)
class _Cell:
    """A place in a layer: an item, a port of the module, or an edge that passes."""

    width: float
    height: float
    layer: int = 0
    x: float = 0.0
    """Of its centre."""
    y: float = 0.0
    item: Leaf | _Laid | None = None

    @property
    def weight(self) -> float:
        return 1.0 if self.item is not None else 0.6


@dataclass(frozen=True)
class _Link:
    """Between cells of neighbouring layers; shifts are from the cells' centres to the ports."""

    start: _Cell
    end: _Cell
    start_shift: float = 0.0
    end_shift: float = 0.0


class _Laid:
    """One module, laid out; coordinates are relative to its upper left corner."""

    def __init__(self, group: Group, edges: Sequence[Edge], top: bool = False) -> None:
        self.group, self.top = group, top
        names = {leaf.name for leaf in group.leaves()}
        self.names = names
        touching = [edge for edge in edges if edge[0] in names or edge[1] in names]
        self.entries = {u: _Cell(LANE, 0.0) for u, v in touching if u not in names}
        self.exits = {u: _Cell(LANE, 0.0) for u, v in touching if u in names and v not in names}
        self.cells: list[_Cell] = []
        self.owner: dict[str, _Cell] = {}
        for item in group.items:
            made: Leaf | _Laid = item if isinstance(item, Leaf) else _Laid(item, touching)
            cell = _Cell(made.width, made.height, item=made)
            self.cells.append(cell)
            self.owner |= {leaf.name: cell for leaf in ([item] if isinstance(item, Leaf) else item.leaves())}
        self.routes: dict[tuple[str, _Cell], list[_Link]] = {}
        self.channels: dict[_Link, tuple[float, float, float]] = {}
        """Of links to the next column: where they go up, and how far they keep from the layers below and above."""
        self._assign_layers(touching)
        self._assign_places()

    # -- layers

    def _ends(self, edge: Edge) -> tuple[_Cell, _Cell]:
        """The cells of this module that an edge runs between."""
        u, v = edge
        return self.owner.get(u) or self.entries[u], self.owner.get(v) or self.exits[u]

    def _assign_layers(self, edges: Sequence[Edge]) -> None:
        wanted: dict[tuple[str, _Cell], _Cell] = {}
        for edge in edges:
            start, end = self._ends(edge)
            if start is not end:
                wanted[edge[0], end] = start
        before: dict[_Cell, list[_Cell]] = {}
        for (_, end), start in wanted.items():
            before.setdefault(end, []).append(start)
        first = 1 if self.entries else 0
        for cell in self.cells:  # in the order of execution, so all that it reads has its layer
            cell.layer = max((each.layer + 1 for each in before.get(cell, ())), default=first)
        last = max((cell.layer for cell in self.cells), default=0)
        for cell in self.exits.values():
            cell.layer = last + 1
        self.layers: list[list[_Cell]] = [[] for _ in range(last + 1 + bool(self.exits))]
        for cell in (*self.entries.values(), *self.cells, *self.exits.values()):
            self.layers[cell.layer].append(cell)
        lanes: dict[tuple[str, int], _Cell] = {}
        for (source, end), start in wanted.items():
            self.routes[source, end] = self._links(source, start, end, lanes)

    def _links(self, source: str, start: _Cell, end: _Cell, lanes: dict[tuple[str, int], _Cell]) -> list[_Link]:
        """One after the other; edges from one op share their places in the layers that they pass."""
        found: list[_Link] = []
        here = start
        for layer in range(start.layer + 1, end.layer):
            if (source, layer) not in lanes:
                lanes[source, layer] = _Cell(LANE, 0.0, layer)
                self.layers[layer].append(lanes[source, layer])
            found.append(self._link(source, here, lanes[source, layer]))
            here = lanes[source, layer]
        return [*found, self._link(source, here, end)]

    def _link(self, source: str, start: _Cell, end: _Cell) -> _Link:
        leaving = start.item.exits[source].x - start.width / 2 if isinstance(start.item, _Laid) else 0.0
        entering = end.item.entries[source].x - end.width / 2 if isinstance(end.item, _Laid) else 0.0
        return _Link(start, end, leaving, entering)

    # -- places

    def _assign_places(self) -> None:
        links = list(dict.fromkeys(link for route in self.routes.values() for link in route))
        into: dict[_Cell, list[_Link]] = {}
        out: dict[_Cell, list[_Link]] = {}
        for link in links:
            into.setdefault(link.end, []).append(link)
            out.setdefault(link.start, []).append(link)
        for layer in self.layers:
            _spread(layer, [0.0] * len(layer))
        for turn in range(8):
            down = turn % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                near = into if down else out
                wished = [_wish(cell, near.get(cell, ()), down) for cell in layer]
                if turn < 4:
                    order = sorted(range(len(layer)), key=lambda i, w=wished: w[i])  # type: ignore[misc]
                    layer[:] = [layer[i] for i in order]
                    wished = [wished[i] for i in order]
                _spread(layer, wished)
        self._stack_layers()

    def _stack_layers(self) -> None:
        """Heights, columns, and the size of the whole."""
        heights = [max((cell.height for cell in layer), default=0.0) for layer in self.layers]
        after = [*heights[1:], 0.0]
        gaps = [LAYER_GAP if height and below else PORT_GAP for height, below in zip(heights, after, strict=True)]
        whole = self._width_of(range(len(self.layers)))
        columns = _columns(heights, whole, self._crossings(), len(self.routes) if self.top else 1)
        lanes = CHANNEL * max((self._crossings()[column[-1]] for column in columns[:-1]), default=0)
        header = (2 * PAD if self.top else PAD + LABEL) + lanes
        x = PAD
        tallest = 0.0
        for number, column in enumerate(columns):
            least = min((cell.x - cell.width / 2 for i in column for cell in self.layers[i]), default=0.0)
            y = header
            for i in column:
                for cell in self.layers[i]:
                    cell.x += x - least
                    cell.y = y
                    if cell.item is None:
                        cell.height = heights[i]  # an edge passes the whole layer
                y += heights[i] + gaps[i]
            tallest = max(tallest, y - gaps[column[-1]])
            x += self._width_of(column)
            if number + 1 < len(columns):
                x += COLUMN_GAP + CHANNEL * self._open_channels(column[-1], x)
        self.width, self.height = x + PAD, tallest + PAD + lanes
        if not self.top:
            self.width = max(self.width, 2 * PAD + 6.6 * len(self.group.label))
        self.lowest = tallest

    def _crossings(self) -> list[int]:
        """How many edges go on from each layer to the next."""
        found = {link for route in self.routes.values() for link in route}
        return [sum(link.start.layer == layer for link in found) for layer in range(len(self.layers))]

    def _width_of(self, column: Iterable[int]) -> float:
        cells = [cell for i in column for cell in self.layers[i]]
        if not cells:
            return 0.0
        return max(c.x + c.width / 2 for c in cells) - min(c.x - c.width / 2 for c in cells)

    def _open_channels(self, layer: int, x: float) -> int:
        """Edges to the next column go up between the two, the nearest ones inside of the others; how many there are."""
        found = {link for route in self.routes.values() for link in route if link.start.layer == layer}
        for number, link in enumerate(sorted(found, key=lambda link: -link.start.x - link.start_shift)):
            away = CHANNEL * number
            self.channels[link] = (x + COLUMN_GAP / 2 + away, away, CHANNEL * (len(found) - 1) - away)
        return len(found)

    # -- results

    def place(
        self,
        at: Point,
        leaves: dict[str, Box],
        groups: list[tuple[Group, Box]],
        places: dict[_Laid, Point],
    ) -> None:
        places[self] = at
        if not self.top:
            groups.append((self.group, Box(*at, self.width, self.height)))
        for cell in self.cells:
            corner = (at[0] + cell.x - cell.width / 2, at[1] + cell.y)
            if isinstance(cell.item, _Laid):
                cell.item.place(corner, leaves, groups, places)
            elif cell.item is not None:
                leaves[cell.item.name] = Box(*corner, cell.width, cell.height)

    def path(self, edge: Edge, places: dict[_Laid, Point]) -> list[Point]:
        """Out of the boxes around the source, across, and into those around the target."""
        start, end = self._ends(edge)
        points: list[Point] = []
        if isinstance(start.item, _Laid) and edge[0] in self.names:
            points += start.item.path(edge, places)
            if start is end:
                return points
        x, y = places[self]
        points += [(x + px, y + py) for px, py in self._points(self.routes[edge[0], end])]
        if isinstance(end.item, _Laid):
            points += end.item.path(edge, places)
        return points

    def _points(self, route: Sequence[_Link]) -> list[Point]:
        found: list[Point] = []
        for link in route:
            start_y = link.start.y + link.start.height
            end_y = link.end.y
            if link.start in self.entries.values():
                start_y = 0.0
            if link.end in self.exits.values():
                end_y = self.height
            first = (link.start.x + link.start_shift, start_y)
            last = (link.end.x + link.end_shift, end_y)
            found.append(first)
            if link in self.channels:
                channel, below, above = self.channels[link]
                bottom, above = self.lowest + PAD / 2 + below, last[1] - PAD - above
                found += [(first[0], bottom), (channel, bottom), (channel, above), (last[0], above)]
            found.append(last)
        return found


def _wish(cell: _Cell, links: Sequence[_Link], down: bool) -> float:
    """Below (or above) the middle of its neighbours' ports."""
    if not links:
        return cell.x
    if down:
        places = [link.start.x + link.start_shift - link.end_shift for link in links]
    else:
        places = [link.end.x + link.end_shift - link.start_shift for link in links]
    return sum(places) / len(places)


def _spread(layer: Sequence[_Cell], wished: Sequence[float]) -> None:
    """As near to the wishes as can be (least squares) without overlaps: neighbours that collide move together."""
    offsets: list[float] = []
    edge = 0.0
    for cell in layer:
        offsets.append(edge + cell.width / 2)
        edge += cell.width + GAP
    blocks: list[tuple[float, float, int]] = []  # where it wants to be, its weight, how many cells
    for cell, wish, offset in zip(layer, wished, offsets, strict=True):
        blocks.append((wish - offset, cell.weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, wa, na), (b, wb, nb) = blocks[-2:]
            blocks[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    shifts = [place for place, _, number in blocks for _ in range(number)]
    for cell, shift, offset in zip(layer, shifts, offsets, strict=True):
        cell.x = shift + offset


def _columns(heights: Sequence[float], width: float, crossings: Sequence[int], most: int) -> list[list[int]]:
    """Layers from top to bottom; in several columns where one would be much higher than wide.

    A column ends near the height that is aimed at where the fewest edges go on, and where no more than `most` do.
    """
    total = sum(heights) + LAYER_GAP * len(heights)
    if total <= MOST_HEIGHT or total <= 2 * width:
        return [list(range(len(heights)))]
    aim = max(sqrt(total * (width + COLUMN_GAP) / WIDER), *heights, MOST_HEIGHT * 0.6)
    columns: list[list[int]] = []
    first = 0
    while first < len(heights):
        used = 0.0
        ends: list[tuple[int, float, int]] = []
        for i in range(first, len(heights)):
            used += heights[i] + LAYER_GAP
            if ends and used > 1.1 * aim:
                break
            if heights[i] and crossings[i] <= most:  # ports stay with the op beside them
                ends.append((crossings[i] if used > 0.6 * aim else len(crossings) + most, -used, i))
        rest = sum(heights[first:]) + LAYER_GAP * (len(heights) - first)
        last = len(heights) - 1 if not ends or rest <= 1.1 * aim else min(ends)[2]
        if not any(heights[last + 1 :]):
            last = len(heights) - 1
        columns.append(list(range(first, last + 1)))
        first = last + 1
    return columns
