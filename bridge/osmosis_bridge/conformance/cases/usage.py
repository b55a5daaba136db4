"""U: usage is asked for, counted once, shown only to those who asked, and never invented."""

from __future__ import annotations

import asyncio

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, alone, exchange
from osmosis_bridge.conformance.checks import (
    brief,
    called,
    fault,
    ours,
    recorded,
    relayed,
    says,
    status,
    survives,
    unchanged,
    upstream_has,
)
from osmosis_bridge.conformance.exact import Exact, Number, at, difference, integer, members, parse, show
from osmosis_bridge.conformance.samples import (
    HELLO,
    ROLE,
    USAGE,
    WHOLE,
    chunk,
    chunk_json,
    completion,
    finish,
    said,
    usage,
    usage_json,
)
from osmosis_bridge.conformance.script import DONE, data, plain, stream
from osmosis_bridge.conformance.stage import Stage, record_value

ASKED = '"stream_options":{"include_usage":true}'
TEXTS = (
    chunk_json('{"role":"assistant","content":""}'),
    chunk_json('{"content":"hel"}'),
    chunk_json('{"content":"lo"}'),
    chunk_json("{}", finish='"stop"'),
)
OPENROUTER = (
    '{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cost":0.01,"is_byok":false,'
    '"cost_details":{"upstream_inference_cost":0.009},'
    '"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2,"audio_tokens":0},'
    '"completion_tokens_details":{"reasoning_tokens":3}}'
)


def counts(tokens: int | None) -> Check:
    """The record's usage adds up to this many tokens; None is unknown, not zero."""

    def check(seen: Seen) -> Fault | None:
        if not seen.readable:
            return None
        kept = record_value(seen, "usage")
        source = record_value(seen, "usage_source")
        if tokens is None:
            missing = source == "missing" and all(integer(v) is None for v in members(kept).values())
            return None if missing else Fault("usage missing in the record", f"{show(kept)} ({show(source)})")
        total = _total(kept)
        if total != tokens or source != "provider":
            return Fault(f"{tokens} tokens from the provider", f"{show(kept)} ({show(source)})")
        return None

    return check


def _total(kept: Exact) -> int:
    total = integer(at(kept, "total_tokens"))
    if total is not None:
        return total
    return (integer(at(kept, "prompt_tokens")) or 0) + (integer(at(kept, "completion_tokens")) or 0)


def hidden(seen: Seen) -> Fault | None:
    """No usage-only chunk and no empty choices reach a client that did not ask."""
    for payload in seen.reply.payloads():
        if at(payload, "choices") == [] and at(payload, "usage") is not None:
            return Fault("no unsolicited usage chunk", show(payload))
    return None


def shown(text: str) -> Check:
    """The client sees this usage, once, to the last digit; from our own bridge every chunk as it was."""
    want = parse(text)

    def check(seen: Seen) -> Fault | None:
        given = [usage_seen for p in seen.reply.payloads() if (usage_seen := at(p, "usage")) is not None]
        if len(given) != 1:
            return Fault("usage once", f"{len(given)} times")
        found = difference(want, given[0], "usage", loose=not seen.ours)
        return Fault("usage as the provider gave it", found) if found else None

    exactly = ours(relayed([*TEXTS, usage_json(text)]))
    return lambda seen: check(seen) or exactly(seen)


def none_shown(seen: Seen) -> Fault | None:
    """No chunk carries usage."""
    made_up = [show(p) for p in seen.reply.payloads() if at(p, "usage") is not None]
    return Fault("no usage that the provider did not give", made_up[0]) if made_up else None


def told(text: str | None) -> Check:
    """A plain reply carries this usage, or none where none was given."""
    want = parse(text) if text is not None else None

    def check(seen: Seen) -> Fault | None:
        found = difference(want, at(seen.reply.json, "usage"), "usage", loose=not seen.ours)
        return Fault("usage as the provider gave it", found) if found else None

    return check


def plain_usage(case_id: str, title: str, text: str | None, *checks: Check) -> Case:
    """A plain reply with this usage: relayed equal, and counted."""
    body = completion(usage=text)
    return exchange(
        case_id, title, Ask(), plain(body), status(200), told(text), ours(unchanged(body)), *checks
    )


