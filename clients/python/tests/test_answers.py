"""Results of tests/answers.json, as far as Python has them: returned by a task, and kept by a real worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
from conftest import HERE, Worker

from tenon._payload import storable

ANSWERS = HERE.parents[2] / "tests" / "answers.json"
NOTE = "tenon: the result was not kept: "


def texts() -> dict[str, tuple[str, str]]:
    """By name: the text, and what becomes of it in a pool child's answer."""
    results = json.loads(ANSWERS.read_text())["results"]
    joined = {r["name"]: "".join(p if isinstance(p, str) else p[0] * p[1] for p in r["text"]) for r in results}
    return {r["name"]: (joined[r["name"]], r["pool"]) for r in results}


def value(text: str) -> Any:
    """None if Python cannot have it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_storable(found: Any) -> bool:
    try:
        storable(found)
    except (ValueError, RecursionError):
        return False
    return True


def test_each_is_kept_or_a_note(conn: psycopg.Connection, worker: Worker, tmp_path: Path) -> None:
    """And none of them costs a neighbour: one child has all of them, and each runs once."""
    there = {name: (text, pool) for name, (text, pool) in texts().items() if value(text) is not None}
    (tmp_path / "answers.py").write_text(f"""
import json, tenon
TEXTS = {json.dumps({name: text for name, (text, _) in there.items()})}

@tenon.task
def answers(name: str):
    return json.loads(TEXTS[name])
""")
    assert len(there) > 15
    for name in there:
        conn.execute("SELECT tenon.enqueue('answers', to_jsonb(%s::text), max_attempts => 1)", (name,))
    conn.commit()
    worker("answers", concurrency=64, cwd=tmp_path, TENON_SLOTS="1")
    rows = conn.execute("SELECT payload, outcome, claims, result FROM tenon.history").fetchall()
    assert {row[0] for row in rows} == set(there)
    for name, outcome, claims, result in rows:
        text, pool = there[name]
        assert (outcome, claims) == ("done", 1), name
        if pool == "kept" and is_storable(value(text)):
            assert result == value(text), name
        elif pool == "note" and json.dumps(value(text)) == text:
            assert result.startswith(NOTE), name
        else:  # Python reads another value: 1e400 is infinity
            assert result == value(text) or result.startswith(NOTE), name
