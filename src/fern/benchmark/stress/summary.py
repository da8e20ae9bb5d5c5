"""A stress test's outcome for people (a table) and for CI tools (JUnit XML)."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from fern.benchmark.stress.requirements import Requirement
from fern.benchmark.stress.run import Report, Result, StressFigures
from fern.files import write_whole
from fern.text import safe_text

COLUMNS = ("mse", "last_value_mse", "oracle_mse", "regret", "mae", "wd", "ept", "skill")
SURVIVES = "returns forecasts"
"""The name of the JUnit test case of a scenario without requirements."""

_MARKS = {"survived": "ok", "measured": "measured", "failed": "FAILED"}

_xml = partial(safe_text, medium="xml")


def as_text(report: Report) -> str:
    """The table, and below it what failed and by how much."""
    lengths = f"{report.settings.context_length} -> {report.settings.horizon} steps"
    lines = [f"{report.target}, {lengths}", "", *_table(report.results)]
    failed = [line for result in report.results for line in failures(result)]
    if failed:
        lines += ["", "failed:", *(f"  {line}" for line in failed)]
    return "\n".join([*lines, "", conclude(report.results)])


def conclude(results: Sequence[Result]) -> str:
    """The verdict in a sentence; without requirements, how the forecaster stands beside the last value."""
    scenarios = "1 scenario" if len(results) == 1 else f"{len(results)} scenarios"
    failure_count = sum(result.verdict == "failed" for result in results)
    if failure_count:
        return f"did not survive {failure_count} of {scenarios}"
    if all(result.verdict == "survived" for result in results):
        return f"survived {scenarios}"
    figures = [result.figures for result in results if result.figures is not None]
    better = sum(entry.mse < entry.last_value_mse for entry in figures)
    return (
        f"measured {scenarios}: better than repeating the last value in {better} of {len(figures)}; "
        "to get a verdict, add requirements such as skill>0"
    )


def failures(result: Result) -> list[str]:
    """A line for each thing that went wrong."""
    if result.reason is not None:
        return [f"{result.scenario}: {safe_text(result.reason, 'line')}"]
    return [f"{result.scenario}: {_shortfall(result, requirement)}" for requirement in result.broken]


def _shortfall(result: Result, requirement: Requirement) -> str:
    value = math.nan if result.figures is None else getattr(result.figures, requirement.metric)
    if math.isnan(value):
        return f"{requirement.metric} is undefined here, needs {requirement}"
    return f"{requirement.metric} is {value:.4g}, needs {requirement} (missed by {requirement.miss(value):.3g})"


def _table(results: tuple[Result, ...]) -> list[str]:
    def cells(figures: StressFigures | None) -> list[str]:
        return ["-" if figures is None else f"{getattr(figures, name):.4g}" for name in COLUMNS]

    rows: list[tuple[str, ...]] = [("scenario", "windows", *COLUMNS, "")]
    for result in results:
        rows.append((result.scenario, str(result.windows), *cells(result.figures), _MARKS[result.verdict]))
        rows += [(f"  {rival}", "", *cells(rival_figures), "") for rival, rival_figures in result.rivals.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        for row in rows
    )
    return ["  ".join(line).rstrip() for line in lines]


def write_junit(report: Report, path: Path) -> None:
    """Write the report as JUnit XML: a suite for each scenario, a test case for each of its requirements."""
    root = ElementTree.Element("testsuites", name=_xml(f"fern stress {report.target}"))
    suites = [_suite(report.target, result) for result in report.results]
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("time", f"{sum(result.seconds for result in report.results):.3f}")
    root.extend(suites)
    ElementTree.indent(root)
    with write_whole(path) as temporary:
        ElementTree.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)


def _suite(target: str, result: Result) -> ElementTree.Element:
    cases = _cases(result)
    failed = sum(trouble is not None for trouble in cases.values())
    counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0", "skipped": "0"}
    suite = ElementTree.Element("testsuite", {"name": _xml(result.scenario), **counts, "time": f"{result.seconds:.3f}"})
    properties = ElementTree.SubElement(suite, "properties")
    figures = {} if result.figures is None else asdict(result.figures)
    for rival, rival_figures in result.rivals.items():
        if rival_figures is not None:
            figures |= {f"{rival} {name}": value for name, value in asdict(rival_figures).items()}
    for name, value in {"windows": result.windows, **figures}.items():
        ElementTree.SubElement(properties, "property", name=name, value=f"{value:.10g}")
    for name, trouble in cases.items():
        about = {"classname": _xml(f"{target}.{result.scenario}"), "time": f"{result.seconds / len(cases):.3f}"}
        case = ElementTree.SubElement(suite, "testcase", {"name": name, **about})
        if trouble is not None:
            kind = "requirement" if result.reason is None else "forecaster"
            failure = ElementTree.SubElement(case, "failure", message=_xml(trouble), type=kind)
            failure.text = _xml(trouble)
    return suite


def _cases(result: Result) -> dict[str, str | None]:
    """The test cases of a scenario, and what was wrong in each."""
    if not result.requirements:
        return {SURVIVES: result.reason}
    broken = result.broken
    return {
        str(requirement): None if requirement not in broken else result.reason or _shortfall(result, requirement)
        for requirement in result.requirements
    }
