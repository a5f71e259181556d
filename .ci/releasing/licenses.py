"""License check of the runtime dependencies, from the metadata of installed packages.

Run as a script, checks every package of its environment. Metadata describes a package, not the binary libraries that
its wheel bundles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata

ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT",
    "MPL-2.0", "PSF-2.0", "Zlib",
}  # fmt: skip
"""SPDX identifiers that any dependency may have."""

EXCEPTIONS = {
    "psycopg": (
        "LGPL-3.0-only",
        "extra `jobs` only; imported at run time, never copied or linked; users can replace it",
    ),
    "psycopg-binary": ("LGPL-3.0-only", "the compiled half of psycopg, under the same conditions"),
}
"""License and reason for packages whose license is not allowed for every dependency."""

CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""SPDX identifiers for the classifiers of packages without a license expression."""

TEXTS = {"3-Clause BSD License": "BSD-3-Clause", "Apache 2.0": "Apache-2.0", "Apache License 2.0": "Apache-2.0"}
"""SPDX identifiers for free text of packages that have neither."""


def find_problems(names: Iterable[str]) -> list[str]:
    """Return a line for each package whose license is unknown or not allowed."""
    problems = []
    for name in sorted(names):
        license_ = read_license(metadata.metadata(name))
        if name in EXCEPTIONS and license_ == EXCEPTIONS[name][0]:
            continue
        if not is_allowed(license_):
            problems.append(f"{name}: {license_ or 'no license in the metadata'}")
    return problems


def read_license(fields: metadata.PackageMetadata) -> str:
    """Return the SPDX expression of a package; from classifiers or free text if it has none."""
    if expression := fields.get("License-Expression"):
        return expression
    classifiers = [line.rsplit(" :: ", 1)[1] for line in fields.get_all("Classifier") or [] if is_license(line)]
    if classifiers:
        return " AND ".join(CLASSIFIERS.get(name, name) for name in classifiers)
    text = (fields.get("License") or "").strip()
    return TEXTS.get(text, text)


def is_license(classifier: str) -> bool:
    return classifier.startswith("License :: OSI Approved :: ")


def is_allowed(expression: str) -> bool:
    """Evaluate an SPDX expression without nested operators in parentheses: AND binds stronger than OR."""
    plain = re.sub(r"[()]", "", expression)
    if plain != expression and " OR " in plain and " AND " in plain:
        return False  # a person reads it
    return any(all(term.strip() in ALLOWED for term in option.split(" AND ")) for option in plain.split(" OR "))


def main() -> None:
    names = {found.metadata["Name"].lower().replace("_", "-") for found in metadata.distributions()}
    if problems := find_problems(names):
        raise SystemExit("\n".join(problems))
    exceptions = ", ".join(sorted(names & EXCEPTIONS.keys())) or "none"
    print(f"{len(names)} packages; exceptions: {exceptions}")


if __name__ == "__main__":
    main()
