"""``neverforget demo``: a fleet of agents talks, loses processes to kill -9, and loses nothing;
what was said becomes memories, and is found weeks later.

``conversations``: what is said. ``agent``: who says it, a plain class that runs as a Ray actor.
``killing``: of processes. ``reflecting``: what was said becomes memories. ``learning``: what is
asked, has changed, and is forgotten. ``thinking``: what an agent has in mind. ``checking``: whether
what was acknowledged is there. ``running``: the course of events. ``outcome``, ``outcome_json``:
what it came to. ``showing``, ``showing_memories``: how it looks.
"""