PLAIN = (
    plain_usage("U-plain", "usage of a plain reply is relayed and counted", USAGE, counts(10)),
    plain_usage("U13-none", "a plain reply without usage gets none, and counts as missing", None, counts(None)),
    plain_usage("U7-null", "usage null stays null and counts as missing", "null", counts(None)),
    plain_usage(
        "U-total-null", "a null total: prompt + completion is counted",
        '{"prompt_tokens":7,"completion_tokens":3,"total_tokens":null}', counts(10),
    ),
    plain_usage(
        "U-no-total", "no total: prompt + completion is counted", '{"prompt_tokens":7,"completion_tokens":3}', counts(10)
    ),
    plain_usage("U-only-total", "only a total: it is counted", '{"total_tokens":10}', counts(10)),
    plain_usage(
        "U-larger-total", "a total larger than its parts is the provider's word",
        '{"prompt_tokens":7,"completion_tokens":3,"total_tokens":25}', counts(25),
    ),
    plain_usage("U17-cost", "cost and its details are relayed", OPENROUTER, counts(15)),
    plain_usage(
        "U-unknown-keys", "usage keys nobody knows are relayed",
        '{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_cache_hit_tokens":2,"x":{"y":[null]}}',
        counts(10),
    ),
    plain_usage("U-zero", "zeros are counts, not missing", '{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}', counts(0)),
    exchange(
        "U-garbage", "usage of odd types is relayed and poisons nothing", Ask(),
        plain(completion(usage='{"prompt_tokens":"7","completion_tokens":-3,"total_tokens":{"a":1}}')), survives, status(200),
    ),
    exchange("U-list", "usage that is a list is relayed and poisons nothing", Ask(), plain(completion(usage="[7,3]")), survives, status(200)),
    exchange(
        "U-huge", "a count beyond 64 bits is relayed and poisons nothing", Ask(),
        plain(completion(usage='{"prompt_tokens":1e30,"completion_tokens":99999999999999999999,"total_tokens":7.5}')), survives, status(200),
    ),
)  # fmt: skip


def asked_upstream(seen: Seen) -> Fault | None:
    """The provider was asked for usage."""
    options = at(seen.upstream_json, "stream_options", "include_usage") if seen.calls else None
    return None if options is True else fault("stream_options.include_usage = true at the upstream", seen)


