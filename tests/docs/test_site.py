# SPDX-License-Identifier: Apache-2.0
"""The documentation site: every page is reached, every link is right, the command line is complete."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import PAGES, ROOT

sys.path.append(str(ROOT / "scripts/site"))
from commands import command_reference, command_table, commands

CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
LINK = re.compile(r"(?<!`)\[(?:[^\]\[]|\[[^\]]*\])+\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """Of the headings, as git hosts and MkDocs make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_of_the_repository(page: str) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        assert not target.startswith(("http", "/")), f"{page}: {target}"
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{page}: {target}"


def test_every_document_is_in_the_navigation() -> None:
    listed = set(re.findall(r"^ +- (\S+\.md)$", CONFIGURATION, re.MULTILINE))
    documents = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert documents <= listed


def test_nothing_comes_from_the_network() -> None:
    assert "http" not in CONFIGURATION
    assert "font: false" in CONFIGURATION


def test_the_command_line_is_whole() -> None:
    reference, table = command_reference(), command_table()
    for name, command in commands().items():
        assert f"[`tt-cnn {name}`](#tt-cnn-{name})" in table
        section = reference.partition(f"## tt-cnn {name}\n")[2].partition("\n## ")[0]
        for option in (one for parameter in command.params for one in parameter.opts if one.startswith("-")):
            assert re.search(rf"`{option}[ `]", section), (name, option)
    assert "\b" not in reference and "<str>" not in reference


def test_the_reference_has_all_public_packages() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/api").glob("*.md"))
    for package in ("builder", "pipeline", "preprocessing", "testing", "models"):
        assert f"::: tt_cnn.{package}\n" in pages


@pytest.mark.parametrize("page", PAGES)
def test_git_hosts_and_the_site_read_lists_alike(page: str) -> None:
    """Python-Markdown wants four spaces before a further paragraph of an item, and an empty line before a list."""
    text = re.sub(r"^ *```.*?^ *```$", "```", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\n\n {1,3}\S.*", text) == []
    assert re.findall(r"^(?![-*|#<>\s]|\d+\. ).*\n(?:[-*]|\d+\.) .*", text, re.MULTILINE) == []
