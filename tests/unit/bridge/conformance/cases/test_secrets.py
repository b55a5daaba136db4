"""The cases of secrets catch a proxy that shows its key, or sends the client's bearer on."""

from __future__ import annotations

from mini_proxy import BEARER, KEY, Faults, failed, on_body
from osmosis_bridge.conformance.cases.secrets import BELONGING


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


def test_headers_that_belong_to_the_request_and_stay_at_the_proxy_are_caught() -> None:
    names = ("F-client-headers", "F-client-headers-streamed")
    assert failed(*names, ours=True) == sorted(names)
    lines = tuple(f"{name}: {value}" for name, value in BELONGING)
    assert failed(*names, faults=Faults(headers=lines), ours=True) == []
    assert failed(*names, faults=Faults(headers=lines[1:]), ours=True) == sorted(names)


def test_a_header_for_the_proxy_alone_that_goes_on_and_one_too_long_are_caught() -> None:
    fault = Faults(headers=("X-Title: evil",))
    assert failed("F-client-headers-hop") == []
    assert failed("F-client-headers-hop", faults=fault) == ["F-client-headers-hop"]
    assert failed("E-client-headers-long", ours=True) == ["E-client-headers-long"]


def test_a_second_host_is_caught() -> None:
    assert failed("E-one-host", faults=Faults(headers=("Host: x",))) == ["E-one-host"]
