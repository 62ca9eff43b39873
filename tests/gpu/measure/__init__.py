"""Measures Strobe on a real GPU; started by tests/gpu/run. Needs Python 3.9 and nothing else, because GPU machines have what they have."""
