"""The cases of content catch a proxy that reshapes tools, reasoning, logprobs or messages."""

from __future__ import annotations

from mini_proxy import Faults, failed, on_body
from osmosis_bridge.conformance.cases.content import CASES


def test_a_transparent_proxy_passes_every_case_of_content() -> None:
    assert failed(*(case.id for case in CASES)) == []


def test_tool_calls_that_run_together_are_caught() -> None:
    fault = Faults(reply=on_body(b'"index":2,"function"', b'"index":0,"function"'))
    assert failed("T1-interleaved", "T1-whole", faults=fault) == ["T1-interleaved"]


def test_a_member_added_to_a_message_is_caught() -> None:
    fault = Faults(reply=on_body(b'"content":null}', b'"content":null,"function_call":null}'))
    assert failed("T11-nulls", "T11-choice", faults=fault) == ["T11-nulls"]


def test_a_renamed_member_is_caught() -> None:
    fault = Faults(reply=on_body(b'"reasoning":', b'"reasoning_content":'))
    assert failed("T7-reasoning", "T7-reasoning-content", faults=fault) == ["T7-reasoning"]


def test_null_content_made_a_text_is_caught() -> None:
    fault = Faults(reply=on_body(b'"content":null', b'"content":""'))
    assert failed("T11-nulls", faults=fault) == ["T11-nulls"]


def test_a_number_that_changes_is_caught_and_one_that_is_spelt_anew_is_not() -> None:
    assert failed("T10-logprobs", faults=Faults(reply=on_body(b"-0.10", b"-0.11"))) == ["T10-logprobs"]
    assert failed("T10-logprobs", faults=Faults(reply=on_body(b"-0.10", b"-0.1"))) == []


def test_another_member_called_model_that_is_overwritten_is_caught() -> None:
    fault = Faults(reply=on_body(b"upstream-model", b"alias"))
    assert failed("T-model-elsewhere", "T11-nulls", faults=fault) == ["T-model-elsewhere"]


def test_a_role_that_is_changed_is_caught() -> None:
    def to_system(body: bytes) -> bytes:
        return body.replace(b'"developer"', b'"system"')

    assert failed("T12-developer", "T12-names", faults=Faults(request=to_system)) == ["T12-developer"]


def test_arguments_spelled_anew_are_caught() -> None:
    def tidy(body: bytes) -> bytes:
        return body.replace(rb"{ \"x\" : 1.10 }", rb"{\"x\": 1.1}")

    assert failed("T12-arguments-*", faults=Faults(request=tidy)) == ["T12-arguments-text"]
