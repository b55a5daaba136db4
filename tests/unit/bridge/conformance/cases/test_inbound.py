"""The cases of inbound requests catch a proxy that lets a hidden request through, or crashes on an odd one."""

from __future__ import annotations

from mini_proxy import Faults, failed


def json_only(body: bytes) -> bytes:
    return body if body.startswith(b"{") else b"{}"


def test_a_proxy_that_reads_one_request_a_connection_lets_nothing_be_smuggled() -> None:
    names = ("C-te-and-cl", "C-two-cl", "C-te-fold", "C-slow-request", "C4-2mb")
    assert failed(*names, faults=Faults(request=json_only)) == []


def test_a_hidden_request_that_goes_out_is_caught() -> None:
    def as_a_message(body: bytes) -> bytes:
        if b"POST /" not in body:
            return body
        return body[body.index(b"\r\n\r\n", body.index(b"POST /")) + 4 :]

    assert failed("C-te-and-cl", faults=Faults(request=as_a_message)) == ["C-te-and-cl"]


def test_a_second_call_on_a_connection_must_be_answered() -> None:
    assert failed("C-kept-client") == ["C-kept-client"]


def test_a_body_in_chunks_must_be_read() -> None:
    assert failed("C-chunked-request") == ["C-chunked-request"]
