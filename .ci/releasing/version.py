"""The version of a release, in the three files that name it."""

from __future__ import annotations

import datetime
import re

from environments import ROOT, StepError

VERSION_FILE = ROOT / "src" / "perseid" / "_version.py"
CHANGELOG = ROOT / "CHANGELOG.md"
CITATION = ROOT / "CITATION.cff"
RELEASE = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def read_version() -> str:
    return re.search(r'__version__ = "(.*)"', VERSION_FILE.read_text(encoding="utf-8"))[1]


def prepare(version: str) -> None:
    """Set the version, date the section Unreleased of the changelog, and open a new one."""
    if not RELEASE.fullmatch(version):
        raise StepError(f"{version} is not a release version, such as 0.1.0 or 0.1.0rc1")
    if sections(version):
        raise StepError(f"CHANGELOG.md has a section {version} already")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    replace(VERSION_FILE, r'__version__ = ".*"', f'__version__ = "{version}"')
    replace(CHANGELOG, r"^## Unreleased$", f"## Unreleased\n\n## {version} - {today}")
    replace(CITATION, r"^version: .*(\ndate-released: .*)?$", f"version: {version}\ndate-released: {today}")
    print(f"prepared {version}: review the changes, then commit them")


def replace(path: object, pattern: str, text: str) -> None:
    before = path.read_text(encoding="utf-8")
    after, count = re.subn(pattern, text, before, count=1, flags=re.MULTILINE)
    if count != 1:
        raise StepError(f"{path.name}: no line {pattern}")
    path.write_text(after, encoding="utf-8")


def sections(version: str) -> list[str]:
    return re.findall(rf"^## {re.escape(version)} - (\d{{4}}-\d\d-\d\d)$", CHANGELOG.read_text(encoding="utf-8"), re.M)


def check_version(tag: str | None) -> str:
    version = read_version()
    if not RELEASE.fullmatch(version):
        raise StepError(f"{version} is not a release version: run .ci/release prepare")
    if tag is not None and tag != f"v{version}":
        raise StepError(f"the tag is {tag}, and the version is {version}")
    return version


def check_changelog() -> str:
    """Return the date of the section of this version, which must be the newest and must have entries."""
    version = read_version()
    dates = sections(version)
    if len(dates) != 1:
        raise StepError(f"CHANGELOG.md has {len(dates)} sections '## {version} - DATE'")
    _, unreleased, newest, *_ = re.split(r"^## ", CHANGELOG.read_text(encoding="utf-8") + "\n## ", flags=re.M)
    if unreleased.split() != ["Unreleased"]:
        raise StepError("the section Unreleased has entries: move them to the version")
    if not newest.startswith(f"{version} - ") or "\n- " not in newest:
        raise StepError(f"the newest section is not {version}, or has no entries")
    return f"{version} - {dates[0]}"


def check_citation() -> str:
    version, text = read_version(), CITATION.read_text(encoding="utf-8")
    if f"\nversion: {version}\n" not in text:
        raise StepError(f"CITATION.cff does not have version: {version}")
    if sections(version) != re.findall(r"^date-released: (.*)$", text, re.M):
        raise StepError("CITATION.cff and the changelog have different dates")
    return version
