"""The decision on a request body: CONTRACT's fields of a call, rule by rule, with the bytes that go out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from osmosis_bridge.call import Admitted
from osmosis_bridge.errors import Refused
from osmosis_bridge.policy import Policy, admit

STRIP = Policy("up/real")
REJECT = Policy("up/real", controls="reject")
HI = '"messages":[{"role":"user","content":"hi"}]'


def decide(text: str | bytes, policy: Policy = STRIP) -> Admitted:
    return admit(text if isinstance(text, bytes) else text.encode(), policy)


def sent(text: str | bytes, policy: Policy = STRIP) -> dict[str, Any]:
    return json.loads(decide(text, policy).body)


def refusal(text: str | bytes, policy: Policy = STRIP) -> Refused:
    with pytest.raises(Refused) as caught:
        decide(text, policy)
    assert caught.value.status == 400
    return caught.value


# --- everything else is an inference field, as the client wrote it


@pytest.mark.parametrize(
    "value",
    [
        "1.10", "1e400", "-0", "12345678901234567890", "1E+2", "0.1000000000000000055511151231257827", "null", "false",
        "0", "[]", "{}", '""', '"\\u00e9\\/"', '{"b":1,"a":[1.0,{"x":null}]}', '"\U0001f600"', "9" * 5000,
    ],
)  # fmt: skip
def test_a_value_goes_out_as_the_text_the_client_wrote(value: str) -> None:
    out = decide(f'{{{HI},"seed":{value}}}')
    assert f'"seed":{value}'.encode() in out.body
    assert out.forwarded == ("seed",)


def test_white_space_around_values_is_all_that_changes() -> None:
    out = decide('{ "messages" : [ {"role": "user"} ] ,\n "a" : [1,\n 2] }')
    assert out.body == b'{"messages":[ {"role": "user"} ],"a":[1,\n 2],"model":"up/real"}'


def test_unknown_names_and_every_sampling_field_are_forwarded_in_their_order() -> None:
    fields = {
        "n": 2, "stop": ["a", "b", "c", "d", "e"], "seed": 7, "presence_penalty": -2, "frequency_penalty": 0.5,
        "parallel_tool_calls": False, "logprobs": True, "top_logprobs": 3, "logit_bias": {"50256": -100},
        "user": "r-17",
        "metadata": {"task": "a"}, "store": True, "thinking": {"type": "disabled"}, "zebra": None, "tags": ["t"],
        "chat_template_kwargs": {"enable_thinking": False}, "separate_reasoning": True, "reasoning_effort": "low",
    }  # fmt: skip
    out = decide(json.dumps({"messages": [], **fields}))
    assert json.loads(out.body) == {"messages": [], **fields, "model": "up/real"}
    assert out.forwarded == tuple(fields)
    assert out.stripped == ()


@pytest.mark.parametrize(
    ("text", "name", "where"),
    [
        (f'{{{HI},"seed":1,"seed":2}}', "seed", "the request"),
        (f'{{{HI},"seed":1,"seed":1}}', "seed", "the request"),
        (f'{{{HI}, "seed": 1, "\\u0073eed": 1}}', "seed", "the request"),
        (f'{{{HI},"api_key":"k","api_key":"k"}}', "api_key", "the request"),
        (f'{{{HI},"extra_body":{{}},"extra_body":{{}}}}', "extra_body", "the request"),
        (f"{{{HI},{HI}}}", "messages", "the request"),
        (f'{{{HI},"extra_body":{{"top_k":1,"top_k":2}}}}', "top_k", "extra_body"),
        (f'{{{HI},"extra_body":{{"api_key":1,"api_key":2}}}}', "api_key", "extra_body"),
        (f'{{{HI},"stream":true,"stream_options":{{"x":1,"x":2}}}}', "x", "stream_options"),
    ],
)
def test_a_field_that_stands_twice_is_refused_by_name_since_one_of_them_would_be_lost(
    text: str, name: str, where: str
) -> None:
    refused = refusal(text)
    assert (refused.code, refused.param) == ("duplicate_field", name)
    assert refused.message.startswith(f"{name!r} stands twice in {where}, ")


def test_a_field_at_both_levels_is_no_duplicate_and_names_that_stand_twice_deeper_are_the_providers_to_judge() -> (
    None
):
    text = f'{{{HI},"seed":1,"provider":{{"a":1,"a":2}},"extra_body":{{"seed":2}}}}'
    out = decide(text).body
    assert json.loads(out)["seed"] == 2
    assert b'"provider":{"a":1,"a":2}' in out


def test_messages_go_out_as_they_came_whatever_they_hold() -> None:
    messages = (
        '[{"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.text","signature":"s=="}]},'
        '{"role":"tool","content":[{"type":"image_url","image_url":{"url":"data:,x","detail":"high"}}]},'
        '{"role":"developer","content":"","name":"n","refusal":null}]'
    )
    assert (
        decide(f'{{"messages":{messages}}}').body == f'{{"messages":{messages},"model":"up/real"}}'.encode()
    )


# --- 1. extra_body


def test_extra_body_is_unwrapped_into_the_top_level() -> None:
    out = decide(f'{{{HI},"extra_body":{{"provider":{{"order":["OpenAI"]}},"top_k":1.50}}}}')
    assert out.body == f'{{{HI},"provider":{{"order":["OpenAI"]}},"top_k":1.50,"model":"up/real"}}'.encode()
    assert out.forwarded == ("provider", "top_k")


def test_values_of_extra_body_win() -> None:
    body = sent(f'{{{HI},"temperature":0.1,"extra_body":{{"temperature":0.9}}}}')
    assert body["temperature"] == 0.9


def test_the_merge_is_shallow_so_a_nested_object_replaces() -> None:
    body = sent(f'{{{HI},"reasoning":{{"effort":"low"}},"extra_body":{{"reasoning":{{"max_tokens":9}}}}}}')
    assert body["reasoning"] == {"max_tokens": 9}


@pytest.mark.parametrize("value", ["null", "[]", '"x"', "1", "true"])
def test_extra_body_that_is_not_an_object_is_refused(value: str) -> None:
    error = refusal(f'{{{HI},"extra_body":{value}}}')
    assert (error.param, error.code) == ("extra_body", "invalid_extra_body")


def test_extra_body_within_extra_body_is_refused() -> None:
    error = refusal(f'{{{HI},"extra_body":{{"extra_body":{{"x":1}}}}}}')
    assert (error.param, error.code) == ("extra_body", "invalid_extra_body")


def test_an_empty_extra_body_changes_nothing() -> None:
    assert sent(f'{{{HI},"extra_body":{{}}}}') == sent(f"{{{HI}}}")


# --- 2. the envelope


def test_the_configured_model_goes_out_whatever_the_client_names() -> None:
    for name in ("gpt-4o-mini", "osmosis-rollout", "", "ä\\u00e9\\n"):
        out = decide(f'{{"model":"{name}",{HI}}}')
        assert json.loads(out.body)["model"] == "up/real"
        assert out.alias_json == f'"{name}"'.encode()
    assert decide(f'{{"model":"a\\u00e9",{HI}}}').alias == "aé"


def test_without_a_model_the_alias_is_osmosis_rollout() -> None:
    out = decide(f"{{{HI}}}")
    assert (out.alias, out.alias_json) == ("osmosis-rollout", b'"osmosis-rollout"')


@pytest.mark.parametrize("value", ["null", "1", "[]", "{}", "true"])
def test_a_model_that_is_no_string_is_refused(value: str) -> None:
    assert refusal(f'{{"model":{value},{HI}}}').param == "model"


def test_the_model_goes_out_escaped_where_it_must_be() -> None:
    assert sent(f"{{{HI}}}", Policy('a"b\\c'))["model"] == 'a"b\\c'


def test_model_in_extra_body_changes_neither_route_nor_alias_and_is_named() -> None:
    out = decide(f'{{"model":"mine",{HI},"extra_body":{{"model":"evil/other"}}}}')
    assert (json.loads(out.body)["model"], out.alias, out.stripped) == (
        "up/real",
        "mine",
        ("extra_body.model",),
    )
    assert b"evil" not in out.body


@pytest.mark.parametrize(
    ("text", "value"), [("", False), ('"stream":false,', False), ('"stream":true,', True)]
)
def test_stream_is_what_the_json_boolean_says(text: str, value: bool) -> None:
    assert decide(f"{{{text}{HI}}}").stream is value


@pytest.mark.parametrize("value", ['"true"', '"false"', "1", "0", "null", "[]", "{}"])
def test_stream_that_is_no_boolean_is_refused_and_never_guessed(value: str) -> None:
    assert f", and is {value[:40]};" in refusal(f'{{"stream":{value},{HI}}}').message
    error = refusal(f'{{"stream":{value},{HI}}}')
    assert (error.param, error.code) == ("stream", "invalid_stream")


@pytest.mark.parametrize("messages", ["", '"messages":null,', '"messages":"hi",', '"messages":{},'])
def test_messages_that_are_no_list_are_refused(messages: str) -> None:
    error = refusal(f'{{{messages}"seed":1}}')
    assert (error.param, error.code) == ("messages", "invalid_messages")


@pytest.mark.parametrize(
    ("top", "extra", "param"),
    [
        (HI, '"messages":[]', "messages"),
        (f'{HI},"stream":true', '"stream":false', "stream"),
        (HI, '"stream":true', "stream"),
        (f'{HI},"stream_options":{{"include_usage":true}}', '"stream_options":{"x":1}', "stream_options"),
    ],
)
def test_the_envelope_inside_extra_body_may_not_differ_from_the_top_level(
    top: str, extra: str, param: str
) -> None:
    error = refusal(f'{{{top},"extra_body":{{{extra}}}}}')
    assert (error.param, error.code) == (param, "invalid_extra_body")


@pytest.mark.parametrize(
    ("top", "extra"),
    [
        (HI, '"messages":[{"content":"hi","role":"user"}]'),
        (f'{HI},"stream":true', '"stream":true'),
        (HI, '"stream":false'),
        ('"seed":1', HI),
        ('"messages":[1e400]', '"messages":[1e400]'),
    ],
)
def test_the_envelope_inside_extra_body_may_repeat_the_top_level(top: str, extra: str) -> None:
    assert decide(f'{{{top},"extra_body":{{{extra}}}}}').forwarded in ((), ("seed",))


def test_messages_that_cannot_be_compared_are_refused_and_nothing_breaks() -> None:
    error = refusal('{"messages":[1e400],"extra_body":{"messages":[1e400 ]}}')
    assert error.param == "messages"


# --- usage is always asked for on streams


def test_usage_is_asked_for_on_a_stream_and_the_client_is_known_not_to_have_asked() -> None:
    for given in ("", '"stream_options":null,', '"stream_options":{},'):
        out = decide(f'{{"stream":true,{given}{HI}}}')
        assert json.loads(out.body)["stream_options"] == {"include_usage": True}
        assert out.usage_asked is False


def test_other_stream_options_are_kept_and_include_usage_set_over_any_other_value() -> None:
    for value in ("false", "null", '"yes"', "1"):
        out = decide(f'{{"stream":true,"stream_options":{{"x":1.0,"include_usage":{value}}},{HI}}}')
        assert b'"stream_options":{"x":1.0,"include_usage":true}' in out.body
        assert out.usage_asked is False


def test_a_client_that_asks_for_usage_is_known_to_have_asked_and_its_options_go_out_unchanged() -> None:
    options = '{ "include_obfuscation":false, "include_usage":true }'
    out = decide(f'{{"stream":true,"stream_options":{options},{HI}}}')
    assert options.encode() in out.body
    assert out.usage_asked is True


def test_nothing_is_added_to_a_plain_call() -> None:
    assert sent(f"{{{HI}}}").keys() == {"messages", "model"}
    assert sent(f'{{"stream":false,"stream_options":{{"x":1}},{HI}}}')["stream_options"] == {"x": 1}


@pytest.mark.parametrize("value", ["[]", "true", '"x"', "3"])
def test_stream_options_that_are_no_object_are_refused_on_a_stream(value: str) -> None:
    error = refusal(f'{{"stream":true,"stream_options":{value},{HI}}}')
    assert (error.param, error.code) == ("stream_options", "invalid_stream_options")


def test_the_envelope_is_not_named_among_the_forwarded_fields() -> None:
    text = f'{{"model":"m","stream":true,"stream_options":{{"include_usage":true}},{HI},"seed":1}}'
    assert decide(text).forwarded == ("seed",)


# --- 3. controls


def test_controls_are_stripped_at_the_top_level_and_inside_extra_body_and_named() -> None:
    out = decide(
        f'{{{HI},"api_key":"SECRET","drop_params":true,"seed":1,'
        '"extra_body":{"api_base":"http://evil","callbacks":["y"],"litellm_x":1,"top_k":2}}'
    )
    assert json.loads(out.body).keys() == {"messages", "seed", "top_k", "model"}
    assert out.stripped == ("api_key", "drop_params", "api_base", "callbacks", "litellm_x")
    assert out.forwarded == ("seed", "top_k")


def test_a_control_at_both_levels_is_named_once() -> None:
    assert decide(f'{{{HI},"timeout":1,"extra_body":{{"timeout":2}}}}').stripped == ("timeout",)


def test_a_control_written_with_escapes_is_still_a_control() -> None:
    out = decide(f'{{{HI},"api\\u005fkey":"SECRET"}}')
    assert out.stripped == ("api_key",)
    assert b"SECRET" not in out.body


def test_reject_refuses_controls_by_name_and_never_shows_their_values() -> None:
    error = refusal(f'{{{HI},"api_key":"SECRET","extra_body":{{"mock_response":"VALUE"}}}}', REJECT)
    assert (error.code, error.param) == ("control_not_allowed", "api_key")
    assert "api_key, mock_response" in error.message
    assert not re.search("SECRET|VALUE", error.body().decode())


def test_reject_admits_a_call_without_controls() -> None:
    assert decide(f'{{{HI},"seed":1,"extra_body":{{"model":"x"}}}}', REJECT).stripped == ("extra_body.model",)


def test_a_refusal_stays_short_however_many_controls_there_are() -> None:
    many = ",".join(f'"aws_{number}{"x" * 100}\\n":1' for number in range(1000))
    body = json.loads(refusal(f"{{{HI},{many}}}", REJECT).body())["error"]
    assert len(body["message"]) <= 1000
    assert "\n" not in body["message"]


# --- what is no request at all


@pytest.mark.parametrize(
    "body",
    [
        b"", b" \n ", b"\xef\xbb\xbf", b"{", b"nope", b"{'a':1}", b'{"a":NaN}', b'{"a":1} x', b'{"a":01}',
        b'{"a":"\x01"}',
        b"[]", b"null", b"1", b'"{}"', b'[{"messages":[]}]',
        b'{"messages":[],"a":"\xff"}', b'{"messages":[],"a":"\xed\xa0\x80"}', b'\xff\xfe{\x00}\x00',
        b'{"messages":["\\ud800"]}', b'{"messages":[],"\\ud800":1}', b'{"model":"\\udfff","messages":[]}',
        b'{"messages":[],"extra_body":{"\\ud800":1}}',
        b'{"stream":true,"stream_options":{"a":"\\ud800"},"messages":[]}',
        b'{"messages":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    ],
)  # fmt: skip
def test_what_is_not_a_json_object_in_utf_8_is_refused_as_invalid_json(body: bytes) -> None:
    assert refusal(body).code == "invalid_json"


def test_the_place_of_a_byte_that_is_not_utf_8_is_named() -> None:
    assert "offset 5" in refusal(b'{"a":\xff}').message


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":["\\ud800"]}',
        b'{"messages":[],"\\uDBFF":1}',
        b'{"model":"\\udfff x","messages":[1e400]}',
    ],
)
def test_half_a_surrogate_pair_is_told_as_such(body: bytes) -> None:
    assert "holds half of a surrogate pair" in refusal(body).message


@pytest.mark.parametrize(
    "body", [b"{", b"nope", b'{"a":1,}', b'{"a":NaN,"b":"\\ud800"}', b'{"a":"\\ud83d\\ude00",}']
)
def test_other_broken_json_says_nothing_of_surrogates(body: bytes) -> None:
    refused = refusal(body)
    assert "surrogate" not in refused.message.lower()
    assert "is not valid JSON" in refused.message


def test_a_byte_order_mark_before_the_object_is_passed_over() -> None:
    assert sent(b"\xef\xbb\xbf" + f"{{{HI}}}".encode()) == sent(f"{{{HI}}}")


def test_admitting_what_was_admitted_changes_nothing_more() -> None:
    text = f'{{"model":"x",{HI},"stream":true,"api_key":"k","extra_body":{{"top_k":1.0}}}}'
    once = decide(text)
    assert decide(once.body).body == once.body
