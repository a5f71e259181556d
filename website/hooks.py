"""Hooks of MkDocs: pages from the root of the repository, and links to files that are not on the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "contributing/architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "contributing/security-policy.md",
    "bench/README.md": "contributing/benchmarks.md",
}
"""Pages of the site by their path in the repository; all other pages are below ``docs``."""
SOURCES = {page: source for source, page in ROOT_PAGES.items()}
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of ``docs``."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the places of pages on the site; a link to a file that is not on the site becomes its path."""
    place = page.file.src_uri
    source = SOURCES.get(place, f"docs/{place}")
    blocks = [match.span() for match in CODE.finditer(markdown) if match[0].startswith("```")]

    def rewrite(match: re.Match[str]) -> str:
        text, link = match[1], match[2]
        if any(start <= match.start() < end for start, end in blocks) or re.match(r"[a-z]+:|#|/", link):
            return match[0]
        path, anchor = link.partition("#")[::2]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = ROOT_PAGES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if on_site is not None and files.get_file_from_path(on_site) is not None:
            relative = posixpath.relpath(on_site, posixpath.dirname(place) or ".")
            return f"[{text}]({relative}{'#' if anchor else ''}{anchor})"
        if not (ROOT / target).exists():
            return match[0]  # The strict build reports it.
        return text if text.strip("`") == target or text.startswith("`") else f"{text} (`{target}`)"

    return LINK.sub(rewrite, markdown)
