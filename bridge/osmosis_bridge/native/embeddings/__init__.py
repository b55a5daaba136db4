"""Embeddings on the native lane, for providers whose embeddings are not OpenAI's: requests there, and vectors back.

`families` has what each provider wants and says, `texts` is the request as it came, `settle` fills the outgoing body
and looks through it, `vectors` makes OpenAI's reply; these are pure. `gate` and `call` send it.
"""
