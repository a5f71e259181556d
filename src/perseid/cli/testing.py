"""``perseid test``: run test cases of rules with the reference implementation, and report the coverage."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape, quoteattr  # nothing is read with it

import typer

import perseid as ps
from perseid.cli.common import fail, is_job, misuse, pattern_files
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.binding import bind
from perseid.semantics.resolve import resolve
from perseid.testing.cases import PatternCase, picture, read_cases, run_case
from perseid.testing.coverage import Coverage

_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Outcome:
    """Result of one case."""

    case: PatternCase
    seconds: float
    gave: tuple[str, ...] = ()
    broken: str | None = None

    @property
    def right(self) -> bool:
        return self.broken is None and self.gave == self.case.expected

    def explain(self) -> str:
        """Explain the failure, in lines."""
        if self.broken is not None:
            return self.broken
        listed = [
            *(f"expected: {line}" for line in self.case.expected or ("none",)),
            *(f"found:    {line}" for line in self.gave or ("none",)),
        ]
        return "\n".join([*listed, f"why:      {self.case.why}"])


def check_rules(
    rules: Annotated[
        Path, typer.Argument(metavar="RULES", help="A .perseid file, a folder of .perseid files, or a job file.")
    ],
    cases: Annotated[
        list[Path] | None,
        typer.Option("--cases", metavar="PATH", help="A file or folder of cases; default: the folder of the rules."),
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the result as JUnit XML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Fail if a step or condition was not reached.")] = False,
) -> None:
    """Run test cases of rules, and report the steps and conditions that no case reached.

    Cases are in .cases files: 'of NAME', events, gives, why (docs/guides/testing-patterns.md).

    Example: perseid test rules/ --junit report.xml
    """
    try:
        loaded, folder = _rules(rules)
        parsed_cases = [case for path in _case_files(cases, folder) for case in _cases(path, loaded)]
    except ps.PerseidError as error:
        raise fail(error, rules) from None
    coverage = Coverage(loaded.names)
    outcomes = [_outcome(case, coverage) for case in parsed_cases]
    if junit is not None:
        try:
            junit.write_text(_junit(outcomes), encoding="utf-8")
        except OSError as error:
            raise misuse(f"Cannot write {junit}: {error.strerror}.") from None
    unreached = {name: reached.unreached() for name, reached in coverage.rules.items()}
    if as_json:
        typer.echo(json.dumps(_to_json(outcomes, unreached), ensure_ascii=False))
    else:
        _show(outcomes, unreached)
    if not all(one.right for one in outcomes) or (whole and any(unreached.values())):
        raise typer.Exit(1)


def _rules(path: Path) -> tuple[ps.PatternSet, Path]:
    """Load the rules; return them and the folder of their cases."""
    if is_job(path):
        from perseid.jobs.reading import read_job
        from perseid.jobs.rule_loading import parse_patterns

        return parse_patterns(read_job(path)), path.parent
    return ps.patterns([ps.load(one) for one in pattern_files(path)]), path if path.is_dir() else path.parent


def _case_files(paths: list[Path] | None, folder: Path) -> list[Path]:
    files: list[Path] = []
    for path in paths or [folder]:
        if path.is_dir():
            files += sorted(path.rglob("*.cases"))
        else:
            files.append(path)
    if not files:
        raise ps.PerseidError(
            "No cases found.",
            hint=f"Add cases to {folder / 'rules.cases'}, or use --cases PATH.",
        )
    return files


def _cases(path: Path, rules: ps.PatternSet) -> list[PatternCase]:
    try:
        return read_cases(path, rules=rules)
    except OSError as error:
        raise ps.PerseidError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ps.PerseidError(f"{path} is not UTF-8 text.") from None
    except (ValueError, ArithmeticError) as error:
        raise ps.PerseidError(f"Invalid case: {error}.") from None


def _outcome(case: PatternCase, coverage: Coverage) -> Outcome:
    started_s = time.perf_counter()
    try:
        for pattern in ps.patterns(case.text).tree.patterns:
            values = {
                name: value
                for name, value in (case.bound or {}).items()
                if name in {p.name for p in pattern.parameters}
            }
            coverage.start_case(pattern.name, resolve(bind(pattern, values)))
        gave = tuple(run_case(case, coverage.matcher()))
    except (ps.PerseidError, ValueError) as error:
        return Outcome(case, time.perf_counter() - started_s, broken=str(error))
    return Outcome(case, time.perf_counter() - started_s, gave)


def _to_json(outcomes: list[Outcome], unreached: dict[str, list[str]]) -> dict[str, object]:
    return {
        "ok": all(outcome.right for outcome in outcomes),
        "cases": [
            {
                "file": outcome.case.source,
                "title": outcome.case.title,
                "passed": outcome.right,
                "expected": list(outcome.case.expected),
                "found": list(outcome.gave),
                "error": outcome.broken,
            }
            for outcome in outcomes
        ],
        "unreached": unreached,
    }


def _show(outcomes: list[Outcome], unreached: dict[str, list[str]]) -> None:
    for outcome in outcomes:
        if outcome.right:
            continue
        typer.echo(f"{outcome.case.source}: {outcome.case.title}")
        for line in outcome.explain().splitlines():
            typer.echo(f"  {line}")
        if outcome.broken is None:
            for line in picture(outcome.case, oracle_matcher()).splitlines():
                typer.echo(f"  {line}")
    wrong = sum(not outcome.right for outcome in outcomes)
    count = f"{len(outcomes)} case{'' if len(outcomes) == 1 else 's'}"
    typer.echo(f"{count}, OK" if not wrong else f"{count}, {wrong} failed")
    for name, sentences in unreached.items():
        for sentence in sentences:
            typer.echo(f"not reached: {name}: {sentence}")


def _junit(outcomes: list[Outcome]) -> str:
    """JUnit XML, as build servers read it."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="perseid" tests="{len(outcomes)}" failures="{sum(not o.right and o.broken is None for o in outcomes)}" '
        f'errors="{sum(o.broken is not None for o in outcomes)}">',
    ]
    for outcome in outcomes:
        name, where = quoteattr(_clean(outcome.case.title)), quoteattr(_clean(outcome.case.source))
        head = f'  <testcase classname={where} name={name} time="{outcome.seconds:.3f}"'
        if outcome.right:
            lines.append(head + "/>")
            continue
        element = "failure" if outcome.broken is None else "error"
        text = _clean(outcome.explain())
        first = quoteattr(text.splitlines()[0] if text else element)
        lines += [head + ">", f"    <{element} message={first}>{escape(text)}</{element}>", "  </testcase>"]
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def _clean(text: str) -> str:
    return _NO_XML.sub("?", text)
