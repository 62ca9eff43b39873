"""What demos, integration tests and benchmarks share: real peers, started and cleaned up."""
