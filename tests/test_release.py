"""Release files: constraints, licenses, workflows, classifiers, citation. ``.ci/release check`` runs the slow checks."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = ("audit", "builds", "constraints", "environments", "licenses", "version")


@pytest.fixture(scope="module")
def release() -> dict[str, ModuleType]:
    """The modules of ``.ci/releasing``, which import each other without a package."""
    import importlib

    folder = str(ROOT / ".ci" / "releasing")
    sys.path.insert(0, folder)
    try:
        return {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(folder)
        for name in MODULES:
            sys.modules.pop(name, None)


def pinned(extra: str) -> dict[str, list[str]]:
    """Return the versions of each package in a file of constraints."""
    versions: dict[str, list[str]] = {}
    text = (ROOT / "requirements" / "constraints" / f"{extra}.txt").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([a-z0-9-]+)==([^ ]+)", text, re.MULTILINE):
        versions.setdefault(name, []).append(version)
    return versions


def test_constraints_agree_with_pyproject_and_the_lock(release: dict[str, ModuleType]) -> None:
    assert release["constraints"].compare(None) == [], "run .ci/release constraints"


def test_constraints_satisfy_the_requirements_of_each_extra(release: dict[str, ModuleType]) -> None:
    for extra in ["base", *PROJECT["optional-dependencies"]]:
        versions = pinned(extra)
        for requirement in release["constraints"].own_requirements(PROJECT, {extra} - {"base"}):
            found = versions[canonicalize_name(requirement.name)]
            assert all(requirement.specifier.contains(version) for version in found), requirement


def test_constraints_of_all_cover_each_extra() -> None:
    everything = pinned("all")
    for extra in ["base", *PROJECT["optional-dependencies"]]:
        assert pinned(extra).items() <= everything.items()


def test_requirement_files_have_hashes_and_no_addresses() -> None:
    for path in [*(ROOT / "requirements").glob("*.txt"), *(ROOT / "requirements" / "constraints").iterdir()]:
        text = path.read_text(encoding="utf-8")
        assert "://" not in text, path.name
        assert not re.search(r"^--?[a-z]", text, re.MULTILINE), path.name
        entries = re.findall(r"^[a-z0-9].*\n(?:[ \t]+.*\n)*", text, re.MULTILINE)
        assert entries
        assert all("--hash=sha256:" in entry for entry in entries), path.name


def test_release_tools_have_the_versions_of_the_lock() -> None:
    lock = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    tools = (ROOT / "requirements" / "release.txt").read_text(encoding="utf-8")
    for name in ("build", "hatchling"):
        entry = re.compile(rf"^{name}==.*\n(?:[ \t]+.*\n)*", re.MULTILINE)
        assert entry.findall(lock) == entry.findall(tools), name


def test_licenses_of_runtime_dependencies_are_allowed(release: dict[str, ModuleType]) -> None:
    installed = {canonicalize_name(found.metadata["Name"]) for found in metadata.distributions()}
    for name in pinned("all").keys() - installed:
        assert name == "colorama", f"{name} is not installed"  # Windows only; BSD-3-Clause
    assert release["licenses"].find_problems(pinned("all").keys() & installed) == []


def test_license_exceptions_are_used_and_documented(release: dict[str, ModuleType]) -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert release["licenses"].EXCEPTIONS.keys() <= pinned("all").keys()
    for name in [*release["licenses"].ALLOWED, *release["licenses"].EXCEPTIONS]:
        assert name in page, name


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("", False),
        ("MIT AND Apache-2.0 WITH LLVM-exception", True),
        ("MIT AND GPL-2.0-only", False),
        ("GPL-2.0-only OR BSD-2-Clause", True),
        ("(MIT)", True),
        ("MIT AND (GPL-2.0-only OR MIT)", False),
    ],
)
def test_license_expressions(release: dict[str, ModuleType], expression: str, allowed: bool) -> None:
    assert release["licenses"].is_allowed(expression) is allowed


def test_audit_fails_if_a_package_was_not_audited(release: dict[str, ModuleType]) -> None:
    audit = release["audit"]
    clean = {"name": "lark", "version": "1.3.1", "vulns": []}
    vulnerable = {"name": "lark", "version": "1.3.1", "vulns": [{"id": "PYSEC-1"}]}
    accepted = {"PYSEC-1": {"package": "lark", "reason": "…"}}
    assert audit.summarize({"dependencies": [clean]}, {}) == "1 packages audited; 0 accepted vulnerabilities"
    assert "1 accepted" in audit.summarize({"dependencies": [vulnerable]}, accepted)
    for packages, known in (
        ([{"name": "lark", "skip_reason": "not found"}], {}),
        ([vulnerable], {}),
        ([clean], accepted),
        ([], {}),
    ):
        with pytest.raises(release["environments"].StepError):
            audit.summarize({"dependencies": packages}, known)


def test_accepted_vulnerabilities_have_reasons(release: dict[str, ModuleType]) -> None:
    for name, entry in release["audit"].read_accepted().items():
        assert entry["package"] in pinned("all"), name
        assert len(entry["reason"]) > 20, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_pinned_and_limited(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        for step in job["steps"]:
            # Text of an event in a shell command would run as code.
            assert "${{" not in step.get("run", ""), step
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    uses = re.findall(r"uses: (.*)", text)
    assert uses
    for use in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use), use


def test_one_action_has_one_digest() -> None:
    found: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for action, digest in re.findall(r"uses: (.*?)@(.*)", path.read_text(encoding="utf-8")):
            found.setdefault(action, set()).add(digest)
    assert {action: digests for action, digests in found.items() if len(digests) > 1} == {}


def test_only_the_publishing_job_can_publish() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert "permissions" not in jobs["build"]  # inherits contents: read
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "pypi"
    assert [name for name, job in jobs.items() if "environment" in job] == ["publish"]


def test_other_github_files_parse() -> None:
    github = ROOT / ".github"
    dependabot = yaml.safe_load((github / "dependabot.yml").read_text(encoding="utf-8"))
    assert [update["package-ecosystem"] for update in dependabot["updates"]] == ["pip", "github-actions"]
    forms = sorted(github.glob("ISSUE_TEMPLATE/*.yml"))
    assert {form.stem for form in forms} == {"bug", "config", "feature", "question", "wrong-match"}
    for form in forms:
        content = yaml.safe_load(form.read_text(encoding="utf-8"))
        fields = [field for field in content.get("body", []) if field["type"] != "markdown"]
        if form.stem != "config":
            assert content["name"]
            assert content["description"]
            assert fields
        assert len({field["id"] for field in fields}) == len(fields)
        for page in re.findall(r"docs/[\w/-]+(?:\.md)?", form.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), page


def test_classifiers_name_what_is_tested() -> None:
    from trove_classifiers import classifiers

    assert set(PROJECT["classifiers"]) <= classifiers
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tested = set(re.findall(r'python-version: "([\d.]+)"', text))
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert named == tested
    assert [line for line in PROJECT["classifiers"] if line.startswith("Operating")] == [
        "Operating System :: POSIX :: Linux"
    ]


def test_citation_names_the_version_and_five_papers(release: dict[str, ModuleType]) -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == release["version"].read_version()
    assert citation["license"] == PROJECT["license"]
    semantics = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    papers = citation["references"]
    assert len(papers) == len(re.findall(r"^\| paper \d \|", semantics, re.MULTILINE)) == 5
    for paper in papers:
        assert paper["authors"]
        assert paper["year"]
        assert paper.get("journal") or paper["conference"]["name"]


def test_prepare_sets_the_version_in_all_files(release: dict[str, ModuleType], tmp_path: Path) -> None:
    version = release["version"]
    copies = {}
    for name in ("VERSION_FILE", "CHANGELOG", "CITATION"):
        original = getattr(version, name)
        copies[name] = tmp_path / original.name
        copies[name].write_text(original.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name, copy in copies.items():
            patch.setattr(version, name, copy)
        with pytest.raises(release["environments"].StepError, match="prepare"):
            version.check_version(None)
        version.prepare("99.1.0")
        assert version.check_version("v99.1.0") == "99.1.0"
        assert version.check_changelog().startswith("99.1.0 - 20")
        assert version.check_citation() == "99.1.0"
        with pytest.raises(release["environments"].StepError, match=re.escape("the tag is v99.1.1")):
            version.check_version("v99.1.1")
        with pytest.raises(release["environments"].StepError, match="already"):
            version.prepare("99.1.0")


def test_builds_that_differ_are_an_error(release: dict[str, ModuleType], tmp_path: Path) -> None:
    def build(python: Path, commit: str, folder: Path, umask: int, variables: dict[str, str]) -> Path:
        output = folder / "output"
        output.mkdir(parents=True)
        (output / "perseid-1.0.0.tar.gz").write_text("equal")
        (output / "perseid-1.0.0-py3-none-any.whl").write_text(variables["TZ"])
        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release["builds"], "git", lambda *words: "0" * 40)
        patch.setattr(release["builds"], "build", build)
        with pytest.raises(release["environments"].StepError, match="the builds differ"):
            release["builds"].build_twice(Path(sys.executable), tmp_path / "packages")
    assert not (tmp_path / "packages").exists()


@pytest.mark.deep
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="builds a commit")
def test_two_builds_are_equal(release: dict[str, ModuleType], tmp_path: Path) -> None:
    printed = release["builds"].build_twice(Path(sys.executable), tmp_path / "packages")
    assert re.search(r"^[0-9a-f]{64}  perseid-.*\.whl$", printed, re.MULTILINE)
    assert re.search(r"^[0-9a-f]{64}  perseid-.*\.tar\.gz$", printed, re.MULTILINE)
