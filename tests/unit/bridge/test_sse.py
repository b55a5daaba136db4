"""Server-sent events: framing after the HTML standard, and bytes that a relay can pass on unchanged."""

from __future__ import annotations

import time

import pytest

from osmosis_bridge.sse import Event, EventSplitter, EventTooLarge, comment, encode_event, parse_event


def events(*pieces: bytes) -> list[tuple[bytes, bytes | None, bytes | None]]:
    splitter = EventSplitter()
    found = [event for piece in pieces for event in splitter.feed(piece)]
    last = splitter.finish()
    return [(event.raw, event.data, event.name) for event in (*found, *([last] if last else []))]


def contents(*pieces: bytes) -> list[bytes | None]:
    return [data for _, data, _ in events(*pieces)]


def test_a_blank_line_ends_an_event_and_its_bytes_are_kept() -> None:
    assert events(b"data: a\n\ndata:b\n\n") == [(b"data: a\n\n", b"a", None), (b"data:b\n\n", b"b", None)]


def test_an_event_comes_out_as_soon_as_it_is_complete_and_not_before() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\nda") == [Event(b"data: a\n\n", b"a")]
    assert splitter.feed(b"ta: b\n\n") == [Event(b"data: b\n\n", b"b")]
    assert splitter.finish() is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_may_end_in_lf_crlf_or_cr(end: bytes) -> None:
    stream = end.join([b"event: ping", b"data: a", b"data: b", b"", b": note", b"", b"data: c", b"", b""])
    assert [(data, name) for _, data, name in events(stream)] == [
        (b"a\nb", b"ping"),
        (None, None),
        (b"c", None),
    ]
    assert b"".join(raw for raw, _, _ in events(stream)) == stream


def test_line_ends_may_be_mixed_within_one_event() -> None:
    assert contents(b"data: a\rdata: b\r\ndata: c\n\r\ndata: d\n\r") == [b"a\nb\nc", b"d"]


def test_a_cr_at_the_end_of_a_piece_ends_the_event_at_once_and_its_lf_belongs_to_it() -> None:
    splitter = EventSplitter()
    assert [event.data for event in splitter.feed(b"data: a\r\n\r")] == [b"a"]
    assert [event.data for event in splitter.feed(b"\ndata: b\r\n\r\n")] == [b"b"]


