from __future__ import annotations

import pytest

from osmosis_runner.handover import bridge_credentials, hand_over

ENVIRON = {
    "OPENAI_API_KEY": "sk-openai",
    "ANTHROPIC_API_KEY": "sk-ant",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "AWS_REGION": "us-east-1",
    "GOOGLE_APPLICATION_CREDENTIALS": "/k.json",
    "MINE": "sk-mine",
    "FIREWORKS_AI_API_KEY": " ",
}


@pytest.mark.parametrize(
    ("model", "api_key_env", "names"),
    [
        ("openai/m", None, {"OPENAI_API_KEY"}),
        ("openai/m", "MINE", {"MINE"}),
        ("nobody/m", None, set()),
        ("nobody/m", "MINE", {"MINE"}),
        ("m", None, set()),
        ("local/smollm2-135m-instruct", None, set()),
        ("fireworks_ai/m", None, set()),
        ("anthropic/m", None, {"ANTHROPIC_API_KEY"}),
        ("bedrock/m", None, {"AWS_SECRET_ACCESS_KEY"}),
        ("vertex_ai/m", None, {"GOOGLE_APPLICATION_CREDENTIALS"}),
    ],
)
def test_the_bridges_credentials_are_those_of_the_models_provider(
    model: str, api_key_env: str | None, names: set[str]
) -> None:
    assert set(bridge_credentials(model, api_key_env, ENVIRON)) == names


def test_the_key_of_the_bridge_stays_and_others_are_given() -> None:
    secrets = {"OPENAI_API_KEY": "sk-openai", "JUDGE_KEY": "sk-judge"}
    parted = hand_over(secrets, {"OPENAI_API_KEY": "sk-openai"}, share=False)
    assert parted.given == {"JUDGE_KEY": "sk-judge"}
    assert parted.withheld == ("OPENAI_API_KEY",)
    note = parted.note("openai/m")
    assert note is not None
    assert "OPENAI_API_KEY" in note
    assert "--pass-provider-key" in note
    assert "sk-" not in note + repr(parted)


def test_a_key_is_told_by_its_value_and_not_by_its_name() -> None:
    used = {"OPENAI_API_KEY": "sk-openai\n"}
    assert hand_over({"SAME": "sk-openai"}, used, share=False).withheld == ("SAME",)
    assert hand_over({"OPENAI_API_KEY": "sk-other"}, used, share=False).given == {
        "OPENAI_API_KEY": "sk-other"
    }


def test_a_credential_that_is_empty_withholds_nothing() -> None:
    assert hand_over({"X": ""}, {"OPENAI_API_KEY": " "}, share=False).withheld == ()


def test_the_operator_may_share_it_and_is_told_what_that_means() -> None:
    parted = hand_over({"OPENAI_API_KEY": "k", "OTHER": "o"}, {"OPENAI_API_KEY": "k"}, share=True)
    assert parted.given == {"OPENAI_API_KEY": "k", "OTHER": "o"}
    assert "in no record" in (parted.note("openai/m") or "")
    assert hand_over({"OTHER": "o"}, {"OPENAI_API_KEY": "k"}, share=True).note("openai/m") is None


def test_a_message_that_names_a_withheld_secret_gets_the_remedy() -> None:
    parted = hand_over({"OPENAI_API_KEY": "k"}, {"OPENAI_API_KEY": "k"}, share=False)
    assert "--pass-provider-key" in parted.hint("KeyError: 'OPENAI_API_KEY'")
    assert parted.hint("KeyError: 'OTHER'") == ""
