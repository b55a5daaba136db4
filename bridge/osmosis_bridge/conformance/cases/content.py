"""T: tools, reasoning, logprobs, media and messages come through as they were, both ways."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, Fault, Seen, alone, exchange
from osmosis_bridge.conformance.checks import messages_exact, messages_kept, relayed, status, unchanged
from osmosis_bridge.conformance.exact import at, difference, parse, show
from osmosis_bridge.conformance.samples import MODEL, chunk_json, completion
from osmosis_bridge.conformance.script import DONE, data, plain, stream

ASK = Ask(stream=True)
OK = plain(completion())
END = chunk_json("{}", finish='"tool_calls"')


def streamed(case_id: str, title: str, *payloads: str) -> Case:
    """Chunks that must arrive equal."""
    return exchange(case_id, title, ASK, stream(*map(data, payloads), DONE), status(200), relayed(payloads))


def whole(case_id: str, title: str, body: str) -> Case:
    """A plain reply that must arrive equal."""
    return exchange(case_id, title, Ask(), plain(body), status(200), unchanged(body))


def sent(case_id: str, title: str, messages: str) -> Case:
    """Messages that must reach the provider equal."""
    return exchange(case_id, title, Ask(messages=messages), OK, status(200), messages_kept)


def tool(index: str, rest: str) -> str:
    """A chunk of one tool delta."""
    return chunk_json(f'{{"tool_calls":[{{{index}{rest}}}]}}')


TOOLS = (
    streamed(
        "T1-interleaved", "three calls, arguments interleaved: every delta as it was",
        chunk_json('{"role":"assistant","content":null}'),
        *(tool(f'"index":{n},', f'"id":"call_{n}","type":"function","function":{{"name":"f{n}","arguments":""}}') for n in range(3)),
        *(tool(f'"index":{n},', rf'"function":{{"arguments":"{{\"p{k}\":"}}') for k in range(2) for n in (2, 0, 1)), END,
    ),
    streamed(
        "T1-no-index", "tool deltas without an index are not given one",
        tool("", '"id":"a","type":"function","function":{"name":"f","arguments":"{}"}'),
        tool("", '"id":"b","type":"function","function":{"name":"g","arguments":"{}"}'), END,
    ),
    streamed(
        "T1-whole", "a whole call in one chunk",
        tool('"index":0,', r'"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}'), END,
    ),
    streamed(
        "T1-all-at-once", "three calls in one chunk",
        chunk_json('{"tool_calls":[' + ",".join(f'{{"index":{n},"id":"c{n}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}' for n in range(3)) + "]}"), END,
    ),
    streamed("T1-same-id", "an id and a name repeated on every delta are kept", *(tool('"index":0,', f'"id":"a","function":{{"name":"f","arguments":"{n}"}}') for n in range(3)), END),
    streamed("T1-null-id", "null id and name on later deltas are kept", tool('"index":0,', '"id":"a","type":"function","function":{"name":"f","arguments":""}'), tool('"index":0,', '"id":null,"type":null,"function":{"name":null,"arguments":"{}"}'), END),
    streamed("T3-no-type", "a delta without type stays without", tool('"index":0,', '"id":"a","function":{"name":"f","arguments":"{}"}'), END),
    streamed("T-arguments-object", "arguments that are an object stay one", tool('"index":0,', '"id":"a","type":"function","function":{"name":"f","arguments":{"x":1.10}}'), END),
    streamed("T-function-call", "the old function_call delta survives", chunk_json('{"function_call":{"name":"f","arguments":""}}'), chunk_json('{"function_call":{"arguments":"{}"}}', finish='"function_call"')),
    streamed("T5-single", "tools in a single chunk with content and finish", chunk_json('{"role":"assistant","content":"x","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}', finish='"tool_calls"')),
    streamed("T-custom-tool", "custom tool deltas survive", tool('"index":0,', '"id":"a","type":"custom","custom":{"name":"c","input":"text"}'), END),
    streamed("T-two-choices", "two choices interleaved keep index and order", *(chunk_json(f'{{"content":"c{n}"}}', index=n % 2) for n in range(6)), chunk_json("{}", finish='"stop"', index=1), chunk_json("{}", finish='"stop"')),
    whole("T-tools-plain", "tool calls of a plain reply, arguments as text", completion(r'{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": 1.10, \"y\":  [1,2]}"}},{"id":"b","type":"custom","custom":{"name":"c","input":"i"}}]}', finish='"tool_calls"')),
)  # fmt: skip

NULLS = completion('{"role":"assistant","content":null}')


def _message_as_it_was(seen: Seen) -> Fault | None:
    """The message has the members that it had."""
    message = at(seen.reply.json, "choices", 0, "message")
    found = difference(at(parse(NULLS), "choices", 0, "message"), message, "message")
    return Fault("the message as it was", found) if found else None


REASONING = (
    streamed("T7-reasoning-content", "reasoning_content deltas", chunk_json('{"reasoning_content":"a"}'), chunk_json('{"content":null,"reasoning_content":"b"}'), chunk_json('{"content":"x"}', finish='"stop"')),
    streamed("T7-reasoning", "reasoning deltas keep their name", chunk_json('{"reasoning":"a","content":""}'), chunk_json('{"content":"x"}', finish='"stop"')),
    streamed("T7-details", "reasoning_details deltas with signatures", chunk_json('{"reasoning_details":[{"type":"reasoning.text","text":"t","signature":null,"index":0,"format":"anthropic-claude-v1"}]}'), chunk_json('{"reasoning_details":[{"type":"reasoning.encrypted","data":"AA==","id":"rs_1"}],"content":"x"}', finish='"stop"')),
    streamed("T9-thinking-blocks", "signed thinking blocks", chunk_json('{"thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s+/="}]}'), chunk_json('{"content":"x"}', finish='"stop"')),
    whole("T11-message", "unknown members of message and choice stay where they were", completion('{"role":"assistant","content":"hello","reasoning":"r","reasoning_content":"rc","reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}],"refusal":null,"vendor":{"a":1.10}}', more=',"system_fingerprint":null,"service_tier":"fast","provider":"P","kv_transfer_params":null')),
    whole("T11-choice", "native_finish_reason, matched_stop and stop_reason survive", f'{{"id":"x","object":"chat.completion","created":1,"model":"{MODEL}","choices":[{{"index":0,"message":{{"role":"assistant","content":"hello"}},"finish_reason":"stop","native_finish_reason":"eos","matched_stop":128009,"stop_reason":"</s>"}}]}}'),
    exchange("T11-nulls", "null content is not made a text, and no member is added", Ask(), plain(NULLS), status(200), unchanged(NULLS), _message_as_it_was),
    whole("T-content-parts", "content that is a list of parts stays one", completion('{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":[{"type":"text","text":"b"}]}]}')),
    sent("T7-replay", "reasoning details and tool calls of an earlier turn reach the provider", '[{"role":"user","content":"q"},{"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}],"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"user","content":"$CASE"}]'),
    sent("T7-replay-content", "reasoning_content and thinking_blocks of an earlier turn reach the provider", r'[{"role":"assistant","content":"a","reasoning_content":"r","reasoning":"r2","thinking_blocks":[{"type":"thinking","thinking":"t","signature":"EqQ\/+=="},{"type":"redacted_thinking","data":"AA=="}]},{"role":"user","content":"$CASE"}]'),
    sent("T9-signature", "a signed block is replayed to the letter", r'[{"role":"assistant","content":[{"type":"thinking","thinking":"é\n\u00a0😀 \u2028","signature":"ErUBCkYIB/+=="},{"type":"text","text":"  a  "}]},{"role":"user","content":"$CASE"}]'),
    sent("T-thought-signature", "thought signatures of tool calls are replayed", '[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AbC+/="}}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"user","content":"$CASE"}]'),
)  # fmt: skip

LOGPROBS = '{"content":[{"token":"h","bytes":[104],"logprob":-0.10,"top_logprobs":[{"token":"h","bytes":null,"logprob":-1e-7}]}],"refusal":null}'
MEDIA = (
    whole("T10-logprobs", "logprobs to the last digit", f'{{"id":"x","object":"chat.completion","created":1,"model":"{MODEL}","choices":[{{"index":0,"message":{{"role":"assistant","content":"h"}},"logprobs":{LOGPROBS},"finish_reason":"stop"}}]}}'),
    streamed("T10-streamed", "logprobs of a stream to the last digit", f'{{"id":"x","object":"chat.completion.chunk","created":1,"model":"{MODEL}","choices":[{{"index":0,"delta":{{"content":"h"}},"logprobs":{LOGPROBS},"finish_reason":null}}]}}', chunk_json("{}", finish='"stop"')),
    streamed("T10-none", "logprobs that are absent or empty are not made up", f'{{"id":"x","object":"chat.completion.chunk","created":1,"model":"{MODEL}","choices":[{{"index":0,"delta":{{"content":"h"}}}}]}}', f'{{"id":"x","object":"chat.completion.chunk","created":1,"model":"{MODEL}","choices":[{{"index":0,"delta":{{}},"logprobs":{{"content":[]}},"finish_reason":"stop"}}]}}'),
    whole("T15-audio", "audio with its transcript", completion('{"role":"assistant","content":null,"audio":{"id":"au_1","data":"UklGRg==","expires_at":1700003600,"transcript":"hi"}}')),
    streamed("T15-audio-streamed", "audio deltas", chunk_json('{"audio":{"id":"au_1","transcript":"h"}}'), chunk_json('{"audio":{"data":"UklGRg=="}}'), chunk_json('{"audio":{"expires_at":1700003600}}', finish='"stop"')),
    whole("T15-annotations", "annotations and images", completion('{"role":"assistant","content":"hello","annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":5,"title":"t","url":"https://example.com/?a=b&c=d"}}],"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}')),
    whole("T15-refusal", "a refusal and a moderation", completion('{"role":"assistant","content":null,"refusal":"no"}', more=',"moderation":{"flagged":false},"metadata":{"model":"not the model","a":"b"}')),
    streamed("T15-refusal-streamed", "refusal deltas and obfuscation", chunk_json('{"refusal":"n"}', more=',"obfuscation":"xyz"'), chunk_json('{"refusal":"o"}', finish='"stop"')),
    whole("T-unicode", "letters beyond ASCII, escaped or not", completion(r'{"role":"assistant","content":"é \u00e9 😀 \ud83d\ude00 \u2028 日本 \/ \u0000 \u007f"}')),
    whole("T-lone-surrogate-reply", "a reply with a lone surrogate arrives as it was", completion(r'{"role":"assistant","content":"a \ud83d b"}')),
    whole("T-big-numbers", "numbers of a reply keep their text", completion(more=',"x":[12345678901234567890,1.10,1e400,-0.0,1E5],"created_ms":1700000000123456789')),
    whole("T-model-elsewhere", "other members called model, and text that says so, stay", completion(rf'{{"role":"assistant","content":"\"model\":\"{MODEL}\" {MODEL}","model":"{MODEL}"}}', more=f',"nested":{{"model":"{MODEL}"}},"upstream_model":"{MODEL}"')),
    alone(whole("T-long-reply", "a reply of 5 MB", completion('{"role":"assistant","content":"' + "long " * 1_000_000 + '"}'))),
    whole("T-odd-spacing", "a reply with blanks and line ends", "{\n  " + completion()[1:-1].replace('","', '" ,\n "') + "\n}\n"),
    whole("T-deep-reply", "a reply nested 100 levels deep", completion(more=',"x":' + "[" * 100 + "]" * 100)),
    whole("T-no-choices-order", "the order of members of a reply", '{"usage":{"total_tokens":1,"prompt_tokens":1,"completion_tokens":0},"choices":[{"finish_reason":"stop","message":{"content":"hello","role":"assistant"},"index":0}],"model":"upstream-model","created":1,"object":"chat.completion","id":"z"}'),
    whole("T-n-two", "two choices of a plain reply", f'{{"id":"x","object":"chat.completion","created":1,"model":"{MODEL}","choices":[{{"index":1,"message":{{"role":"assistant","content":"b"}},"finish_reason":"length"}},{{"index":0,"message":{{"role":"assistant","content":"a"}},"finish_reason":"stop"}}]}}'),
)  # fmt: skip

WITH_NULLS = '{"role":"assistant","content":null,"refusal":null,"tool_calls":null,"function_call":null}'
LAST = '{"role":"user","content":"$CASE"}'
MESSAGES = {
    "developer": ('{"role":"developer","content":"d"}', "the developer role stays"),
    "system-twice": ('{"role":"system","content":"a"},{"role":"system","content":"b"}', "two system messages stay two"),
    "assistant-empty": ('{"role":"assistant","content":""}', "an empty assistant turn is not given words"),
    "same-role": ('{"role":"user","content":"a"},{"role":"user","content":"b"}', "neighbours of one role are not merged"),
    "ends-with-assistant": ('{"role":"assistant","content":"prefix","prefix":true,"partial":true}', "an assistant prefix stays"),
    "cache-control": ('{"role":"user","content":[{"type":"text","text":"t","cache_control":{"type":"ephemeral","ttl":"1h"}}]}', "cache_control of a part stays"),
    "image": ('{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"high"}},{"type":"image_url","image_url":{"url":"https://example.com/a.png?x=1&y=2"}}]}', "images with detail stay, and URLs are not fetched"),
    "audio-and-file": ('{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},{"type":"file","file":{"file_id":"f","filename":"a.pdf","file_data":"data:application/pdf;base64,AA=="}}]}', "audio and file parts stay"),
    "video": ('{"role":"user","content":[{"type":"video_url","video_url":{"url":"https://example.com/v.mp4"}},{"type":"future","x":[null]}]}', "parts of unknown type stay"),
    "names": ('{"role":"user","name":"ann","content":"a"},{"role":"assistant","name":"bot","content":"b"}', "names stay"),
    "tool-parts": ('{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\\"x\\": 1}"}}]},{"role":"tool","tool_call_id":"a","name":"f","content":[{"type":"text","text":"1"}]}', "tool results of parts stay"),
    "arguments-text": (r'{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{ \"x\" : 1.10 }"}}]},{"role":"tool","tool_call_id":"a","content":""}', "arguments keep their spelling"),
    "arguments-broken": (r'{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\": "}}]},{"role":"tool","tool_call_id":"a","content":"bad"}', "broken arguments stay broken, for the provider to judge"),
    "orphan-tool": ('{"role":"tool","tool_call_id":"never","content":"1"}', "a tool result without its call is forwarded"),
    "function-role": ('{"role":"function","name":"f","content":"1"}', "the old function role stays"),
    "unknown-role": ('{"role":"critic","content":"c","score":0.10}', "an unknown role stays"),
    "spaces": (r'{"role":"user","content":"  a \n\t b  "},{"role":"user","content":" "}', "blanks are not trimmed"),
    "control-words": ('{"role":"user","content":"api_key=abc, api_base: http://x"}', "text that names controls is text"),
}  # fmt: skip


def _echo_last(seen: Seen) -> Fault | None:
    """The message with the token is still the last one."""
    last = at(seen.upstream_json, "messages", -1, "content") if seen.calls else None
    return (
        None
        if isinstance(last, str) and last.startswith("case:")
        else Fault("the last message stays last", show(last))
    )


CASES: tuple[Case, ...] = (
    *TOOLS, *REASONING, *MEDIA,
    *(sent(f"T12-{name}", title, f'[{text},{{"role":"user","content":"$CASE"}}]') for name, (text, title) in MESSAGES.items()),
    exchange("T12-assistant-nulls", "null members of a message stay", Ask(messages=f"[{WITH_NULLS},{LAST}]"), OK, status(200), messages_exact),
    exchange("T12-many", "500 messages arrive in order", Ask(messages="[" + ",".join(f'{{"role":"user","content":"m{n}"}}' for n in range(499)) + ',{"role":"user","content":"$CASE"}]'), OK, status(200), messages_kept, _echo_last),
)  # fmt: skip