def test_a_cr_and_its_lf_in_two_pieces_are_one_line_end() -> None:
    assert contents(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


def test_after_a_cr_that_ended_an_event_an_empty_piece_changes_nothing() -> None:
    splitter = EventSplitter()
    assert [event.data for event in splitter.feed(b"data: a\r\r")] == [b"a"]
    assert splitter.feed(b"") == []
    assert [event.data for event in splitter.feed(b"data: b\n\n")] == [b"b"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_one_byte_reads_and_split_code_points_give_the_same_events(size: int) -> None:
    stream = '\ufeff: hi\r\n\r\nevent: e\ndata: {"t":"naïve \U0001f600"}\n\n\n\ndata: x\r\rdata: y'.encode()
    pieces = [stream[place : place + size] for place in range(0, len(stream), size)]
    assert contents(*pieces) == [None, '{"t":"naïve \U0001f600"}'.encode(), b"x", b"y"]


def test_a_byte_order_mark_at_the_start_is_dropped_and_only_there() -> None:
    assert events(b"\xef\xbb", b"\xbfdata: a\n\n") == [(b"data: a\n\n", b"a", None)]
    assert contents(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a", None]


def test_what_only_begins_like_a_byte_order_mark_is_kept() -> None:
    assert events(b"\xef\xbb") == [(b"\xef\xbb", None, None)]
    assert events(b"\xef", b"data: a\n\n") == [(b"\xefdata: a\n\n", None, None)]


def test_more_blank_lines_than_needed_make_no_event_and_are_not_lost() -> None:
    stream = b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n"
    assert events(stream) == [(b"\n\n\ndata: a\n\n", b"a", None), (b"\n\n\ndata: b\n\n", b"b", None)]


def test_blank_lines_that_come_in_pieces_make_no_event_either() -> None:
    assert contents(b"data: a\r\n\r\n", b"\n", b"\n", b"\n\ndata: b\n\n") == [b"a", b"b"]


def test_comments_ids_and_retry_hints_have_no_data() -> None:
    stream = b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\n\n:\n\n"
    assert contents(stream) == [None, None, None]
    assert b"".join(raw for raw, _, _ in events(stream)) == stream


def test_a_comment_within_an_event_is_passed_over() -> None:
    assert events(b": c\ndata: a\n: data: no\n\n") == [(b": c\ndata: a\n: data: no\n\n", b"a", None)]


def test_one_space_after_the_colon_is_not_part_of_the_value() -> None:
    assert contents(b"data:  a\n\ndata:a\n\ndata\n\ndata:\n\n") == [b" a", b"a", b"", b""]


def test_data_lines_are_joined_with_line_feeds() -> None:
    assert contents(b"data: {\ndata:\ndata: }\n\n") == [b"{\n\n}"]


def test_field_names_are_taken_exactly() -> None:
    assert contents(b" data: a\n\nDATA: a\n\ndatax: a\n\n") == [None, None, None]


def test_the_last_event_name_of_a_block_counts() -> None:
    assert parse_event(b"event: a\nevent: error\ndata: x\n\n").name == b"error"


def test_what_the_end_of_the_stream_left_unterminated_is_given_out_at_the_end() -> None:
    assert events(b"data: a\n\ndata: b") == [(b"data: a\n\n", b"a", None), (b"data: b", b"b", None)]
    assert contents(b"data: a\n\n\n\r") == [b"a"]


def test_finish_leaves_nothing_behind() -> None:
    splitter = EventSplitter()
    splitter.feed(b"data: a")
    assert splitter.finish() == Event(b"data: a", b"a")
    assert splitter.finish() is None


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_an_event_beyond_the_limit_is_an_error_and_one_at_the_limit_is_not(end: bytes) -> None:
    assert EventSplitter(limit=10).feed(b"data: 789" + end) == []
    with pytest.raises(EventTooLarge, match="larger than 10 bytes"):
        EventSplitter(limit=10).feed(b"data: 7890" + end)


def test_complete_events_do_not_count_towards_the_limit() -> None:
    splitter = EventSplitter(limit=10)
    assert len(splitter.feed(b"data: abcdefghijkl\n\n" * 100)) == 100


def test_an_encoded_event_reads_back_as_the_same_data() -> None:
    assert encode_event(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert contents(encode_event(b"a\nb\n\nc")) == [b"a\nb\n\nc"]


def test_a_keep_alive_is_a_comment() -> None:
    assert comment() == b": keep-alive\n\n"
    assert contents(comment(b"x")) == [None]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_a_large_event_in_one_byte_reads_takes_time_in_proportion(end: bytes) -> None:
    stream = b'data: {"image":"' + b"x" * 300_000 + b'"}' + end
    splitter = EventSplitter()
    begun = time.process_time()
    found = [event for place in range(len(stream)) for event in splitter.feed(stream[place : place + 1])]
    # Generous: read again for each byte it would take minutes, and it takes half a second.
    assert time.process_time() - begun < 9
    assert [event.data for event in found] == [stream[6 : -len(end)]]


def test_a_flood_of_blank_lines_is_neither_kept_nor_read_again_and_again() -> None:
    splitter = EventSplitter(limit=1000)
    begun = time.process_time()
    for _ in range(300):
        assert splitter.feed(b"\n" * 5_000) == []
        assert splitter.feed(b"\r\n" * 5_000) == []
    assert time.process_time() - begun < 9
    assert [event.data for event in splitter.feed(b"data: a\n\n")] == [b"a"]
