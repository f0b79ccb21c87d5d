#!/usr/bin/env python3
"""Uses tenon mcp by the official SDK for Python, with a handshake and without. For mcp_test.

usage: tests/support/mcp_client.py TENON
"""
import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp_types import Implementation


async def use(mode, version):
    server = StdioServerParameters(command=sys.argv[1], args=["mcp", "--allow-acts"], env=dict(os.environ))
    async with Client(server, mode=mode, client_info=Implementation(name=f"sdk-{mode}", version="1")) as client:
        assert client.protocol_version == version, client.protocol_version
        assert client.server_info.name == "tenon" and "doctor" in client.instructions
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["status"].annotations.read_only_hint and tools["cancel_tasks"].annotations.destructive_hint
        answer = await client.call_tool("explain_task", {"id": 1})
        assert not answer.is_error and json.loads(answer.content[0].text)["id"] == 1, answer
        answer = await client.call_tool("show_task", {"id": 4711})
        assert answer.is_error, answer
        answer = await client.call_tool("pause", {"kind": "mail", "reason": f"tried by {mode}"})
        assert not answer.is_error, answer


asyncio.run(use("auto", "2026-07-28"))
asyncio.run(use("legacy", "2025-11-25"))
