"""neverforget: durable memory for fleets of AI agents."""
