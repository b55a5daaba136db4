from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.agent import GraderContext, Sample, WorkflowContext
from osmosis_runner.rollout.clients import Clients

REQUEST = RolloutRequest("r1", [{"role": "user", "content": "hi"}], "http://x/v1", "key", "7", {"a": 1})


def grading(tmp_path: Path) -> GraderContext:
    return GraderContext(REQUEST, tmp_path / "r1", Clients(), Sample([]))


def test_a_workflow_sees_its_row_and_where_the_model_is(tmp_path: Path) -> None:
    ctx = WorkflowContext(REQUEST, tmp_path / "r1", Clients())
    assert ctx.prompt == [{"role": "user", "content": "hi"}]
    assert (ctx.rollout_id, ctx.metadata, ctx.base_url, ctx.api_key) == ("r1", {"a": 1}, "http://x/v1", "key")


def test_the_artifacts_folder_is_made_when_it_is_asked_for(tmp_path: Path) -> None:
    ctx = WorkflowContext(REQUEST, tmp_path / "r1", Clients())
    assert not (tmp_path / "r1").exists()
    assert ctx.artifacts_dir == tmp_path / "r1" / "artifacts"
    assert ctx.artifacts_dir.is_dir()


@pytest.mark.parametrize(("given", "kept"), [(1, 1.0), (0.25, 0.25), (True, 1.0), (Fraction(1, 2), 0.5)])
def test_a_reward_is_any_finite_number(tmp_path: Path, given: float, kept: float) -> None:
    ctx = grading(tmp_path)
    ctx.set_reward(given)
    assert ctx.reward == kept


@pytest.mark.parametrize("given", [float("nan"), float("inf"), float("-inf")])
def test_a_reward_that_is_not_finite_is_refused(tmp_path: Path, given: float) -> None:
    ctx = grading(tmp_path)
    with pytest.raises(ValueError, match="finite"):
        ctx.set_reward(given)
    assert ctx.reward is None


@pytest.mark.parametrize("given", ["1", None, [1], 1j, Decimal(1)])
def test_a_reward_that_is_no_number_is_refused(tmp_path: Path, given: float) -> None:
    with pytest.raises(TypeError, match="number"):
        grading(tmp_path).set_reward(given)


def test_a_grader_sees_the_label_and_the_sample(tmp_path: Path) -> None:
    ctx = grading(tmp_path)
    assert (ctx.label, ctx.sample.messages, ctx.sample.remove_sample) == ("7", [], False)
