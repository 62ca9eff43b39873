"""Helpers shared by the demo, the integration tests and the benchmarks: they start real peers and clean up after them."""
