#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""openapi-check - do the controller's real answers look as docs/openapi.json says?

   openapi-check SPEC SOURCE-OF-ROUTES URL RUN [NAME=VALUE...]

Every path that can be read is fetched and compared with its schema, strictly: a field that the schema
does not have is an error, too.  The routes in the source and those of the document must be the same.
Query parameters are tried one by one with the values given; site_node names a node that has a state,
steps=none says that the run has no step yet: its matrix is then answered 404.  The token comes from the file that
LOCKSTEP_TOKEN_FILE names; without it a path is answered 401 where the document asks for one, and only there.  Exits 0 when all is well.
"""
import json
import os
import re
import sys
import urllib.error
import urllib.request

spec_file, source, base, run = sys.argv[1:5]
values = dict(pair.split("=", 1) for pair in sys.argv[5:])
spec = json.load(open(spec_file, encoding="utf-8"))
wrong = []
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


def resolve(schema):
    while "$ref" in schema:
        schema = spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def check(value, schema, where):
    schema = resolve(schema)
    if value is None:
        if not schema.get("nullable"):
            wrong.append(f"{where}: null, expected {schema.get('type')}")
        return
    for part in schema.get("allOf", []):
        check(value, part, where)
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        wrong.append(f"{where}: {value!r}, expected {kind}")
        return
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{where}: {value!r} is none of {schema['enum']}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(item, schema["items"], f"{where}[{i}]")
    if isinstance(value, dict):
        check_object(value, schema, where)


def check_object(value, schema, where):
    known = schema.get("properties", {})
    more = schema.get("additionalProperties", False)
    for name in schema.get("required", []):
        if name not in value:
            wrong.append(f"{where}.{name} is missing")
    for name, item in value.items():
        if name in known:
            check(item, known[name], f"{where}.{name}")
        elif more is False and "allOf" not in schema:
            wrong.append(f"{where}.{name} is not in the document")
        elif isinstance(more, dict):
            check(item, more, f"{where}.{name}")


token = open(os.environ["LOCKSTEP_TOKEN_FILE"], encoding="ascii").read().strip()


def fetch(path, with_token=True):
    headers = {"Authorization": "Bearer " + token} if with_token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, headers=headers), timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def try_path(path, content, wanted=200):
    status, kind, body = fetch(path)
    expected, body_spec = next(iter(content.items()))  # the first: others need a query
    if status != wanted:
        wrong.append(f"{path}: {status} {body}")
    elif kind != expected:
        wrong.append(f"{path}: {kind}, expected {expected}")
    elif expected == "application/json":
        check(json.loads(body), body_spec["schema"], path)


routes = set(re.findall(r'\{ "(GET|POST)", (?:API )?"([^"]+)"', open(source, encoding="utf-8").read()))
routes = {(method, path if path.startswith("/") else "/api/v1/" + path) for method, path in routes}
documented = {(method.upper(), re.sub(r"\{(band|level|x|y|column)\}", "#", path.replace("{run}", "*").replace("{node}", "*"))) for path, item in spec["paths"].items() for method in item}
wrong += [f"{m} {p} is not in the document" for m, p in sorted(routes - documented)]
wrong += [f"{m} {p} is in the document only" for m, p in sorted(documented - routes)]

tried = 0
for path, item in spec["paths"].items():
    if "get" not in item or path.endswith(("/events", "/orders")):  # they wait
        continue
    if "200" not in item["get"]["responses"]:  # it redirects
        continue
    missing = values.get("steps") == "none" and re.search(r"/matrix|\{column\}", path)
    wanted = 404 if missing else 200
    content = item["get"]["responses"][str(wanted)]["content"]
    if "{node}" in path and "site_node" not in values:
        continue
    real = path.replace("{run}", run).replace("{node}", values.get("site_node", ""))
    real = re.sub(r"\{(band|level|x|y|column)\}", "0", real)
    needed = [p["name"] for p in item["get"].get("parameters", []) if p["in"] == "query" and p.get("required")]
    if needed:
        real += "?" + "&".join(f"{name}={values.get(name, 'x')}" for name in needed)
    try_path(real, content, wanted)
    refused = fetch(real, with_token=False)[0] == 401
    if refused != bool(item["get"]["security"]):
        wrong.append(f"{real}: {'refused' if refused else 'answered'} without a token")
    tried += 1
    for parameter in item["get"].get("parameters", []):
        value = values.get(parameter["name"])
        if parameter["in"] == "query" and value is not None and value in parameter["schema"].get("enum", [value]):
            try_path(f"{real}{'&' if '?' in real else '?'}{parameter['name']}={value}", content, wanted)
            tried += 1
for line in wrong:
    print(line)
print(f"{tried} answers, {len(wrong)} faults")
sys.exit(1 if wrong or not tried else 0)
