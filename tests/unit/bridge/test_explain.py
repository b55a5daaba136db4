import asyncio

import pytest

from osmosis_bridge.config import BridgeConfig, parse
from osmosis_bridge.explain import Request, explain_request
from osmosis_bridge.report import ForwardingReport
from osmosis_bridge.routing import RouteError


def a_config(model: str, **flags: object):
    return parse({"model": model, **flags}, None, "", {"OPENROUTER_API_KEY": "sk-or-the-real-key"})


def explained(config: BridgeConfig, body: bytes, dialect: str) -> ForwardingReport:
    return asyncio.run(explain_request(config, Request(body, dialect)))


def test_no_key_is_needed_and_none_is_shown() -> None:
    report = explained(a_config("openrouter/a/b"), b'{"messages":[]}', "chat")
    assert report.outgoing is not None
    assert report.outgoing["url"] == "https://openrouter.ai/api/v1/chat/completions"
    assert report.outgoing["headers"]["authorization"] == "Bearer [REDACTED]"
    assert "sk-or" not in repr(report)


@pytest.mark.parametrize(("stream", "accept"), [("true", "text/event-stream"), ("false", "application/json")])
def test_the_headers_are_those_of_the_kind_of_request(stream: str, accept: str) -> None:
    body = b'{"messages":[],"stream":%s}' % stream.encode()
    report = explained(a_config("openrouter/a/b"), body, "chat")
    assert report.outgoing is not None
    assert report.outgoing["headers"]["accept"] == accept


def test_each_dialect_has_its_own_path_and_headers() -> None:
    config = a_config("org/m", api_base="https://gateway.example/v1")
    report = explained(config, b'{"messages":[],"max_tokens":1}', "messages")
    assert report.outgoing is not None
    assert report.outgoing["url"] == "https://gateway.example/v1/messages"
    assert report.outgoing["headers"]["anthropic-version"] == "2023-06-01"
    assert report.outgoing["headers"]["x-api-key"] == "[REDACTED]"


def test_the_operators_own_host_is_shown_and_headers_say_what_becomes_of_them() -> None:
    asked = Request(b'{"messages":[]}', "chat", {b"x-title": b"t", b"cookie": b"c"})
    report = asyncio.run(
        explain_request(a_config("org/m", api_base="http://10.1.2.3:8000/v1?key=abc"), asked)
    )
    assert report.outgoing is not None
    assert report.outgoing["url"] == "http://10.1.2.3:8000/v1/chat/completions?key=…"
    assert report.outgoing["headers"]["x-title"] == "t"
    assert [(row.header, row.became) for row in report.headers] == [
        ("x-title", "forwarded"),
        ("cookie", "dropped"),
    ]


def test_a_local_model_is_explained_without_being_started() -> None:
    report = explained(a_config("local/smollm2-135m-instruct"), b'{"messages":[]}', "chat")
    assert (report.provider, report.accepted) == ("local", True)


def test_a_model_path_that_leads_nowhere_is_a_route_error() -> None:
    with pytest.raises(RouteError):
        explained(a_config("nosuchprovider/x"), b"{}", "chat")
