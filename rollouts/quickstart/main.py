"""A small agent for a small model: it works an arithmetic question out twice, and once more when it disagrees.

The model is asked in words and then in symbols. When both give the same number that is the answer; otherwise a third
call, which sees the second, decides by majority. So a rollout makes two or three calls, and its last one has the
longest context.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from osmosis_runner.rollout import (
    AgentWorkflow,
    AgentWorkflowOutput,
    Grader,
    GraderContext,
    Message,
    WorkflowContext,
    serve,
)

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

IN_WORDS: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is 3 times 5?"},
    {"role": "assistant", "content": "3 times 5 is 15."},
    {"role": "user", "content": "What is 8 plus 4?"},
    {"role": "assistant", "content": "8 plus 4 is 12."},
    {"role": "user", "content": "What is 20 minus 7?"},
    {"role": "assistant", "content": "20 minus 7 is 13."},
]
IN_SYMBOLS: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "3 * 5 ="},
    {"role": "assistant", "content": "3 * 5 = 15"},
    {"role": "user", "content": "8 + 4 ="},
    {"role": "assistant", "content": "8 + 4 = 12"},
    {"role": "user", "content": "20 - 7 ="},
    {"role": "assistant", "content": "20 - 7 = 13"},
]
SYMBOLS = {"times": "*", "plus": "+", "minus": "-"}


class Arithmetic(AgentWorkflow):
    """Asks in words and in symbols, and a third time when the answers differ."""

    async def run(self, ctx: WorkflowContext) -> AgentWorkflowOutput:
        """Answer the question that the prompt ends with."""
        question = str(ctx.prompt[-1]["content"])
        said = ctx.messages = [*ctx.prompt]
        first = await ask(ctx, [*IN_WORDS, {"role": "user", "content": question}])
        said.append({"role": "assistant", "content": first})

        in_symbols = [*IN_SYMBOLS, {"role": "user", "content": symbols(question)}]
        second = await ask(ctx, in_symbols)
        said += [{"role": "user", "content": symbols(question)}, {"role": "assistant", "content": second}]

        answers = [number(first), number(second)]
        if answers[0] != answers[1]:
            again = [
                *in_symbols,
                {"role": "assistant", "content": second},
                {"role": "user", "content": question},
            ]
            third = await ask(ctx, again)
            said += [{"role": "user", "content": question}, {"role": "assistant", "content": third}]
            answers.append(number(third))

        final = Counter(answer for answer in answers if answer).most_common(1)
        said.append({"role": "assistant", "content": f"The answer is {final[0][0] if final else 'unknown'}."})
        return AgentWorkflowOutput(messages=said, metrics={"calls": len(answers)})


class SameNumber(Grader):
    """1 when the last number the agent said is the label, else 0."""

    async def grade(self, ctx: GraderContext) -> None:
        """Compare the answer with the label."""
        ctx.set_reward(1.0 if number(answer_of(ctx.sample.messages)) == ctx.label else 0.0)


async def ask(ctx: WorkflowContext, messages: list[ChatCompletionMessageParam]) -> str:
    """One short completion, the likeliest one."""
    completion = await ctx.client.chat.completions.create(
        model="osmosis-rollout", messages=messages, temperature=0, max_tokens=16, stop=["\n"]
    )
    return (completion.choices[0].message.content or "").strip()


def symbols(question: str) -> str:
    """`What is 7 times 8?` as `7 * 8 =`."""
    words: list[str] = re.findall(r"\d+|times|plus|minus", question)
    return " ".join(SYMBOLS.get(word, word) for word in words) + " ="


def number(text: str) -> str | None:
    """The last whole number in a text."""
    numbers = re.findall(r"\d+", text)
    return numbers[-1] if numbers else None


def answer_of(messages: list[Message]) -> str:
    """What the agent said last."""
    return str(messages[-1]["content"])


if __name__ == "__main__":
    serve(Arithmetic, SameNumber)
