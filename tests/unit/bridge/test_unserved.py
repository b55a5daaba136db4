"""A path or method that is not served is told in the shape that its clients read, with what to do instead."""

from __future__ import annotations

import pytest

from osmosis_bridge.unserved import dialect_near, no_route, wrong_method


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", "messages"),
        ("/v1/v1/messages/batches/b-1", "messages"),
        ("/v1/rollouts/r/messages/x", "messages"),
        ("/v1/rollouts/r/v1/messages/x", "messages"),
        ("/v1/rollouts/messages/responses", "responses"),
        ("/v1/responses/resp_1/cancel", "responses"),
        ("/v1/chat/completions/", "chat"),
        ("/v1/completions", "completions"),
        ("/v1/messagesx", None),
        ("/messages", None),
        ("/v1/models", None),
        ("/v1/rollouts", None),
        ("/v1/rollouts/r", None),
        ("/v1/rollouts/r/usage", None),
        ("", None),
    ],
)
def test_a_path_at_or_behind_that_of_a_call_is_read_by_clients_of_its_dialect(
    path: str, name: str | None
) -> None:
    near = dialect_near(path)
    assert (near and near.name) == name


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/v1/messages/count_tokens", "max_tokens 1"),
        ("/v1/rollouts/r/v1/messages/count_tokens", "max_tokens 1"),
        ("/v1/messages/batches", "send each of the requests to /v1/messages"),
        ("/v1/messages/batches/b-1/results", "there are no batches"),
        ("/v1/responses/resp_1", "responses are not kept here"),
        ("/v1/rollouts/r/responses/resp_1/input_items", "responses are not kept here"),
        ("/v1/chat/completions/chatcmpl-1", "completions are not kept here"),
        ("/v1/chat/completions/", "leave out the slash at its end"),
        ("/chat/completions", "OpenAI's clients want the bridge's address and /v1"),
        ("/v1/v1/chat/completions", "base URL is wrong"),
        ("/v1/chat/completions/chat/completions", "base URL is wrong"),
        ("/messages", "Anthropic's the address alone"),
        ("/v1/files", "calls go to /v1/chat/completions, /v1/responses, /v1/messages"),
        ("/v1/chat/completionsx", "calls go to"),
        ("/V1/Chat/Completions", "calls go to"),
        ("/", "calls go to"),
    ],
)
def test_what_to_do_instead_is_said(path: str, says: str) -> None:
    error = no_route(path, path)
    assert (error.status, error.code, error.type) == (404, "not_found", "not_found_error")
    assert error.message.startswith(f"no route {path!r}; ")
    assert says in error.message


def test_another_method_names_the_right_ones() -> None:
    error = wrong_method("PUT", "GET, HEAD")
    assert (error.status, error.headers) == (405, ((b"allow", b"GET, HEAD"),))
    assert error.message == "PUT is not for this route; send GET or HEAD"