STREAMS = (
    exchange(
        "U1-asked-for", "usage is asked for on every stream, and counted", Ask(stream=True), stream(*WHOLE),
        says("hello"), ours(asked_upstream), counts(10),
    ),
    exchange("U2-hidden", "a client that did not ask sees no usage chunk", Ask(stream=True), stream(*WHOLE), says("hello"), hidden),
    exchange(
        "U2-refused", "a client that said include_usage false sees none, and usage is still counted",
        Ask('"stream_options":{"include_usage":false,"include_obfuscation":false}', stream=True), stream(*WHOLE),
        says("hello"), hidden, ours(upstream_has("stream_options", '{"include_usage":true,"include_obfuscation":false}')), counts(10),
    ),
    exchange(
        "U2-null-options", "stream_options null: usage is asked for and hidden",
        Ask('"stream_options":null', stream=True), stream(*WHOLE), says("hello"), hidden, ours(asked_upstream), counts(10),
    ),
    exchange("U10-shown", "a client that asked sees the usage chunk as it was", Ask(ASKED, stream=True), stream(*WHOLE), says("hello"), shown(USAGE)),
    exchange(
        "U17-cost-streamed", "cost and cache details of a stream are relayed", Ask(ASKED, stream=True),
        stream(*HELLO, usage(OPENROUTER), DONE), says("hello"), shown(OPENROUTER), counts(15),
    ),
    exchange(
        "U4-after-finish", "usage that comes after the finish is counted and not an error", Ask(stream=True),
        stream(*HELLO, usage(), DONE), says("hello"), hidden, counts(10),
    ),
    exchange(
        "U9-null-elsewhere", "usage null on other chunks is relayed as sent", Ask(ASKED, stream=True),
        stream(chunk('{"content":"hello"}', more=',"usage":null'), finish(more=',"usage":null'), usage(), DONE), says("hello"),
        ours(relayed([chunk_json('{"content":"hello"}', more=',"usage":null'), chunk_json("{}", finish='"stop"', more=',"usage":null'), usage_json()])),
        counts(10),
    ),
    exchange(
        "U-on-finish", "usage on the finishing chunk is counted, and the chunk is not hidden", Ask(stream=True),
        stream(ROLE, said("hello"), finish(more=f',"usage":{USAGE}'), DONE), says("hello"), counts(10),
    ),
    exchange(
        "U-on-content", "usage on a content chunk does not hide the content", Ask(stream=True),
        stream(ROLE, chunk('{"content":"hello"}', more=f',"usage":{USAGE}'), finish(), DONE), says("hello"), counts(10),
    ),
    exchange(
        "U-cumulative", "cumulative usage is read by its last value, never added",
        Ask('"stream_options":{"include_usage":true,"continuous_usage_stats":true}', stream=True),
        stream(
            chunk('{"content":"hel"}', more=',"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}'),
            chunk('{"content":"lo"}', more=',"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}'),
            finish(more=f',"usage":{USAGE}'), usage(), DONE,
        ),
        says("hello"), counts(10),
    ),
    exchange(
        "U-twice", "usage on the finish and again after it counts once", Ask(stream=True),
        stream(said("hello"), finish(more=f',"usage":{USAGE}'), usage(), DONE), says("hello"), hidden, counts(10),
    ),
    exchange(
        "U7-streamed", "a stream without usage counts as missing and gets none", Ask(ASKED, stream=True),
        stream(*HELLO, DONE), says("hello"), none_shown, ours(relayed(TEXTS)), counts(None),
    ),
    exchange(
        "U7-null-streamed", "usage null everywhere counts as missing", Ask(stream=True),
        stream(chunk('{"content":"hello"}', more=',"usage":null'), finish(more=',"usage":null'), DONE), says("hello"), counts(None),
    ),
    exchange(
        "U2-no-choices", "a usage chunk without choices is hidden too", Ask(stream=True),
        stream(*HELLO, data(usage_json(choices=None)), DONE), says("hello"),
        lambda seen: next((Fault("no usage chunk", show(p)) for p in seen.reply.payloads() if at(p, "choices") is None), None),
        counts(10),
    ),
    exchange(
        "U2-null-choices", "a usage chunk with choices null is hidden too", Ask(stream=True),
        stream(*HELLO, data(usage_json(choices="null")), DONE), says("hello"),
        lambda seen: next((Fault("no usage chunk", show(p)) for p in seen.reply.payloads() if at(p, "choices") is None), None),
        counts(10),
    ),
    exchange(
        "U-repeated", "usage-only chunks that come again and again are hidden, and the last one counts", Ask(stream=True),
        stream(ROLE, usage('{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}'), said("hello"),
               usage('{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}'), finish(), usage(), DONE),
        says("hello"), hidden, counts(10),
    ),
    exchange(
        "U-groq", "usage in a vendor's own member is relayed", Ask(stream=True),
        stream(ROLE, said("hello"), finish(more=f',"x_groq":{{"id":"r","usage":{USAGE}}}'), DONE), says("hello"),
        lambda seen: None if any(at(p, "x_groq", "usage") for p in seen.reply.payloads()) else fault("x_groq relayed", seen),
    ),
    exchange(
        "U2-azure-first", "an empty first chunk that carries filter results is not hidden", Ask(stream=True),
        stream(data('{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}'), *WHOLE),
        says("hello"), hidden,
        lambda seen: None if any(at(p, "prompt_filter_results") for p in seen.reply.payloads()) else fault("prompt_filter_results relayed", seen),
    ),
    exchange(
        "U-detached", "usage that comes before the finish is counted, and the answer is whole", Ask(stream=True),
        stream(ROLE, said("hello"), usage(), finish(), DONE), says("hello"), hidden, counts(10),
    ),
    exchange(
        "U-odd-streamed", "usage of odd types on a stream poisons nothing", Ask(stream=True),
        stream(*HELLO, usage('{"prompt_tokens":"x","total_tokens":[]}'), DONE), says("hello"), hidden,
    ),
    exchange(
        "U-cut-counted", "usage seen before a cut is still counted", Ask(stream=True),
        stream(ROLE, chunk('{"content":"he"}', more=f',"usage":{USAGE}'), whole=False), called(1), counts(10),
    ),
)  # fmt: skip


def _costs(seen: Seen) -> Fault | None:
    """The record keeps cost and cache details."""
    if not seen.readable:
        return None
    want: dict[str, Exact] = {
        "cached_tokens": Number("4"),
        "cache_write_tokens": Number("2"),
        "reasoning_tokens": Number("3"),
    }
    usage_kept = members(record_value(seen, "usage"))
    wrong = [name for name, value in want.items() if usage_kept.get(name) != value]
    if wrong or record_value(seen, "cost_usd") != Number("0.01"):
        return Fault("record with cached 4, written 2, reasoning 3, cost 0.01", show(record_value(seen)))
    return None


