# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of brigd: its form, and that it says what the documents and the code say."""

import copy
import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

from conftest import BRIG
from test_docs import read, table

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRIGD = os.environ.get("BRIGD", str(pathlib.Path(BRIG).with_name("brigd")))
CASES = ROOT / "tests" / "cases" / "request"
METHODS = {"get", "post", "put", "delete"}
Validator = jsonschema.Draft202012Validator

# What a schema cannot say: a sum, one place against another; and Python's $ is before a last newline.
BEYOND_A_SCHEMA = {
    "bad-args-and-env-too-long", "bad-file-above-file", "bad-file-below-file", "bad-file-over-the-code",
    "bad-file-over-the-named-code", "bad-file-twice", "bad-session-newline",
}

# The part of OpenAPI 3.1 that the document uses; nothing else may be in it.
REF = {"type": "object", "required": ["$ref"], "properties": {"$ref": {"type": "string"}},
       "additionalProperties": False}
TEXT = {"type": "string", "minLength": 1}


def shape(needed, optional=(), **more):
    """An object with these keys, texts where nothing else is said, and no others."""
    properties = dict({name: TEXT for name in list(needed) + list(optional)}, **more)
    return {"type": "object", "required": list(needed), "properties": properties,
            "additionalProperties": False}


def map_of(value, names=None):
    more = {"propertyNames": {"pattern": names}} if names else {}
    return dict({"type": "object", "additionalProperties": value}, **more)


SCHEMA = {"type": "object"}
CONTENT = map_of({"type": "object", "properties": {"schema": SCHEMA}, "additionalProperties": False},
                 r"^[a-z]+/[a-z0-9.+-]+$")
PARAMETER = shape(["name", "in", "required", "schema", "description"], required={"type": "boolean"},
                  schema=SCHEMA, **{"in": {"enum": ["path", "query", "header"]}})
HEADER = shape(["description", "schema"], schema=SCHEMA)
RESPONSE = {"anyOf": [REF, shape(["description"], headers=map_of({"anyOf": [REF, HEADER]}),
                                 content=CONTENT)]}
OPERATION = shape(
    ["operationId", "summary", "parameters", "responses", "x-brig-scopes"],
    operationId={"type": "string", "pattern": "^[a-z][A-Za-z]+$"},
    parameters={"type": "array", "items": PARAMETER},
    requestBody=shape(["required", "content"], required={"const": True}, content=CONTENT),
    responses=map_of(RESPONSE, "^([1-5][0-9][0-9]|default)$"),
    **{"x-brig-scopes": {"type": "array", "uniqueItems": True,
                         "items": {"enum": ["run", "read", "approve", "admin"]}}})
NAMES = "^[A-Za-z0-9._-]+$"
DOCUMENT = shape(
    ["openapi", "info", "servers", "security", "paths", "components"],
    openapi={"const": "3.1.0"},
    info=shape(["title", "version", "summary", "description", "license"],
               license=shape(["name", "identifier"])),
    servers={"type": "array", "minItems": 1, "items": shape(["url", "description"])},
    security={"type": "array", "items": map_of({"type": "array"})},
    paths=map_of({"type": "object", "minProperties": 1, "additionalProperties": False,
                  "properties": {method: OPERATION for method in METHODS}}, "^/"),
    components={"type": "object", "additionalProperties": False,
                "required": ["securitySchemes", "headers", "responses", "schemas"],
                "properties": {"securitySchemes": map_of(shape(["type"], ["scheme", "bearerFormat", "description"]), NAMES),
                               "headers": map_of(HEADER, NAMES), "responses": map_of(RESPONSE, NAMES),
                               "schemas": map_of(SCHEMA, NAMES)}})


@pytest.fixture(autouse=True)
def residue():
    """Instead of the look at the host after each test: the few boxes here are looked at elsewhere."""


def unique(pairs):
    keys = [key for key, _value in pairs]
    assert len(set(keys)) == len(keys), "a key twice: %s" % sorted(keys)
    return dict(pairs)


