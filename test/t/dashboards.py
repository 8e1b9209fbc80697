# dashboards.py rules FILE...          the queries of dashboards as recording rules, for promtool check rules
# dashboards.py ask URL RUN FILE...    asks a Prometheus each of them; exit 1 if one fails or, where it must not, is empty
# dashboards.py shape FILE...          whether each is a dashboard that Grafana imports, or a list of annotations
# SPDX-License-Identifier: Apache-2.0
import json
import sys
import urllib.parse
import urllib.request

# Empty where nothing is wrong: an open verdict of this sort need not be there.
MAY_BE_EMPTY = ('kind=~"crash|hang|desync|corruption"', 'kind!~"crash|hang|desync|corruption"')


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def filled(query, run):
    for name, value in (("$__rate_interval", "20s"), ("$instance", ".*"), ("$run", run)):
        query = query.replace(name, value)
    return query


def queries(path, run):
    """(where, query) of panels, annotations and variables."""
    board = load(path)
    annotations = board if isinstance(board, list) else board["annotations"]["list"]
    for annotation in annotations:
        yield annotation["name"], filled(annotation["expr"], run)
    if isinstance(board, list):
        return
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], filled(target["expr"], run)
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = variable["query"]["query"].removeprefix("label_values(").rstrip(")").split(", ")
            yield "variable " + variable["name"], f"count by ({label}) ({metric})"


def rules(paths):
    print("groups: [{ name: dashboards, rules: [")
    for path in paths:
        for place, (_, query) in enumerate(queries(path, "r")):
            print(f"  {{ record: 'query:{place}', labels: {{ board: '{path.split('/')[-1]}' }}, expr: {json.dumps(query)} }},")
    print("] }]")


def ask(url, run, paths):
    bad = 0
    for path in paths:
        for where, query in queries(path, run):
            answer = json.load(urllib.request.urlopen(url + "/api/v1/query?" + urllib.parse.urlencode({"query": query})))
            rows = len(answer["data"]["result"])
            print(f"{rows:4} {path.split('/')[-1]}: {where}")
            if not rows and not any(text in query for text in MAY_BE_EMPTY):
                print(f"no data: {query}")
                bad += 1
    return bad > 0


def shape(paths):
    for path in paths:
        board = load(path)
        if isinstance(board, list):
            assert all(a["name"] and a["expr"] and a["datasource"]["uid"] == "${datasource}" for a in board), path
            continue
        assert board["uid"] and board["title"] and board["schemaVersion"] >= 36, path
        assert "id" not in board, f"{path}: an id of one Grafana"
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(numbers) == len(set(numbers)), f"{path}: panels with the same id"
        cells = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24, f"{path}: {panel['title']} is beyond the edge"
            mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not mine & cells, f"{path}: {panel['title']} overlaps another panel"
            cells |= mine
            assert panel["datasource"]["uid"] == "${datasource}", f"{path}: {panel['title']}: a datasource of one Grafana"
            assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"]), f"{path}: {panel['title']}: refId"


def main(arguments):
    if arguments[0] == "rules":
        rules(arguments[1:])
    elif arguments[0] == "shape":
        shape(arguments[1:])
    else:
        return ask(arguments[1], arguments[2], arguments[3:])
    return 0


sys.exit(main(sys.argv[1:]))
