"""F: every inference field reaches the provider, by name and value."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Ask, Case, exchange
from osmosis_bridge.conformance.checks import forwarded, messages_kept, ours, record_lists, status
from osmosis_bridge.conformance.samples import WHOLE, completion
from osmosis_bridge.conformance.script import plain, stream

TOOL = (
    '{"type":"function","function":{"name":"add","description":"adds","strict":true,"parameters":{"type":"object",'
    '"properties":{"b":{"type":"integer"},"a":{"type":"integer"},"api_key":{"type":"string"}},'
    '"required":["b","a"],"additionalProperties":false}}}'
)
SCHEMA = (
    '{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"type":"object","properties":'
    '{"reasoning":{"type":"string"},"answer":{"type":"number"},"alternatives":{"type":"array"}},'
    '"required":["reasoning","answer"],"additionalProperties":false}}}'
)

OPENAI = {
    "F1-user": '"user":"r-17"',
    "F2-metadata": '"metadata":{"task":"a","api_key_hint":"none","timeout":"30"},"store":true',
    "F9-nine": (
        '"n":2,"stop":["x"],"seed":3,"presence_penalty":0.5,"frequency_penalty":-0.5,"parallel_tool_calls":false,'
        '"logprobs":true,"top_logprobs":4,"logit_bias":{"50256":-100}'
    ),
    "F12-reasoning-effort": '"reasoning_effort":"low"',
    "F16-stop-five": '"stop":["a","b","c","d","e"]',
    "F16-stop-string": '"stop":"END"',
    "F18-temperature": '"temperature":0.1,"top_p":0.95',
    "F-max-tokens": '"max_tokens":17',
    "F-max-completion-tokens": '"max_completion_tokens":4096',
    "F-both-max-tokens": '"max_tokens":17,"max_completion_tokens":18',
    "F-audio": '"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}',
    "F-functions": '"functions":[{"name":"f","parameters":{}}],"function_call":{"name":"f"}',
    "F-tools": f'"tools":[{TOOL}],"tool_choice":"required"',
    "F-tool-choice-named": f'"tools":[{TOOL}],"tool_choice":{{"type":"function","function":{{"name":"add"}}}}',
    "F-tool-choice-none": f'"tools":[{TOOL}],"tool_choice":"none"',
    "F-tool-custom": '"tools":[{"type":"custom","custom":{"name":"c","format":{"type":"text"}}}]',
    "F-parallel-without-tools": '"parallel_tool_calls":false',
    "F-json-object": '"response_format":{"type":"json_object"}',
    "F-json-schema": f'"response_format":{SCHEMA}',
    "F-prediction": '"prediction":{"type":"content","content":"def f(): pass"}',
    "F-prompt-cache": '"prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"ttl":"1h"}',
    "F-safety": '"safety_identifier":"u-1","moderation":{"enabled":false}',
    "F-service-tier": '"service_tier":"flex"',
    "F-verbosity": '"verbosity":"low"',
    "F-web-search": '"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate"}}',
    "F-future": '"a_field_of_next_year":{"deep":[1,{"x":null}]},"x-dashed":1,"camelCase":true',
}

VENDORS = {
    "F8-template-kwargs": '"chat_template_kwargs":{"enable_thinking":false},"separate_reasoning":true',
    "F-guided": '"guided_json":{"type":"object"},"guided_regex":"[a-z]+","guided_choice":["a","b"]',
    "F-structured-outputs": '"structured_outputs":{"grammar":"root ::= \\"a\\""}',
    "F-vllm-sampling": (
        '"top_k":20,"min_p":0.05,"repetition_penalty":1.1,"min_tokens":1,"ignore_eos":false,"stop_token_ids":[1,2],'
        '"bad_words":["x"],"allowed_token_ids":[3],"include_stop_str_in_output":true,"skip_special_tokens":false'
    ),
    "F-vllm-rest": (
        '"priority":-1,"cache_salt":"s","request_id":"q","chat_template":"{{ m }}","add_generation_prompt":false,'
        '"continue_final_message":true,"documents":[{"title":"t"}],"mm_processor_kwargs":{"num_crops":4},'
        '"return_token_ids":true,"prompt_logprobs":1,"truncate_prompt_tokens":100,"kv_transfer_params":{"a":1},'
        '"vllm_xargs":{"b":"c"},"echo":false,"best_of":1'
    ),
    "F-sglang": (
        '"regex":"a+","ebnf":"root ::= x","lora_path":"l","rid":"r1","return_hidden_states":false,'
        '"custom_logit_processor":"p","stream_reasoning":true,"session_params":{"id":"1"}'
    ),
    "F-llama-cpp": (
        '"mirostat":2,"grammar":"root ::= \\"x\\"","cache_prompt":true,"samplers":["top_k"],"n_probs":2,"id_slot":0,'
        '"dry_multiplier":0.8,"typical_p":1,"t_max_predict_ms":500,"timings_per_token":true'
    ),
    "F-ollama-options": '"options":{"num_ctx":8192},"keep_alive":"5m","format":"json","think":"low"',
    "F4-openrouter-provider": '"provider":{"order":["OpenAI"],"allow_fallbacks":false,"max_price":{"prompt":1}}',
    "F-openrouter": (
        '"route":"fallback","transforms":["middle-out"],"plugins":[{"id":"web"}],"preset":"p","include_reasoning":true,'
        '"reasoning":{"effort":"low","max_tokens":9,"exclude":false,"enabled":true},"usage":{"include":true},'
        '"top_a":0.1,"session_id":"s","trace":{"name":"t"}'
    ),
    "F14-thinking": '"thinking":{"type":"disabled","budget_tokens":1024}',
    "F-anthropic-words": '"context_management":{"edits":[]},"cache_control":{"type":"ephemeral"},"betas":["b"]',
    "F13-unknown": '"system_prompt":"x"',
    "F-words-of-proxies": '"tags":["a"],"order":"asc","weight":2,"id":"i","ttl":60,"roles":{"user":{}}',
    "F-words-of-bodies": '"region":"eu","url":"x","input":"i","prompt":"p","token":"t","method":"m","system":"s"',
}

TITLES = {
    "F1-user": "user reaches the provider whatever the model is called",
    "F2-metadata": "metadata and store reach the provider; names inside metadata are data, not controls",
    "F9-nine": "nine common fields with non-default values all arrive",
    "F12-reasoning-effort": "reasoning_effort is not refused because of the model's name",
    "F16-stop-five": "all five stop sequences arrive",
    "F14-thinking": "thinking is forwarded as it is",
    "F8-template-kwargs": "chat_template_kwargs and separate_reasoning arrive",
    "F-tools": "tools arrive equal: strict, additionalProperties, order of properties, a property called api_key",
    "F-json-schema": "a response schema arrives with its properties in order",
    "F13-unknown": "a field nobody knows is forwarded, for the provider to judge",
    "F-future": "fields that do not exist yet are forwarded",
    "F-words-of-proxies": "names that proxies use for themselves are data on an OpenAI wire",
    "F-words-of-bodies": "body names of other APIs are data on an OpenAI wire",
}


def _case(case_id: str, fields: str) -> Case:
    title = TITLES.get(
        case_id, f"{fields.split(':', 1)[0].strip(chr(34))} and what comes with it arrives equal"
    )
    return exchange(
        case_id, title, Ask(fields), plain(completion()), status(200), forwarded, ours(messages_kept)
    )


CASES: tuple[Case, ...] = (
    *(_case(case_id, fields) for case_id, fields in {**OPENAI, **VENDORS}.items()),
    exchange(
        "F9-streamed",
        "the nine fields arrive on a stream too",
        Ask(OPENAI["F9-nine"], stream=True),
        stream(*WHOLE),
        status(200),
        forwarded,
    ),
    exchange(
        "F11-report",
        "the record lists what was forwarded",
        Ask('"seed":1,"top_k":3'),
        plain(completion()),
        status(200),
        ours(record_lists("forwarded", "seed", "top_k")),
    ),
)
