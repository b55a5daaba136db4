"""The cases of secrets catch a proxy that shows its key, or sends the client's bearer on."""

from __future__ import annotations

from mini_proxy import BEARER, KEY, Faults, failed, on_body


def test_an_echoed_key_is_caught_wherever_it_stands() -> None:
    names = (
        *("E1-message", "E1-every-member", "E1-header", "E1-html", "E1-mid-stream", "E1-first-event"),
        *(
            "E1-stream-escapes",
            "E1-choice-error",
            "E1-comment",
            "E1-plain-choice-error",
            "E1-unicode-escapes",
        ),
    )
    assert failed(*names) == sorted(names)


def test_a_key_that_is_taken_out_passes() -> None:
    faults = Faults(reply=on_body(KEY.encode(), b"[REDACTED]"))
    assert failed("E1-message", "E1-html", "E1-every-member", faults=faults) == []


def test_the_bearer_of_a_client_on_its_way_out_is_caught() -> None:
    assert failed("E1-client-bearer") == []
    assert failed("E1-client-bearer", faults=Faults(key=BEARER)) == ["E1-client-bearer"]


def test_headers_of_a_client_on_their_way_out_are_caught() -> None:
    assert failed("E-client-headers", "E-one-host") == []
    fault = Faults(headers=("Cookie: s=cookie-canary",))
    assert failed("E-client-headers", faults=fault) == ["E-client-headers"]


def test_a_second_host_is_caught() -> None:
    assert failed("E-one-host", faults=Faults(headers=("Host: x",))) == ["E-one-host"]
