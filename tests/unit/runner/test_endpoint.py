from __future__ import annotations

import pytest

from osmosis_runner.endpoint import endpoint_of, origin_of, planned
from osmosis_runner.errors import EndpointError

KEY = {"OPENAI_API_KEY": "sk-canary-0123456789"}


@pytest.mark.parametrize(
    ("model", "base", "environ", "found"),
    [
        ("openai/gpt", None, KEY, {"lane": "wire", "origin": "https://api.openai.com"}),
        ("openai/gpt", "http://Host.test:80/v1?k=v", KEY, {"lane": "wire", "origin": "http://host.test"}),
        ("openai/gpt", "http://[::1]:8000/v1", KEY, {"lane": "wire", "origin": "http://[::1]:8000"}),
        (
            "openai/gpt",
            None,
            {**KEY, "OPENAI_API_BASE": "https://proxy.test:8443/v1"},
            {"lane": "wire", "origin": "https://proxy.test:8443"},
        ),
        ("my-model", "http://127.0.0.1:8000/v1", {}, {"lane": "wire", "origin": "http://127.0.0.1:8000"}),
        ("anthropic/claude", None, {"ANTHROPIC_API_KEY": "sk-ant-canary-012345"}, {"lane": "native"}),
        ("local/smollm2-135m-instruct", None, {}, {"lane": "wire"}),
    ],
)
def test_where_calls_go_is_lane_and_origin(
    model: str, base: str | None, environ: dict[str, str], found: dict[str, str]
) -> None:
    assert endpoint_of(model, base, None, environ) == found


def test_a_route_that_cannot_be_planned_has_no_endpoint() -> None:
    assert endpoint_of("openai/gpt", None, None, {}) is None
    assert endpoint_of("nobody/model", None, None, {}) is None


def test_what_is_wrong_with_a_route_is_told_with_its_code() -> None:
    with pytest.raises(EndpointError, match="OPENAI_BASE_URL has the scheme 'htp'") as caught:
        planned("openai/gpt", None, None, {**KEY, "OPENAI_BASE_URL": "htp://host/v1"})
    assert caught.value.code == "VALIDATION"
    assert caught.value.details["error"] == "api_base_invalid"


def test_an_origin_holds_no_credentials_no_path_and_no_query() -> None:
    assert origin_of("https://user:canary@host.test:443/v1/x?key=canary#c") == "https://host.test"
