"""One script per claim. Each prints one table: ours, the peer, the bare limit, their ratio, the
target.

Run one with ``python -m bench.bench_append`` from the repository root, all of them with ``make
bench``.
"""