@pytest.fixture(scope="module")
def document():
    done = subprocess.run([BRIGD, "--openapi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=30, check=False)
    assert done.returncode == 0 and done.stderr == b"", done
    return json.loads(done.stdout.decode("utf-8"), object_pairs_hook=unique)


@pytest.fixture(scope="module")
def schemas(document):
    return document["components"]["schemas"]


def nodes(value):
    """Every object below a value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(item)


def resolve(document, ref):
    assert ref.startswith("#/"), ref
    found = document
    for part in ref[2:].split("/"):
        assert part in found, "%s leads nowhere" % ref
        found = found[part]
    return found


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def checker(document, name, closed=False):
    """A validator for one schema; closed: a key that is not described is an error."""
    parts = document["components"]["schemas"]
    if closed:
        parts = copy.deepcopy(parts)
        for node in nodes(parts):
            if "properties" in node and node.get("type") == "object":
                node.setdefault("additionalProperties", False)
    return Validator({"$ref": "#/components/schemas/" + name, "components": {"schemas": parts}})


def wrong(validator, value):
    return ["%s: %.300s" % (list(e.absolute_path), e.message) for e in validator.iter_errors(value)]


# The form


def test_the_document_has_the_form_of_openapi(document):
    assert wrong(Validator(DOCUMENT), document) == []


def test_every_reference_resolves(document):
    refs = [node["$ref"] for node in nodes(document) if isinstance(node.get("$ref"), str)]
    assert len(refs) > 100
    for ref in refs:
        resolve(document, ref)


def test_nothing_is_described_that_no_operation_uses(document):
    seen, todo = set(), [document["paths"]]
    while todo:
        for node in nodes(todo.pop()):
            ref = node.get("$ref")
            if isinstance(ref, str) and ref not in seen:
                seen.add(ref)
                todo.append(resolve(document, ref))
    described = {"#/components/%s/%s" % (kind, name) for kind, items in document["components"].items()
                 if kind != "securitySchemes" for name in items}
    # The answer to a method that is no operation of the path.
    assert described - seen == {"#/components/responses/Method", "#/components/headers/Allow"}


def test_every_schema_is_a_schema(schemas):
    assert len(schemas) > 20
    for name, schema in schemas.items():
        Validator.check_schema(schema)
        for node in nodes(schema):
            if isinstance(node.get("pattern"), str):
                re.compile(node["pattern"])
            if node.get("type") == "object" and "properties" in node:
                assert set(node.get("required", ())) <= set(node["properties"]), name


def test_operations_have_names_of_their_own(document):
    ids = [operation["operationId"] for _method, _path, operation in operations(document)]
    assert len(ids) == len(set(ids)) > 20


def test_parameters_of_the_path_are_those_of_its_template(document):
    for method, path, operation in operations(document):
        names = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert names == re.findall(r"{(\w+)}", path), (method, path)
        assert all(p["required"] == (p["in"] == "path") for p in operation["parameters"])
        keys = [(p["in"], p["name"]) for p in operation["parameters"]]
        assert len(keys) == len(set(keys)), (method, path)


def test_every_operation_has_one_success_at_least_and_the_errors_of_all(document):
    for method, path, operation in operations(document):
        statuses = set(operation["responses"])
        assert statuses & {"101", "200", "202"}, (method, path)
        assert {"400", "401", "403", "421", "429", "default"} <= statuses, (method, path)
        assert ("404" in statuses) == ("{" in path), (method, path)
        assert ({"413", "415"} <= statuses) == ("requestBody" in operation), (method, path)


def test_only_what_a_method_may_have_has_a_body(document):
    for method, path, operation in operations(document):
        assert "requestBody" not in operation or method == "POST", (method, path)


def test_a_run_may_come_with_a_key_and_may_be_under_way(document):
    for path in ("/execute", "/executions"):
        operation = document["paths"][path]["post"]
        headers = {p["name"] for p in operation["parameters"] if p["in"] == "header"}
        assert headers == {"Idempotency-Key", "traceparent"}
        assert {"409", "422", "503"} <= set(operation["responses"])
    answers = document["paths"]["/executions"]["post"]["responses"]
    kinds = {status: answers[status]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
             for status in ("200", "202")}
    assert kinds == {"200": "Result", "202": "Status"}


def test_streams_of_events_can_be_resumed(document):
    streams = [operation for _method, _path, operation in operations(document)
               if "text/event-stream" in operation["responses"].get("200", {}).get("content", {})]
    assert len(streams) == 2
    for operation in streams:
        assert "Last-Event-ID" in {p["name"] for p in operation["parameters"]}


# Against docs/api.md


def rows_of(title):
    section = re.search(r"^## %s\n(.*?)(?=^## |\Z)" % title, read("docs", "api.md"), re.M | re.S).group(1)
    rows = [re.split(r"(?<!\\) \| ", row.strip("| ")) for row in section.splitlines() if row.startswith("| ")]
    assert len(rows) > 2, title
    return rows[1:]


def routes_of_the_page():
    """(method, path) -> names of the query, scope or None."""
    found = {}
    for title in ("Executions", "Approvals", "The rest"):
        for row in rows_of(title):
            method, target = row[0].strip("`").split(" ")
            path, _, query = target.partition("?")
            names = {part.partition("=")[0] for part in query.split("&") if part}
            found[method, path] = names, row[1].strip() if title == "The rest" else None
    return found


def test_every_route_of_the_page_is_in_the_document_and_no_other(document):
    assert {(m, p) for m, p, _o in operations(document)} == set(routes_of_the_page())


def test_the_query_of_the_page_is_in_the_document(document):
    for (method, path), (names, _scope) in routes_of_the_page().items():
        operation = document["paths"][path][method.lower()]
        known = {p["name"] for p in operation["parameters"] if p["in"] == "query"}
        assert names <= known, (method, path)


def test_scopes_are_those_of_the_page(document):
    for (method, path), (_names, scope) in routes_of_the_page().items():
        scopes = document["paths"][path][method.lower()]["x-brig-scopes"]
        if scope == "any":
            assert scopes == [], path
        elif scope:
            assert scope in scopes, path
        else:
            assert scopes, path


def test_errors_are_those_of_the_page(document, schemas):
    rows = rows_of("Errors")
    used = {status for _m, _p, o in operations(document) for status in o["responses"]}
    codes = schemas["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert {row[0] for row in rows} == {status for status in used if status >= "400"} - {"default"} | {"405"}
    assert {row[1] for row in rows} <= set(codes)


# Against the code


def test_error_codes_are_those_of_the_code(schemas):
    codes = schemas["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert set(codes) == {row[1] for row in table("src/base/err.h", "ERR_TABLE")}


def test_end_states_are_those_of_the_code(schemas):
    assert schemas["EndState"]["enum"] == [row[1] for row in table("src/model/result.h", "RUN_STATE_TABLE")]


def number(text):
    units = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
    value = 1
    for factor in text.split("*"):
        value *= units.get(factor.strip()) or int(factor)
    return value


def test_limits_are_those_of_the_code(schemas):
    properties = dict(schemas["Limits"]["properties"], timeout_ms=schemas["Request"]["properties"]["timeout_ms"])
    rows = {row[1]: row for row in table("src/model/limits.h", "LIMITS_TABLE")}
    assert set(rows) == set(properties)
    for key, row in rows.items():
        scale = 1000 if row[3] == "MILLI" else 1
        said = [properties[key][name] for name in ("default", "minimum", "maximum")]
        assert said == [number(text) / scale for text in row[4:7]], key


def case_of(path):
    text = re.sub(r"@(.)(\d+)@", lambda m: m.group(1) * int(m.group(2)), path.read_text(encoding="utf-8"))
    case = json.loads(text)
    case = case["request"] if path.name.startswith("bad-") else case
    return json.loads(case) if isinstance(case, str) and path.name.startswith("ok-") else case


OK = sorted(CASES.glob("ok-*.json"))
BAD = sorted(CASES.glob("bad-*.json"))


@pytest.mark.parametrize("path", OK, ids=lambda path: path.stem)
def test_a_request_that_brig_takes_is_one_of_the_schema(document, path):
    assert wrong(checker(document, "Request"), case_of(path)) == []


def test_a_request_that_brig_refuses_is_none_of_the_schema(document):
    validator = checker(document, "Request")
    passed, tried = set(), 0
    for path in BAD:
        case = case_of(path)
        if isinstance(case, str):  # not even JSON, or twice the same key
            continue
        tried += 1
        if validator.is_valid(case):
            passed.add(path.stem)
    assert tried > 100
    assert passed == BEYOND_A_SCHEMA


@pytest.mark.parametrize("value", [
    {"action": "web_browsing", "params": {"url": "http://x"}},
    {"action": "code_execution", "language": "py", "code": "1"},
])
def test_an_action_decides_what_a_request_needs(document, value):
    assert wrong(checker(document, "Request"), value) == []
    assert wrong(checker(document, "Request"), dict(value, action="file_operation" if "code" in value else "code_execution"))


# Against what brig says


@pytest.mark.parametrize("code, state", [
    ("print(1)", "finished"), ("open('/workspace/new', 'w').write('x'); 1/0", "failed"),
    ("import time; time.sleep(60)", "timed_out"), ("import os; os.kill(os.getpid(), 9)", "killed"),
])
def test_results_are_as_described(document, brig_user, code, state):
    run = brig_user.python(code, "--timeout", "1s" if state == "timed_out" else "30s")
    assert run.result["state"] == state
    assert wrong(checker(document, "Result", closed=True), run.result) == []
    assert wrong(checker(document, "ResultOrStatus"), run.result) == []


def test_a_result_that_lacks_something_is_told(document, brig_user):
    result = brig_user.python("print(1)").result
    validator = checker(document, "Result", closed=True)
    for key in result:
        assert wrong(validator, {name: result[name] for name in result if name != key}), key
    assert wrong(validator, dict(result, more=1))
    assert wrong(validator, dict(result, state="running"))


def test_the_report_on_the_host_is_as_described(document, brig_user):
    run = brig_user.command("doctor", "--json")
    assert wrong(checker(document, "Doctor", closed=True), run.result) == []


def test_what_risk_analysis_says_is_as_described(document, brig_user):
    run = brig_user.command("risk", "--json", "-c", "import os; os.system('rm -rf /')")
    assert run.result["findings"]
    assert wrong(checker(document, "Findings", closed=True), run.result) == []


def test_rows_of_the_ledger_are_as_described(document, brig_user, place):
    run = brig_user.python("print(1)", "--state-dir", place / "state")
    run.expect("finished", 0)
    rows = brig_user.command("ledger", "export", "--state-dir", place / "state").out.splitlines()
    assert len(rows) > 3
    for row in rows:
        assert wrong(checker(document, "LedgerRow", closed=True), json.loads(row)) == []


def test_a_status_says_whether_it_is_over(document):
    validator = checker(document, "Status", closed=True)
    status = {"execution_id": "0" * 26, "state": "running", "done": False, "language": "python",
              "caller": "uid:0", "created": "2026-01-31T12:00:00Z", "approval_id": None, "session_id": None}
    assert wrong(validator, status) == []
    assert wrong(validator, dict(status, state="oom", done=True)) == []
    assert wrong(validator, dict(status, state="oom"))
    assert wrong(validator, dict(status, done=True))


@pytest.mark.parametrize("name, good, bad", [
    ("Answer", {"decision": "allow", "scope": "digest", "remember_ms": 1000}, {"decision": "yes"}),
    ("Answer", {"decision": "deny", "reason": "no", "digest": "0" * 64}, {"scope": "once"}),
    ("Answer", {"decision": "allow", "code": "print(1)"}, {"decision": "allow", "by": "me"}),
    ("RiskInput", {"language": "sh", "code": "ls"}, {"language": "sh"}),
    ("RiskInput", {"language": "python", "code": ""}, {"language": "cobol", "code": ""}),
])
def test_what_comes_in_is_strict(document, name, good, bad):
    assert wrong(checker(document, name), good) == []
    assert wrong(checker(document, name), bad)
