# SPDX-License-Identifier: Apache-2.0
"""Count words that the glossary replaces, in a revision and here: `scripts/count_words.py [REVISION]`."""

import re
import subprocess
import sys
from pathlib import Path

WORDS = {
    "told": r"\btold\b",
    "a core (for per core)": r"\b(Bytes|bytes|B|KB|one|unit|tile|slice|classes|channels|row|peak) a core\b",
    "a second (for per second)": r"\b(pictures|images|candidates|frames|calls|inputs) a second\b",
    "a bank, chip, batch, ... (for per ...)": r"\b(bytes|Bytes|number|value|µs|[Mm]illiseconds|[Ss]econds) a "
    r"(bank|chip|channel|tile|batch|cycle)\b",
    "picture in text": r"(?<![\w.])[Pp]ictures?\b(?![\w(\[.=:])",
    "anew": r"\banew\b",
    "dealt": r"\bdealt\b",
    "present call": r"\bpresent call\b",
    "..._a_core, ..._a_bank": r"_a_(core|bank|cycle|tile)\b",
}
FOLDERS = ("src/tt_cnn", "training", "benchmarks")
APART = "src/tt_cnn/bringup/"


def main() -> None:
    root = Path(__file__).parents[1]
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    listed = _git(root, "ls-tree", "-r", "--name-only", revision, *FOLDERS).splitlines()
    before = [_git(root, "show", f"{revision}:{name}") for name in listed if _counts(name)]
    after = [
        path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        if _counts(path.relative_to(root).as_posix())
    ]
    print(f"{'':40} {revision[:10]:>10} {'here':>6}")
    for name, pattern in WORDS.items():
        counts = [sum(len(re.findall(pattern, text)) for text in texts) for texts in (before, after)]
        print(f"{name:40} {counts[0]:>10} {counts[1]:>6}")


def _counts(name: str) -> bool:
    return name.endswith(".py") and not name.startswith(APART)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
