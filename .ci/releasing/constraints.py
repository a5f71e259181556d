"""Hashed constraints for each extra, cut from requirements/dev.txt.

The lock file has no dependency graph, so the graph comes from the metadata of the installed packages. Run as a script
with ``--site`` to write the files; needs the package ``packaging``.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "requirements" / "constraints"
HEADER = """\
# Pinned dependencies of {what}, with hashes. `.ci/release constraints` writes this file from requirements/dev.txt.
# pip install --require-hashes -r {name}.txt, then pip install --no-deps perseid
"""

# The lock file is universal: a package that only one of these environments needs is in it, with a marker.
ENVIRONMENTS = [
    {
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": "x86_64",
        "os_name": "nt" if platform == "win32" else "posix",
        "sys_platform": platform,
        "platform_system": {"win32": "Windows", "darwin": "Darwin", "linux": "Linux"}[platform],
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
    }
    for platform in ("linux", "darwin", "win32")
    for python in ("3.11", "3.12", "3.13", "3.14")
]


def generate(site: str | None = None) -> dict[str, str]:
    """Return the text of each file of constraints by its name. ``site`` has the packages; default: this environment."""
    lock = read_lock((ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {extra: {extra} for extra in project["optional-dependencies"]}
    wanted |= {"base": set(), "all": set(project["optional-dependencies"])}
    texts = {}
    for name, extras in sorted(wanted.items()):
        what = {"base": "perseid", "all": "perseid with all extras"}.get(name, f"perseid[{name}]")
        needed = close(list(own_requirements(project, extras)), site)
        if missing := needed - lock.keys():
            raise SystemExit(f"not in requirements/dev.txt: {', '.join(sorted(missing))}")
        entries = [entry for package, found in lock.items() if package in needed for entry in found]
        texts[name] = HEADER.format(what=what, name=name) + "".join(entries)
    return texts


def read_lock(text: str) -> dict[str, list[str]]:
    """Return the entries of each package: one, or one for each marker."""
    entries: dict[str, list[str]] = {}
    for entry in re.findall(r"^[a-z0-9].*\n(?:[ \t]+.*\n)*", text, re.MULTILINE):
        entries.setdefault(canonicalize_name(entry.split("==")[0]), []).append(entry)
    return entries


def own_requirements(project: dict[str, object], extras: set[str]) -> Iterator[Requirement]:
    """Yield the requirements of the project with ``extras``. An extra may include other extras."""
    optional = project["optional-dependencies"]
    for line in [*project["dependencies"], *(line for extra in sorted(extras) for line in optional[extra])]:
        requirement = Requirement(line)
        if requirement.name == project["name"]:
            yield from own_requirements(project, requirement.extras)
        else:
            yield requirement


def close(pending: list[Requirement], site: str | None) -> set[str]:
    """Return the names of all packages that ``pending`` needs, in any supported environment."""
    done: set[tuple[str, str]] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras} - {extra for package, extra in done if package == name}:
            done.add((name, extra))
            for line in dependencies(name, site):
                dependency = Requirement(line)
                if applies(dependency.marker, extra):
                    pending.append(dependency)
    return {name for name, _ in done}


def dependencies(name: str, site: str | None) -> list[str]:
    """Return the requirements of an installed package. A package for other systems is not installed and has none."""
    place = {} if site is None else {"path": [site]}
    for found in metadata.distributions(name=name, **place):
        return found.requires or []
    return []


def applies(marker: Marker | None, extra: str) -> bool:
    return marker is None or any(marker.evaluate({**environment, "extra": extra}) for environment in ENVIRONMENTS)


def write(site: str | None) -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in generate(site).items():
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")


def compare(site: str | None) -> list[str]:
    """Return the names of the files that differ from what the lock file and pyproject.toml give."""
    wanted = {f"{name}.txt": text for name, text in generate(site).items()}
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    return sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", help="the folder site-packages that has the runtime dependencies")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    options = parser.parse_args()
    if not options.check:
        write(options.site)
    elif differing := compare(options.site):
        raise SystemExit(f"out of date: {', '.join(differing)}; run .ci/release constraints")
