# SPDX-License-Identifier: Apache-2.0
"""How would this architecture do on a card? The zoo brought up on n150, n300 and p150.

    python benchmarks/zoo.py [NAME...] [--card n150] [--batches 2 8] [--resume] [--write]
    python benchmarks/zoo.py [NAME...] --ray [ADDRESS]
    python benchmarks/zoo.py --stored [--published] [--search 120] [--write] [--check]

A row is one architecture on one card, brought up without the optimiser on seeded weights: the PCC of every output
beside PyTorch, rates with their bands on the device and end to end at batch 1 and at the best batch, what memory it
needs, ops left in torch, multiply-adds, parameters, seconds, and the command that makes the row again. A row that fails
says why. On a card of several chips each chip runs the model: it is brought up on a card with one of them, whose row is
made in the same run, and only its rates are its own.

Rows are stored one by one in `benchmarks/results/zoo.json` with the version of the code that has a part in them;
`--resume` keeps those of this version. `--write` makes `docs/zoo.md`, the page `docs/zoo.html`, which can be sorted and
filtered, and the results that `tt-cnn zoo` shows. `--published` puts our models beside the published rates of theirs
(`published_performance.json`), after a search of `--search` seconds where ours are slower. `--check` ends with status 1
where something is missed. All times on the device are predicted; nothing was measured on a card.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

from bringup import Store  # noqa: E402
from bringup_rows import Row, total_seconds  # noqa: E402
from published import published_rates  # noqa: E402
from zoo_page import html_page, markdown_page  # noqa: E402
from zoo_published import (  # noqa: E402
    published_misses,
    published_rows,
    published_table,
    rates_of,
    reached,
    search,
)
from zoo_rows import Tried, architecture_rows, row_version  # noqa: E402

from tt_cnn.cli.ray_options import UNSAID  # noqa: E402
from tt_cnn.zoo import list_architectures  # noqa: E402

CARDS = ("n150", "n300", "p150")
STORE = HERE / "results" / "zoo.json"
PUBLISHED = HERE / "results" / "zoo_published.json"
LEAST, MOST_WITH_FALLBACKS = 50, 8
"""Architectures that there are to be, and that may leave ops in torch."""
DOCS = HERE.parent / "docs"
FOR_USERS = HERE.parent / "src" / "tt_cnn" / "zoo" / "results.json"
OF_THIS_MACHINE = ("traceback", "version", "tests_output")
"""Parts of a row that are of no use to others."""


def line_of(row: Row) -> str:
    """A row as it is made, in one line."""
    where = f"{row['name']} on {row['card']}"
    if "failed" in row:
        return f"{where}: fails in {row['failed']}"
    lowest = min(row["pcc"].values())
    if "fps" not in row:
        return f"{where}: PCC {lowest:.4f}, {len(row['fallbacks'])} ops in torch"
    best = row["rates"][str(row["best_batch"])]
    return (
        f"{where}: PCC {lowest:.4f}, {row['fps']:.0f} fps at batch 1, {best['fps']:.0f} at batch {row['best_batch']}, "
        f"{total_seconds(row):.0f} s"
    )


def beside_published(rows: Mapping[str, Row], seconds: float) -> list[Row]:
    """Ours beside every published rate; where ours is slower, the optimiser goes on for so many seconds."""
    found = published_rows(rows)
    for rate, row in zip(published_rates(), found, strict=True):
        if seconds and not reached(row):
            before = row.get("device_fps", 0.0)
            print(f"{rate.title}: {before:.0f} fps, {search(rate, seconds)['device_fps']:.0f} after a search")
    found = published_rows(rows) if seconds else found
    PUBLISHED.write_text(json.dumps(found, indent=1) + "\n")
    return found


def made_here(asked: Sequence[tuple[str, list[str]]], tried: Tried) -> Iterator[tuple[str, Row]]:
    """Names and rows, as each is made; one thread, as on an actor, since PyTorch's rounding depends on how many."""
    torch.set_num_threads(1)
    for name, cards in asked:
        for row in architecture_rows(name, cards, tried):
            yield name, row


def made_by_actors(asked: Sequence[tuple[str, list[str]]], tried: Tried, address: str) -> Iterator[tuple[str, Row]]:
    """The same rows, an architecture for each actor, as architectures are done; an actor has one thread."""
    from tt_cnn.distributed.cluster import connected
    from tt_cnn.distributed.operator import Work, map_on_cards

    items = {number: (name, cards, tried) for number, (name, cards) in enumerate(asked)}
    with connected(None if address == UNSAID else address) as cluster:
        for number, rows in map_on_cards(cluster, Work("zoo_actor:rows", least=1), items):
            for row in rows:
                yield asked[number][0], row


