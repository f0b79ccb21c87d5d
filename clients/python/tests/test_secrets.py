"""Encryption: the vectors of all clients (clients/conformance), and what worker and database get to see."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from typing import Any

import app
import psycopg
import pytest
from conftest import HERE, Worker
from secret_app import KEYS, Card, charge, secret
from test_child import Pipes

import tenon
from tenon import testing
from tenon._secrets import ENVELOPE

VECTORS = json.loads((HERE.parent.parent / "conformance" / "secrets.json").read_text())
VECTOR_KEYS = {name: base64.b64decode(key) for name, key in VECTORS["keys"].items()}
NUMBER = "4111 1111 1111 1111"


def test_both_clients_write_and_read_the_same() -> None:
    assert {case["by"] for case in VECTORS["sealed"]} == {"node", "python"}
    for case in VECTORS["sealed"]:
        kind, what, envelope = case["kind"], case["what"], case["envelope"]
        inner = envelope[ENVELOPE]
        first = {inner["key"]: VECTOR_KEYS[inner["key"]], **VECTOR_KEYS}
        nonce = base64.b64decode(inner["nonce"])
        assert tenon.Keys(first).seal_text(case["plain"], kind, what, nonce) == envelope
        assert tenon.Keys(VECTOR_KEYS).decrypt(envelope, kind=kind, what=what) == json.loads(case["plain"])


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["why"])
def test_what_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(tenon.SecretError) as caught:
        tenon.Keys(VECTOR_KEYS).decrypt(case["envelope"], kind=case["kind"], what=case["what"])
    assert case["error"] in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys() -> None:
    key, other = os.urandom(32), os.urandom(32)
    text = f"b:{base64.b64encode(key).decode()}  a:{base64.b64encode(other).decode()}\n"
    keys = tenon.Keys.parse(text)
    assert (keys.ids, repr(keys)) == (["b", "a"], "<tenon.Keys b, a>")
    one = keys.encrypt({"n": 1}, kind="k")
    assert one[ENVELOPE]["key"] == "b"
    assert keys.encrypt({"n": 1}, kind="k") != one  # a nonce of its own
    old = tenon.Keys({"a": other}).encrypt([1], kind="k", what="result")
    assert keys.decrypt(old, kind="k", what="result") == [1]
    assert keys.decrypt({"plain": 1}, kind="k") == {"plain": 1}
    for wrong in (f"a:{base64.b64encode(key).decode()[:-8]}", "a", "a:x!", ":AAAA", "", f"{text} {text}"):
        with pytest.raises(ValueError, match="key") as caught:
            tenon.Keys.parse(wrong)
        assert base64.b64encode(key).decode()[:8] not in str(caught.value)


@pytest.fixture
def no_keys() -> Iterator[None]:
    tenon.set_keys(None)
    yield
    tenon.set_keys(KEYS)


def test_without_keys(conn: psycopg.Connection, no_keys: None) -> None:
    with pytest.raises(tenon.SecretError, match="the payload of charge is to be encrypted, but there are no keys"):
        charge.enqueue(conn, Card(number=NUMBER))
    run = testing.run(app.plain, KEYS.encrypt({}, kind="plain"))
    assert (run.outcome, run.error_class) == ("failed", "tenon.SecretError")
    assert "the payload of plain is encrypted, but there are no keys" in str(run.error)


def test_options(conn: psycopg.Connection) -> None:
    with pytest.raises(ValueError, match="cannot merge payloads that are encrypted"):
        charge.enqueue(conn, Card(number=NUMBER), unique_key="a", on_conflict="merge")
    with pytest.raises(ValueError, match="'payload' or 'all'"):
        secret.task(kind="x", secret="yes")(print)  # type: ignore[call-overload]


def test_a_test_sees_plain_values(conn: psycopg.Connection) -> None:
    charge.enqueue(conn, Card(number=NUMBER))
    assert [one.payload for one in testing.mine(conn)] == [{"number": NUMBER, "fails": None}]
    (run,) = testing.run_mine(conn, secret.tasks)
    assert (run.result, run.progress) == ({"last": NUMBER}, [{"at": NUMBER}])
    assert run.steps == {"authorise": f"code of {NUMBER}"}


def all_that_is_stored(conn: psycopg.Connection) -> str:
    tables = ("tasks", "task", "history", "dead", "attempt")
    stored = conn.execute(" UNION ALL ".join(f"SELECT t::text FROM tenon.{table} t" for table in tables).encode())
    return str(stored.fetchall())


def test_the_database_sees_ciphertext(conn: psycopg.Connection, worker: Worker) -> None:
    done = charge.enqueue(conn, Card(number=NUMBER))
    finished = charge.enqueue(conn, Card(number=NUMBER, fails="finishes"))
    for fails in ("raises", "says", "retries", "result", "misfit"):
        charge.enqueue(conn, Card(number=NUMBER, fails=fails))
    charge.enqueue_many(conn, [Card(number=NUMBER)] * 2)
    conn.commit()
    assert "4111" not in all_that_is_stored(conn)
    worker("secret_app:secret", SECRET_CHILD="1")
    stored = all_that_is_stored(conn)
    assert "4111" not in stored
    assert "Secret, but said on purpose" in stored
    assert "ValueError (its message is not kept, because the task is secret)" in stored
    assert "InvalidPayload (its message is not kept, because the task is secret)" in stored
    assert "in deeper\\n" in stored.replace("\\\\n", "\\n")
    rows = conn.execute("SELECT result FROM tenon.tasks WHERE id IN (%s, %s) ORDER BY id", (done, finished)).fetchall()
    results = [KEYS.decrypt(row[0], kind="charge", what="result") for row in rows]
    assert results == [{"last": NUMBER}, {"finished": NUMBER}]


def test_progress_and_steps_come_back(conn: psycopg.Connection) -> None:
    child = Pipes("secret_app:secret")
    number = child.send("charge", json.dumps(KEYS.encrypt({"number": NUMBER}, kind="charge")))
    said = [child.read(), child.read()]
    child.write(json.dumps({"step": number, "name": "authorise", "recorded": True}).encode())
    reply = child.read()
    assert "4111" not in json.dumps([said, reply])
    kept = {"authorise": said[1]["step"]["value"]}
    again = child.send(
        "charge",
        json.dumps({"number": NUMBER, "fails": "shows"}),
        progress=json.dumps(said[0]["progress"]),
        steps=json.dumps(kept),
    )
    shown = child.read()
    assert shown["id"] == again
    assert KEYS.decrypt(shown["result"], kind="charge", what="result") == [{"at": NUMBER}, f"code of {NUMBER}"]
    moved = json.dumps(KEYS.encrypt({"number": NUMBER}, kind="refund"))
    child.send("charge", moved)
    refused = child.read()
    assert (refused["outcome"], refused["error_class"]) == ("failed", "tenon.SecretError")
    assert "the payload of charge cannot be decrypted with the key '2026-11'" in refused["error"]
    child.end()
