# SPDX-License-Identifier: Apache-2.0
"""What MkDocs does beyond its own: pages that are kept elsewhere, the command line, links that leave `docs/`.

The documents must read well on a git host too, where their links go to files of the repository. On the site, those to
documents that have a page go there; of those to sources the text is left.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

from commands import command_reference, command_table  # noqa: E402

LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])+)\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?:<code>)?\bdocs/([\w-]+)\.md\b(?:</code>)?(?![^<]*</(?:a|code)>)(?![^<]*>)")
"""A document that a docstring or the changelog names."""
CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def elsewhere() -> dict[str, str]:
    """Documents of the repository that are pages of the site: path in the repository to path in the site."""
    cards = sorted((ROOT / "src/tt_cnn/models").glob("*/README.md"))
    return {
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "examples/README.md": "examples.md",
        **{str(card.relative_to(ROOT)): f"models/{card.parent.name}.md" for card in cards},
    }


def on_files(files: Files, config: Any) -> Files:
    for source, page in elsewhere().items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    here = page.file.src_uri
    markdown = markdown.replace("<!-- table of commands -->", command_table() if here == "command-line.md" else "")
    markdown = markdown.replace("<!-- all commands -->", command_reference() if here == "command-line.md" else "")
    source = {page: source for source, page in elsewhere().items()}.get(here, f"docs/{here}")
    pieces = CODE.split(markdown)
    return "".join(
        piece if CODE.fullmatch(piece) else LINK.sub(lambda found: _link(found, source, here), piece)
        for piece in _joined(pieces)
    )


def _joined(pieces: list[str]) -> list[str]:
    """Code within the text of a link belongs to the link: only blocks are kept apart."""
    joined = [""]
    for piece in pieces:
        if "```" in piece:
            joined += [piece, ""]
        else:
            joined[-1] += piece
    return joined


def _link(found: re.Match[str], source: str, here: str) -> str:
    """The link as it must be on the site, from the page `here` that is `source` in the repository."""
    text, target = found[1], found[2]
    if re.match(r"[a-z]+:|#", target):
        return found[0]
    path, mark, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    page = elsewhere().get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
    if not page:
        return text
    return f"[{text}]({posixpath.relpath(page, posixpath.dirname(here) or '.')}{mark}{anchor})"


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Docstrings and the changelog name documents by their files: on the site these are links."""

    def link(found: re.Match[str]) -> str:
        target = files.get_file_from_path(f"{found[1]}.md")
        if target is None:
            return found[0]
        title = found[1].replace("-", " ")
        return f'<a href="{target.url_relative_to(page.file)}">{title}</a>'

    return NAMED.sub(link, html)
