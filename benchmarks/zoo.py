# SPDX-License-Identifier: Apache-2.0
"""How would this architecture do on a card? The zoo brought up on n150, n300 and p150.

    python benchmarks/zoo.py [NAME...] [--all] [--card n150 --card p150] [--resume] [--stored] [--write]

A row is one architecture on one card, brought up without the optimiser on seeded weights: the PCC of every output
beside PyTorch, rates with their bands on the device and end to end at batch 1 and at the best batch, what memory it
needs, ops left in torch, multiply-adds, parameters, seconds, and the command that makes the row again. A row that fails
says why. On a card of several chips each chip runs the model; it is brought up on a card with one of them.
Batches are tried one after the other, twice as large each time, until one is not faster end to end or does not fit.

Rows are stored one by one in `benchmarks/results/zoo.json` with the version of the tree that made them; `--resume`
keeps those of this version. `--write` makes `docs/zoo.md`, the page `docs/zoo.html`, which can be sorted and filtered,
and the results that `tt-cnn zoo` shows. All times on the device are predicted; nothing was measured on a card.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import torch  # noqa: E402
from bringup import CHOSEN, Store, tree_version  # noqa: E402
from bringup_rows import Row, brought_up, profile_figures, total_seconds  # noqa: E402
from zoo_page import html_page, markdown_page  # noqa: E402

from tt_cnn.bringup.architectures import architecture_work, fitted_architecture  # noqa: E402
from tt_cnn.bringup.bring_up import BringUp  # noqa: E402
from tt_cnn.bringup.chips import one_chip_of  # noqa: E402
from tt_cnn.reports.profile import profile_model  # noqa: E402
from tt_cnn.zoo import architecture, create_architecture, list_architectures  # noqa: E402

CARDS = ("n150", "n300", "p150")
STORE = HERE / "results" / "zoo.json"
DOCS = HERE.parent / "docs"
SHIPPED = HERE.parent / "src" / "tt_cnn" / "zoo" / "results.json"
EXECUTOR = "trace+2cq"
RATES = ("device_fps", "device_fps_band", "fps", "fps_band", "l1_peak")
"""What is told of every batch."""
OF_THIS_MACHINE = ("traceback", "version", "tests_output")
"""Parts of a row that are of no use to others."""


def card_row(name: str, card: str, folders: Path, largest: int) -> Row:
    """One architecture on one card."""
    found = architecture(name)
    state = create_architecture(name).state_dict()
    row: Row = {
        "name": name,
        "card": card,
        "title": found.title,
        "family": found.family,
        "task": found.task,
        "paper": found.paper,
        "published_parameters": found.parameters,
        "published_gmacs": found.gmacs,
        "command": f"python benchmarks/zoo.py {name} --card {card}",
    }
    work = architecture_work(name, one_chip_of(card))
    row |= brought_up(work, state, 0, folders / card)
    if "fps" in row:
        row |= {**figures(work, card), **({} if work.card == card else {"brought_up_on": work.card})}
        row |= best_batch(name, card, state, row, largest)
    return row


def best_batch(name: str, card: str, state: Mapping[str, torch.Tensor], row: Row, largest: int) -> Row:
    """Rates by batch, and the batch that is fastest end to end."""
    began = time.monotonic()
    rates = {1: {key: row[key] for key in RATES}}
    ended, batch = "", 2
    while batch <= largest:
        try:
            found = figures(fitted_architecture(name, card, batch, state), card)
            rates[batch] = {key: found[key] for key in RATES}
        except Exception as error:  # a batch that does not fit ends the search, and says why
            ended = f"batch {batch}: {type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
            break
        if rates[batch]["fps"] <= rates[batch // 2]["fps"]:
            break
        batch *= 2
    best = max(rates, key=lambda size: rates[size]["fps"])
    seconds = round(time.monotonic() - began, 2)
    return {"rates": {str(size): each for size, each in rates.items()}, "best_batch": best} | {
        "batches_ended": ended,
        "batches_seconds": seconds,
    }


def figures(work: BringUp, card: str) -> Row:
    """Of the model on all chips of the card."""
    with work.entry() as entry:
        made = profile_model(entry.name, card=card, executor=EXECUTOR, batch_size=work.input_shape[0])
    return profile_figures(made)


def told(row: Row) -> str:
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
        f"{total_seconds(row) + row['batches_seconds']:.0f} s"
    )


def write(rows: list[Row]) -> None:
    """The pages and what is shipped."""
    (DOCS / "zoo.md").write_text(markdown_page(rows), encoding="utf-8")
    (DOCS / "zoo.html").write_text(html_page(rows), encoding="utf-8")
    shipped: dict[str, dict[str, Row]] = {}
    for row in rows:
        kept = {key: value for key, value in row.items() if key not in OF_THIS_MACHINE}
        shipped.setdefault(row["name"], {})[row["card"]] = kept
    SHIPPED.write_text(json.dumps(shipped, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the zoo (tt_cnn.zoo); a chosen list without any")
    parser.add_argument("--all", action="store_true", help="the whole zoo")
    parser.add_argument("--card", action="append", choices=CARDS, help="several times for several [all of them]")
    parser.add_argument(
        "--largest-batch", type=int, default=16, metavar="N", help="at most so many images at once [16]"
    )
    parser.add_argument("--folders", type=Path, default=HERE.parent / "out" / "benchmarks" / "zoo", metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="keep rows that this version of the tree made")
    parser.add_argument("--stored", action="store_true", help="run nothing: read what earlier runs stored")
    parser.add_argument("--write", action="store_true", help="write the pages and the results that are shipped")
    options = parser.parse_args()
    everything = list_architectures()
    unknown = [name for name in options.names if name not in everything]
    if unknown:
        raise SystemExit(f"there is no architecture {unknown[0]!r}; there are {', '.join(everything)}")
    store = Store(STORE, tree_version())
    same = {"largest_batch": options.largest_batch}
    for name in () if options.stored else options.names or (everything if options.all else list(CHOSEN)):
        for card in options.card or CARDS:
            key = f"{name} {card}"
            if not (options.resume and store.has(key, **same)):
                store.keep(key, card_row(name, card, options.folders, options.largest_batch) | same)
            print(told(store.rows[key]), flush=True)
    if options.write:
        write(list(store.rows.values()))
    failed = sum("failed" in row for row in store.rows.values())
    print(f"{len(store.rows)} rows are stored, {failed} of them failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
