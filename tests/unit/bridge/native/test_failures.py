"""What went wrong on the way through LiteLLM, in our words."""

from __future__ import annotations

import httpx
import pytest

from osmosis_bridge.native.failures import clean, not_translated, transport_failure
from osmosis_bridge.redact import Redactor


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("litellm.BadRequestError: litellm.Odd: the image is odd", "the image is odd"),
        ("no tools. Set `litellm.drop_params=True` to go on", "no tools."),
        ("odd\nTraceback (most recent call last)", "odd"),
        ("", "it gave no reason"),
    ],
)
def test_litellm_s_words_lose_its_names_and_its_advice(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (httpx.ConnectError("no way to a-secret"), 502, "upstream_unreachable"),
        (httpx.ReadTimeout(""), 504, "upstream_timeout"),
    ],
)
def test_a_fault_on_the_way_has_its_status_and_no_secret(
    error: httpx.TransportError, status: int, code: str
) -> None:
    told = transport_failure(error, Redactor(["a-secret"]))
    assert (told.status, told.code) == (status, code)
    assert "a-secret" not in told.message
    assert told.message.removeprefix("the provider could not be reached: ")


class Unsupported(Exception):
    pass


class Said(Exception):
    status_code = 500


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (Unsupported("m does not support parameters: ['seed']"), 400, "unsupported_parameter", "seed"),
        (Unsupported("no names"), 400, "unsupported_parameter", None),
        (ImportError("No module named 'google'"), 501, "google_auth_missing", None),
        (ValueError("Missing Anthropic API Key"), 401, "no_credentials", None),
        (ValueError("odd image"), 400, "not_translatable", None),
        (Said("it broke"), 500, "native_lane_failed", None),
    ],
)
def test_what_litellm_makes_no_request_of_is_told_by_whose_doing_it_is(
    error: Exception, status: int, code: str, param: str | None
) -> None:
    told = not_translated(error, "its reason", (Unsupported,))
    assert (told.status, told.code, told.param) == (status, code, param)
