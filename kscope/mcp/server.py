"""The server itself: the SDK's protocol around `kscope.mcp.catalogue`. Imports the SDK, which takes a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from kscope import __version__
from kscope.mcp.asking import SECONDS, Asking
from kscope.mcp.catalogue import INSTRUCTIONS, TOOLS, schema

READ_ONLY = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
MARKDOWN = "text/markdown"


async def run(folders: Sequence[str], seconds: float = SECONDS) -> None:
    """Serve standard input and output until the client is gone."""
    async with Asking(folders, seconds) as asking:  # starts while nothing was asked yet
        server = build(asking)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


def build(asking: Asking) -> Server[Any]:
    tools = [
        types.Tool(name=t.name, title=t.title, description=t.description, input_schema=schema(t.takes),
                   output_schema=schema(t.answers), annotations=READ_ONLY)
        for t in TOOLS
    ]  # fmt: skip
    takes = {t.name: t.takes for t in TOOLS}

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        if asked.name not in takes:
            return _failed(f"no tool is called {asked.name[:60]!r}; there are {', '.join(takes)}")
        try:
            msgspec.convert(asked.arguments or {}, takes[asked.name])
        except msgspec.ValidationError as error:
            return _failed(f"wrong arguments: {error}")
        answer, fault = await asking.ask(asked.name, asked.arguments or {})
        if answer is None:
            return _failed(fault)
        return types.CallToolResult(content=[types.TextContent(type="text", text=answer.decode())],
                                    structured_content=msgspec.json.decode(answer))  # fmt: skip

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=_resources())

    async def read_resource(_: Any, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = _resource(str(asked.uri))
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=asked.uri, mime_type=MARKDOWN, text=text)]
        )

    return Server(
        "kscope", version=__version__, title="kscope", instructions=INSTRUCTIONS, on_list_tools=list_tools,
        on_call_tool=call_tool, on_list_resources=list_resources, on_read_resource=read_resource,
    )  # fmt: skip


def _failed(text: str) -> types.CallToolResult:
    """Inside the result, so that a model can correct itself."""
    from kscope.model.errors import one_line

    line = one_line(text.encode("utf-8", "replace").decode())[:1000]
    return types.CallToolResult(content=[types.TextContent(type="text", text=line)], is_error=True)


def _resources() -> list[types.Resource]:
    from kscope.rules.registry import all_rules

    skill = types.Resource(uri="kscope://skill", name="skill", title="How to work with kscope", mime_type=MARKDOWN)
    return [skill] + [
        types.Resource(uri=f"kscope://rules/{r.code}", name=r.slug, title=f"{r.code} {r.title}", mime_type=MARKDOWN)
        for r in all_rules()
    ]


def _resource(uri: str) -> str:
    """Raises MCPError for what is no resource."""
    from mcp import MCPError

    from kscope.model.errors import KscopeError
    from kscope.rules.registry import page, rule

    if uri == "kscope://skill":
        from kscope.skill import text

        return text()
    code = uri.removeprefix("kscope://rules/")
    try:
        if code == uri:
            raise KscopeError("no-resource", f"{uri[:100]!r} is no resource", "list them")
        return page(rule(code))
    except KscopeError as error:
        raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None


def serve(folders: Sequence[str]) -> None:
    anyio.run(run, folders)
