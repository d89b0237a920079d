"""examples/monitoring: the dashboard and the alert rules name what `--metrics` exports."""

import json
import re
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from reconciler.plan import drift
from reconciler.report.metrics import drift_metrics
from tests.strategies.examples import blocked, plan, purge
from tests.unit.docs.pages import read
from tests.unit.report.test_metrics import APPLIED, ended

GROUPS = YAML(typ="safe").load(read("examples/monitoring/alerts.yaml"))
RULES = [rule for group in GROUPS["groups"] for rule in group["rules"]]
DASHBOARD = json.loads(read("examples/monitoring/dashboard.json"))
PROMQL_WORDS = {"absent", "and", "by", "increase", "sum", "time", "label_values"}
DURATION = r"(?:\d+[smhd])+"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Metric → its labels, in the output of a cluster with drift and of runs."""
    report = drift.report(plan(purge(), blocked(), blocked("GroupRemoval/dead-etl/x", unread=True)))
    path = tmp_path_factory.mktemp("metrics") / "reconciler.prom"
    exported = {}
    for metrics in (drift_metrics([report]), ended(APPLIED)):
        metrics.write(path)
        for family in text_string_to_metric_families(read(path)):
            exported |= {sample.name: set(sample.labels) for sample in family.samples}
    return exported


def expressions() -> Iterator[tuple[str, str]]:
    """Yield (where, PromQL) for each expression of the rules and of the dashboard."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def test_every_expression_names_exported_metrics_and_their_labels(exported: dict[str, set[str]]) -> None:
    """A renamed metric or label would make an alert that never fires."""
    for where, expression in expressions():
        names = re.findall(r"[a-z_]+", re.sub(r'"[^"]*"|\[1h\]', "", expression))
        metrics = [name for name in names if name.startswith("reconciler_")]
        assert metrics, where
        assert set(metrics) <= set(exported), where
        labels = set(names) - set(metrics) - PROMQL_WORDS
        assert labels <= set.union(*(exported[metric] for metric in metrics)), f"{where}: {labels}"
        assert expression.count("(") == expression.count(")"), where


def test_every_exported_metric_is_in_the_dashboard_or_in_a_rule(exported: dict[str, set[str]]) -> None:
    text = " ".join(expression for _, expression in expressions())
    assert {metric for metric in exported if not re.search(rf"\b{metric}\b", text)} == set()


def test_the_table_of_cron_md_names_each_metric(exported: dict[str, set[str]]) -> None:
    table = re.findall(r"^\| (`reconciler_.*?) \|", read("docs/cron.md"), re.MULTILINE)
    assert exported.keys() == {name for row in table for name in re.findall(r"`(\w+)`", row)}


def test_the_rules_have_the_shape_that_prometheus_reads(exported: dict[str, set[str]]) -> None:
    """As `promtool check rules` says; templates name existing labels."""
    assert set(GROUPS) == {"groups"}
    assert all(set(group) == {"name", "rules"} for group in GROUPS["groups"])
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names) >= 6
    labels = set.union(*exported.values())
    for rule in RULES:
        assert (
            {"alert", "expr", "labels", "annotations"} <= set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        )
        assert re.fullmatch(r"[A-Z]\w+", rule["alert"])
        assert re.fullmatch(DURATION, str(rule.get("for", "1m")))
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= labels


def test_the_page_describes_every_alert() -> None:
    """The table of monitoring.md has a row for each alert, with its expression and duration."""
    table = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (.*?) \|", read("docs/monitoring.md"), re.MULTILINE)
    assert table == [(rule["alert"], rule["expr"], str(rule.get("for", "at once"))) for rule in RULES]


def test_the_panels_do_not_overlap() -> None:
    """Grafana's grid has 24 columns; a cell belongs to one panel, and each panel has an id of its own."""
    cells: list[tuple[int, int]] = []
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells += [
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
    assert len(set(cells)) == len(cells)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_dashboard_asks_for_its_data_source() -> None:
    """It names no data source of one Grafana, so it can be imported anywhere."""
    text = read("examples/monitoring/dashboard.json")
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {"${datasource}", "reconciler-drift"}
    assert not re.search(r"https?://", text)
