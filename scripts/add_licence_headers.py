#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Put the SPDX line at the head of all source files that lack it; `--check` names those files and changes nothing.

Files that `tt-cnn bringup` wrote (`examples/`) belong to whoever brought the model up, and have none.
"""

import sys
from pathlib import Path

SPDX = "SPDX-License-Identifier: Apache-2.0"
HASH, SLASHES, STARS = f"# {SPDX}\n", f"// {SPDX}\n", f"/* {SPDX} */\n"
HEADERS = {
    ".py": HASH,
    ".sh": HASH,
    ".js": SLASHES,
    ".cpp": SLASHES,
    ".cu": SLASHES,
    ".h": SLASHES,
    ".css": STARS,
}
FOLDERS = ("src", "tests", "benchmarks", "training", "scripts")
ROOT = Path(__file__).parents[1]


def sources() -> list[Path]:
    """Those of the project's own folders, and the Python beside them."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in HEADERS]
    return sorted([*found, *ROOT.glob("*.py")])


def has_header(text: str) -> bool:
    """In one of the first two lines: a script's first one names its interpreter."""
    return not text or any(SPDX in line for line in text.splitlines()[:2])


def with_header(text: str, suffix: str) -> str:
    if has_header(text):
        return text
    first, rest = "", text
    if text.startswith("#!"):
        first, _, rest = text.partition("\n")
        first += "\n"
    return f"{first}{HEADERS[suffix]}{rest}"


def main() -> int:
    lacking = [path for path in sources() if not has_header(path.read_text(encoding="utf-8"))]
    for path in lacking:
        if "--check" in sys.argv:
            print(path.relative_to(ROOT))
        else:
            path.write_text(with_header(path.read_text(encoding="utf-8"), path.suffix), encoding="utf-8")
    if "--check" not in sys.argv:
        print(f"{len(lacking)} files got the line")
    return int("--check" in sys.argv and bool(lacking))


if __name__ == "__main__":
    sys.exit(main())
