#!/usr/bin/env python3
"""Asks tenon ui for every path that its OpenAPI document describes, with the examples of the document, and holds each answer
against its schema; and the document against the specification. For ui_openapi_test.

usage: tests/support/openapi.py PORT TOKEN
"""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

import jsonschema
from openapi_spec_validator import validate

PORT, TOKEN = sys.argv[1:]


def answer(method, path, body=None, token=TOKEN):
    headers = {"X-Tenon": "1", "Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.headers.get_content_type(), response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get_content_type(), error.read().decode()


def resolved(document, node):
    if "$ref" not in node:
        return node
    found = document
    for step in node["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def holds(document, operation, status, content_type, text, what):
    described = operation["responses"].get(str(status))
    assert described, f"{what}: status {status} is not described: {text}"
    content = resolved(document, described)["content"]
    assert content_type in content, f"{what}: {content_type} is not described"
    if content_type == "application/json":
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": document["components"],
                  **content[content_type]["schema"]}
        checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        errors = [f"{error.json_path}: {error.message}" for error in checker.iter_errors(json.loads(text))]
        assert not errors, f"{what}: {errors}"


def filled(path, operation):
    parameters = [parameter for parameter in operation.get("parameters", []) if "example" in parameter]
    for parameter in parameters:
        path = path.replace("{" + parameter["name"] + "}", str(parameter["example"]))
    query = {parameter["name"]: parameter["example"] for parameter in parameters if parameter["in"] == "query"}
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


def main():
    document = json.loads(answer("GET", "/api/openapi.json")[2])
    validate(document)
    operations = [(method.upper(), path, operation) for path, methods in document["paths"].items()
                  for method, operation in methods.items()]
    operations.sort(key=lambda operation: operation[0])  # reads first
    for method, path, operation in operations:
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        where = [path.replace("{id}", "1")] if method == "POST" or path == filled(path, operation) else \
            [path.replace("{id}", "1"), filled(path, operation)]
        for at in where:
            if body:
                jsonschema.validate(body["example"], {"components": document["components"], **body["schema"]})
            status, content_type, text = answer(method, at, body.get("example"))
            assert status == 200, f"{method} {at}: {status} {text}"
            holds(document, operation, status, content_type, text, f"{method} {at}")
        if operation.get("security") != []:
            stranger = answer(method, where[0], body.get("example"), None)
            assert stranger[0] == 401, f"{method} {path}: {stranger}"
            holds(document, operation, *stranger, f"{method} {path} by a stranger")
        if "404" in operation["responses"]:
            missing = {**body["example"], "flow": 4711, "name": "none"} if body else None
            if path == "/api/limit":
                missing["act"] = "resume"  # any name may be paused
            status, content_type, text = answer(method, path.replace("{id}", "4711"), missing)
            assert status == 404, f"{method} {path}: {status} {text}"
            holds(document, operation, status, content_type, text, f"{method} {path} without one")
        if body:
            status, content_type, text = answer(method, where[0], {"act": 17})
            assert status == 400, f"{method} {path}: {status} {text}"
            holds(document, operation, status, content_type, text, f"{method} {path} that is refused")
    print(len(operations), "operations")


main()
