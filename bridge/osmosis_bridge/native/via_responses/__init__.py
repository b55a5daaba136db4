"""Chat completions said as Responses and back, for the calls that OpenAI takes on its Responses endpoint alone."""
