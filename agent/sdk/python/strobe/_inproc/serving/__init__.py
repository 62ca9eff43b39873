"""Inference servers: each iteration of their engine is a step, without a change of the server.

hooks.py wraps methods of vLLM and SGLang that are loaded, iterations.py counts what they do, and
marks.py tells the sidecar. Nothing here imports a server.

Other modules import from this one only: `from .serving.hooks import look` would import `strobe`,
and with it the agent, if this package is not loaded yet.
"""

from .hooks import engine, forget, look, profiler_words, server
from .roles import role_of_actor

__all__ = ["engine", "forget", "look", "profiler_words", "role_of_actor", "server"]
