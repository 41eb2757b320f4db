# SPDX-License-Identifier: Apache-2.0
"""The code and the commands of the documents, as data: what is run, and what is not and why.

A comment directly above a block says what is done with it:

- none: it is run;
- `<!-- long: reason -->`: it is run by the long tests;
- `<!-- not run: reason -->`: it cannot be; commands of ours in it must still exist, with these options;
- `<!-- output -->`: it is what the Python before it prints; `...` stands for what is left out.

`python -m tests.docs.snippets` counts them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "docs/api/*.md", "examples/*.md", "src/tt_cnn/models/*/README.md")
    for path in ROOT.glob(pattern)
)

PYTHON_RUN_BY = {
    "CONTRIBUTING.md": "tests/docs/test_contributing.py",
    "docs/bring-up.md": "tests/docs/test_bring_up.py",
    "docs/bringup.md": "tests/docs/test_bringup_guide.py",
    "docs/builder.md": "tests/builder/test_guide.py",
    "docs/evaluation.md": "tests/docs/test_evaluation_guide.py",
    "docs/optimizer.md": "tests/docs/test_optimizer_guide.py",
    "docs/pipeline.md": "tests/pipeline/test_guide.py",
    "docs/profiling.md": "tests/docs/test_profiling_guide.py",
}
"""Pages whose Python a test of their own runs, with what it leaves open."""

SHELLS = ("bash", "console")
OTHERS = ("output", "yaml")
"""Languages of blocks in which nothing is to be run."""

_BLOCK = re.compile(r"^( *)(?:<!-- ([^\n]*) -->\n\1)?```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    page: str
    line: int
    language: str
    text: str
    mark: str
    """What the comment above it says."""

    @property
    def reason(self) -> str:
        """Why it is not run, or only by the long tests."""
        return self.mark.partition(": ")[2] if self.mark.startswith(("long", "not run")) else ""

    @property
    def is_long(self) -> bool:
        return self.mark.startswith("long")

    @property
    def is_run(self) -> bool:
        return not self.mark.startswith("not run")

    @property
    def calls(self) -> list[Call]:
        return list(_calls(self.text.splitlines(), self.language)) if self.language in SHELLS else []


@dataclass(frozen=True)
class Call:
    """A line for the shell."""

    words: Sequence[str]
    output: Sequence[str] = ()
    """What the page shows of it."""

    @property
    def is_ours(self) -> bool:
        return self.words[0] == "tt-cnn"


def snippets(page: str) -> list[Snippet]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Snippet(
            page, text.count("\n", 0, found.start()) + 1, found[3], _dedented(found[4], len(found[1])), found[2] or ""
        )
        for found in _BLOCK.finditer(text)
    ]


def unfenced(page: str) -> list[str]:
    """Commands and code in indented blocks, which nothing would run."""
    text = _BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    return re.findall(r"^\s*\n {4,}((?:\$ )?(?:tt-cnn |python -m |from tt_cnn|import ).*)", text, re.MULTILINE)


def _calls(lines: Sequence[str], language: str) -> Iterator[Call]:
    if language == "bash":
        for line in lines:
            words = [word for word in shlex.split(line, comments=True) if not re.fullmatch(r"[A-Z_]+=\S*", word)]
            if words:
                yield Call(words)
        return
    words, output = None, []
    for line in [*lines, "$ "]:
        if line.startswith("$ "):
            if words:
                yield Call(words, output)
            words, output = shlex.split(line[2:]), []
        else:
            output.append(line)


def _dedented(text: str, spaces: int) -> str:
    return "".join(line.removeprefix(" " * spaces) for line in text.splitlines(keepends=True))


def missing_lines(expected: Sequence[str], printed: str) -> list[str]:
    """Lines that should be there, in this order, and are not; `...` is anything, or any lines."""
    rest, missing = printed.splitlines(), []
    for line in expected:
        if line.strip() == "...":
            continue
        pattern = re.compile(".*".join(map(re.escape, line.rstrip().split("..."))) + r"\s*")
        found = next((index for index, one in enumerate(rest) if pattern.fullmatch(one)), None)
        if found is None:
            missing.append(line)
        else:
            rest = rest[found + 1 :]
    return missing


def counts() -> dict[str, dict[str, int]]:
    """Blocks of each language: run, run by the long tests, not run."""
    table = {language: {"run": 0, "long": 0, "not run": 0} for language in ("python", *SHELLS)}
    for snippet in (one for page in PAGES for one in snippets(page) if one.language in table):
        table[snippet.language]["long" if snippet.is_long else "run" if snippet.is_run else "not run"] += 1
    return table


if __name__ == "__main__":
    for language, numbers in counts().items():
        print(f"{language:8}", *(f"{what} {number}" for what, number in numbers.items()), sep="  ")
    for snippet in (one for page in PAGES for one in snippets(page) if one.reason):
        print(f"{snippet.page}:{snippet.line}: {snippet.mark}")
