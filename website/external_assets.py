"""Find scripts, styles, fonts and images that pages of the built site load from another server."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path


class Assets(HTMLParser):
    """Collects the addresses of external assets of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.external: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check the attributes that make a browser load a file."""
        values = dict(attrs)
        address = values.get("src")
        if tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            address = values.get("href")
        if address and re.match(r"(https?:)?//", address):
            self.external.append(address)


def main(folder: Path) -> int:
    """Print the external assets of all pages; return 1 if there are any."""
    found = 0
    for page in sorted(folder.rglob("*.html")):
        assets = Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        for address in assets.external:
            sys.stdout.write(f"{page.relative_to(folder)}: {address}\n")
            found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
