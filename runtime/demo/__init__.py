"""``neverforget demo``: a fleet of agents talks, loses a process to kill -9, and loses nothing.

``conversations``: what is said. ``agent``: who says it, a plain class that runs as a Ray actor.
``checking``: whether what was acknowledged is there. ``running``: the course of events.
``showing``: how it looks.
"""
