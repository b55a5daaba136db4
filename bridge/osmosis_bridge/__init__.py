"""osmosis-bridge: an OpenAI-compatible inference bridge for LLM agents."""

__version__ = "0.1.0"
