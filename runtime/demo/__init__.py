"""``neverforget demo``: a fleet of agents talks, loses a process to kill -9, and loses nothing;
then it remembers what it learned.

``conversations``: what is said. ``learning``: what is remembered, asked and forgotten. ``agent``:
who says it, a plain class that runs as a Ray actor. ``checking``: whether what was acknowledged is
there. ``running``: the course of events. ``showing``, ``showing_memories``: how it looks.
"""
