from osmosis_bridge.routing import plan_route
from osmosis_bridge.target import make_target


def a_target(key: str | None = "k-123456"):
    route = plan_route("org/m", api_base="http://127.0.0.1:9/v1", api_key_env=None, lane="auto", environ={})
    return make_target(route, "http://127.0.0.1:9/v1?api-version=7", key)


def test_a_request_carries_the_key_as_a_bearer_and_says_what_it_wants() -> None:
    plain, stream = dict(a_target().headers(stream=False)), dict(a_target().headers(stream=True))
    assert plain[b"authorization"] == b"Bearer k-123456"
    assert (plain[b"accept"], stream[b"accept"]) == (b"application/json", b"text/event-stream")
    assert plain[b"content-type"] == b"application/json"


def test_without_a_key_there_is_no_authorization() -> None:
    assert b"authorization" not in dict(a_target(None).headers(stream=False))


def test_the_query_of_the_base_stays_behind_the_path() -> None:
    assert a_target().endpoint.target(b"/chat/completions") == b"/v1/chat/completions?api-version=7"
