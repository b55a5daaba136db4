from osmosis_bridge.timestamps import iso_time


def test_a_time_is_written_in_utc_with_milliseconds() -> None:
    assert iso_time(1_769_860_800.25) == "2026-01-31T12:00:00.250Z"


def test_milliseconds_are_padded_and_never_rounded_into_the_next_second() -> None:
    assert iso_time(0.0019) == "1970-01-01T00:00:00.001Z"
    assert iso_time(1.9999) == "1970-01-01T00:00:01.999Z"


def test_times_of_different_seconds_do_not_share_their_text() -> None:
    assert [iso_time(s) for s in (10.0, 11.0, 10.5)] == [
        "1970-01-01T00:00:10.000Z",
        "1970-01-01T00:00:11.000Z",
        "1970-01-01T00:00:10.500Z",
    ]
