"""The dialects that clients speak beside chat completions, said as chat completions and back.

A request in one of them becomes a `Translation`: the chat request that says the same, and the way back for its reply.
Everything behind it (rule tables, checks of what is sent, memory of reasoning) is that of chat completions.
"""
