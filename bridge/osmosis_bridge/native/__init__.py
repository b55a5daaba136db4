"""The native lane's translator: a process of its own, to the bridge one more OpenAI-compatible endpoint on loopback.

A call goes down: `app` (the door) -> `lane` (the only file that loads LiteLLM) -> `gate` (what LiteLLM would send is
held, checked, then sent) -> `plan`, `turns`, `outgoing` (what is asked, and whether it stands in what is sent) ->
`families` (the rules of each dialect). On the way back `witness` reads what the provider itself said, and `replies`
makes an OpenAI reply of it. Calls in other dialects come by `spoken`, or go directly (`direct`), and `sender` is where
their answers leave. Everything but `app`, `sender`, `lane`, `direct` and `gate` is pure.
"""
