"""Adapters to agent frameworks, one module each; none in this version."""
