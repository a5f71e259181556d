"""Subcommands of ``.ci/release``: prepare and check a release. Nothing is uploaded."""

from __future__ import annotations

import argparse
import sys

import audit
import builds
import checklist
import constraints
import environments
import sbom
import version


def main() -> int:
    parser = argparse.ArgumentParser(prog=".ci/release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare", help="set the version in its file, the changelog and CITATION.cff")
    prepare.add_argument("version", help="for example 0.1.0")
    commands.add_parser("build", help="build wheel and sdist twice from clean checkouts and compare the bytes")
    commands.add_parser("constraints", help="write requirements/constraints from the lock file")
    commands.add_parser("sbom", help="write the CycloneDX SBOM of the wheel with all extras, and validate it")
    commands.add_parser("audit", help="search the constraints for known vulnerabilities (needs the network)")
    check = commands.add_parser("check", help="run the whole checklist and print OK or FAILED for each line")
    check.add_argument("--tag", help="the Git tag of the release, which must agree with the version")
    options = parser.parse_args()
    try:
        return run(options)
    except environments.StepError as error:
        print(f"FAILED  {error}")
        return 1


def run(options: argparse.Namespace) -> int:
    match options.command:
        case "prepare":
            version.prepare(options.version)
        case "check":
            return checklist.run(options.tag)
        case "build":
            print(builds.build_twice(environments.make_tools(), environments.PACKAGES))
        case "constraints":
            tools, user = environments.make_tools(), environments.make_user_without_wheel()
            environments.run(tools, constraints.__file__, "--site", environments.site_packages(user))
            print(f"wrote {constraints.FOLDER}")
        case "sbom":
            tools = environments.make_tools()
            print(builds.build_twice(tools, environments.PACKAGES))
            print(sbom.write(tools, environments.make_user(environments.find_wheel())))
        case "audit":
            print(audit.audit(environments.make_tools()))
    return 0


sys.exit(main())