def misses(rows: Mapping[str, Row], published: Sequence[Row]) -> list[str]:
    """What the table is to show and does not."""
    came = [row for row in rows.values() if "failed" not in row]
    names, leaving = ({row["name"] for row in kept} for kept in (came, [row for row in came if row["fallbacks"]]))
    found = [f"{key}: {row['failed']}" for key, row in rows.items() if "failed" in row]
    found += [f"{row['name']} on {row['card']}: PCC below its gate" for row in came if not row["passed"]]
    if len(names) < LEAST:
        found.append(f"{len(names)} architectures, {LEAST} wanted")
    if len(leaving) > MOST_WITH_FALLBACKS:
        found.append(f"{len(leaving)} leave ops in torch, at most {MOST_WITH_FALLBACKS} wanted: {', '.join(leaving)}")
    return found + published_misses(published)


def write(rows: Sequence[Row], published: Sequence[Row]) -> None:
    """The pages and what is shipped."""
    rows = [{key: value for key, value in row.items() if key not in OF_THIS_MACHINE} for row in rows]
    for row in rows:
        rates = [f"{rate.device_fps:g} at batch {rate.batch}" for rate in rates_of(row)]
        row |= {"published": "; ".join(rates)} if rates else {}
    (DOCS / "zoo.md").write_text(markdown_page(rows, published_table(published) if published else ()), encoding="utf-8")
    (DOCS / "zoo.html").write_text(html_page(rows), encoding="utf-8")
    shipped: dict[str, dict[str, Row]] = {}
    for row in rows:
        shipped.setdefault(row["name"], {})[row["card"]] = row
    FOR_USERS.write_text(json.dumps(shipped, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the zoo (tt_cnn.zoo) [all of it]")
    parser.add_argument("--card", action="append", choices=CARDS, help="several times for several [all of them]")
    parser.add_argument(
        "--batches", type=int, nargs="*", default=[2, 4, 8, 16], metavar="N", help="tried beside 1 [2 4 8 16]"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0, metavar="S", help="begin no batch when a chip has taken so long [no end]"
    )
    parser.add_argument("--resume", action="store_true", help="keep rows that this version of the code made")
    parser.add_argument(
        "--ray", nargs="?", const=UNSAID, metavar="ADDRESS", help="make rows on actors of Ray, here or on a cluster"
    )
    parser.add_argument("--stored", action="store_true", help="run nothing: read what earlier runs stored")
    parser.add_argument("--published", action="store_true", help="our models beside published rates, after the rows")
    parser.add_argument(
        "--search", type=float, default=0.0, metavar="S", help="optimise so long for each published rate that is faster"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 where something is missed")
    parser.add_argument("--write", action="store_true", help="write the pages and the results that are shipped")
    options = parser.parse_args()
    everything = list_architectures()
    unknown = [name for name in options.names if name not in everything]
    if unknown:
        raise SystemExit(f"there is no architecture {unknown[0]!r}; there are {', '.join(everything)}")
    tried = Tried(tuple(options.batches), options.seconds)
    same = {"batches": options.batches, "seconds_limit": options.seconds}
    asked: list[tuple[str, list[str]]] = []
    for name in () if options.stored else options.names or everything:
        store = Store(STORE, row_version(name))
        cards = [c for c in options.card or CARDS if not (options.resume and store.has(f"{name} {c}", **same))]
        asked += [(name, cards)] if cards else []
    for name, row in made_by_actors(asked, tried, options.ray) if options.ray else made_here(asked, tried):
        command = " ".join([row["command"], "--batches", *map(str, tried.batches), f"--seconds {tried.seconds:g}"])
        Store(STORE, row_version(name)).keep(f"{name} {row['card']}", row | same | {"command": command})
        print(line_of(row), flush=True)
    store = Store(STORE, "")
    if options.published:
        print("\n".join(published_table(beside_published(store.rows, options.search))))
    published = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else []
    missed = misses(store.rows, published)
    for line in missed:
        print(f"missed: {line}")
    if options.write:
        write(list(store.rows.values()), published)
    failed = sum("failed" in row for row in store.rows.values())
    print(f"{len(store.rows)} rows are stored, {failed} of them failed")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
