"""Hooks of MkDocs: pages from the root of the repository, notebooks, and links to files that are not on the site."""

from __future__ import annotations

import json
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
FENCE = re.compile(r"^(```+\w+) [^`\n]*$", re.MULTILINE)
"""A fence with more than a language: the rest is for the tests."""
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of ``docs``."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=notebook_page(notebook)))
    return files


def notebook_page(path: Path) -> str:
    """Return a notebook as Markdown: texts, code, and the stored outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", ())})
            rich = data.get("text/html") or data.get("image/svg+xml")
            if rich:
                parts.append("<div>" + " ".join("".join(rich).split("\n")) + "</div>")
            else:
                parts.append("```text\n" + "".join(data["text/plain"]).rstrip("\n") + "\n```")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the places of pages on the site; a link to a file that is not on the site becomes its path."""
    markdown = FENCE.sub(r"\1", markdown)
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
        if on_site is not None and on_site.endswith(".ipynb"):
            on_site = on_site.removesuffix(".ipynb") + ".md"
        if on_site is not None and files.get_file_from_path(on_site) is not None:
            relative = posixpath.relpath(on_site, posixpath.dirname(place) or ".")
            return f"[{text}]({relative}{'#' if anchor else ''}{anchor})"
        if not (ROOT / target).exists():
            return match[0]  # The strict build reports it.
        return text if text.strip("`") == target or text.startswith("`") else f"{text} (`{target}`)"

    return LINK.sub(rewrite, markdown)
