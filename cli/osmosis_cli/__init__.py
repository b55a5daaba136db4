"""The command line of osmosis: the only room that prints, prompts or exits.

It knows how to ask for a run and how to show one. It knows nothing of how a rollout is driven or a call relayed.
"""
