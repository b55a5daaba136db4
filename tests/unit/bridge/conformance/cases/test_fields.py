"""The cases of fields catch a proxy that drops, adds or renames one."""

from __future__ import annotations

import json

from mini_proxy import Faults, failed
from osmosis_bridge.conformance.cases.fields import CASES


def without(*names: str) -> Faults:
    def drop(body: bytes) -> bytes:
        fields = json.loads(body)
        return json.dumps({name: value for name, value in fields.items() if name not in names}).encode()

    return Faults(request=drop)


def test_a_transparent_proxy_passes_every_case_of_fields() -> None:
    assert failed(*(case.id for case in CASES)) == []


def test_a_dropped_field_is_caught_by_its_own_case_and_no_other() -> None:
    assert failed("F1-user", "F2-metadata", "F9-nine", faults=without("user")) == ["F1-user"]


def test_one_of_nine_lost_fields_is_caught() -> None:
    assert failed("F9-*", faults=without("logit_bias")) == ["F9-nine", "F9-streamed"]


def test_a_list_cut_to_four_is_caught() -> None:
    def cut(body: bytes) -> bytes:
        return body.replace(b',"e"]', b"]")

    assert failed("F16-*", faults=Faults(request=cut)) == ["F16-stop-five"]


def test_an_added_field_is_caught() -> None:
    def add(body: bytes) -> bytes:
        return body.replace(b'{"model"', b'{"usage":{"include":true},"model"', 1)

    assert failed("F1-user", "F19-random", faults=Faults(request=add)) == ["F19-random"]


def test_reordered_properties_of_a_schema_are_caught() -> None:
    def reorder(body: bytes) -> bytes:
        fields = json.loads(body)
        if "response_format" in fields:
            fields["response_format"] = json.loads(json.dumps(fields["response_format"], sort_keys=True))
        return json.dumps(fields).encode()

    assert failed("F-json-schema", "F9-streamed", faults=Faults(request=reorder)) == ["F-json-schema"]


def test_a_message_given_other_words_is_caught() -> None:
    def rewrite(body: bytes) -> bytes:
        return body.replace(b'"content":"case:', b'"content":"please case:')

    assert failed("F1-user", "F19-random", faults=Faults(request=rewrite)) == ["F19-random"]