async def _rollout_totals(stage: Stage) -> Fault | None:
    """Three calls: sum of totals, largest single call."""
    for number, text in enumerate(
        (USAGE, '{"prompt_tokens":90,"completion_tokens":10}', '{"total_tokens":5}')
    ):
        await stage.ask(Ask(), stage.play(plain(completion(usage=text)), f"n{number}"))
    await stage.ask(Ask(), stage.play(plain(completion(usage=None)), "none"))
    got = await stage.totals()
    want = {"calls": 4, "tokens": 115, "max_context_tokens": 100, "calls_without_usage": 1}
    wrong = {name: value for name, value in want.items() if integer(got.get(name)) != value}
    return Fault(f"totals {want}", show(dict(got))) if wrong else None


async def _unknown_is_null(stage: Stage) -> Fault | None:
    await stage.ask(Ask(), stage.play(plain(completion(usage=None))))
    got = await stage.totals()
    if integer(got.get("calls")) == 1 and got.get("tokens") is None and got.get("max_context_tokens") is None:
        return None
    return Fault("one call, tokens and max_context_tokens null", show(dict(got)))


async def _enormous(stage: Stage) -> Fault | None:
    """Counts at the edge of 64 bits do not break the totals."""
    text = '{"prompt_tokens":1,"completion_tokens":1,"total_tokens":9223372036854775807}'
    for number in range(3):
        reply = await stage.ask(Ask(), stage.play(plain(completion(usage=text)), f"n{number}"))
        if reply.status != 200:
            return Fault("200", brief(reply))
    got = await stage.totals()
    return None if integer(got.get("calls")) == 3 else Fault("totals that can be told", show(dict(got)))


async def _two_rollouts(stage: Stage) -> Fault | None:
    """Two rollouts, 200 calls in flight at once, interleaved: exact sums, no cross-talk."""
    rollouts = (f"{stage.rollout}-a", f"{stage.rollout}-b")
    gate = asyncio.Semaphore(50)
    texts = [
        f'{{"prompt_tokens":{n},"completion_tokens":{n % 7},"total_tokens":{n + n % 7}}}' for n in range(200)
    ]
    tokens = [stage.play(plain(completion(usage=text)), f"n{number}") for number, text in enumerate(texts)]
    streams = [stage.play(stream(*HELLO, usage(text), DONE), f"s{n}") for n, text in enumerate(texts)]

    async def one(number: int) -> int:
        async with gate:
            plainly = number % 2 == 0
            token = tokens[number] if plainly else streams[number]
            reply = await stage.ask(Ask(stream=not plainly), token, rollout=rollouts[number % 2])
        return reply.status

    statuses = await asyncio.gather(*(one(number) for number in range(200)))
    if set(statuses) != {200}:
        return Fault("200 good replies", str(sorted(set(statuses))))
    for parity, rollout in enumerate(rollouts):
        mine = [n + n % 7 for n in range(parity, 200, 2)]
        got = await stage.totals(rollout)
        seen = [integer(got.get(name)) for name in ("calls", "tokens", "max_context_tokens")]
        if seen != [100, sum(mine), max(mine)]:
            return Fault(f"100 calls, {sum(mine)} tokens, largest {max(mine)}", show(dict(got)))
    return None


async def _failed_not_billed(stage: Stage) -> Fault | None:
    """A refused call leaves a record and no tokens."""
    script = plain('{"error":{"message":"no","type":"x","param":null,"code":null}}', 400)
    seen = await stage.exchange(Ask(), stage.play(script))
    fault_seen = recorded("upstream_error", http_status=Number("400"))(seen)
    got = await stage.totals()
    if fault_seen or got.get("tokens") is not None:
        return fault_seen or Fault("no tokens for a refused call", show(dict(got)))
    return None if seen.reply.status == 400 else Fault("status 400", brief(seen.reply))


CASES: tuple[Case, ...] = (
    *PLAIN,
    *STREAMS,
    exchange(
        "U17-record",
        "cost, cached and reasoning tokens stand in the record",
        Ask(),
        plain(completion(usage=OPENROUTER)),
        status(200),
        _costs,
        scope="ours",
    ),
    Case("U-totals", "totals of a rollout: sum of totals, largest single call, calls without usage", _rollout_totals, "ours"),
    Case("U-enormous", "counts at the edge of 64 bits do not break the totals", _enormous, "ours"),
    Case("U-unknown", "unknown is null, not zero", _unknown_is_null, "ours"),
    Case("U15-refused", "a call that the provider refused is recorded and costs nothing", _failed_not_billed, "ours"),
    alone(Case("U16-interleaved", "two rollouts, 200 calls interleaved: sums exact, no cross-talk", _two_rollouts, "ours")),
)  # fmt: skip
