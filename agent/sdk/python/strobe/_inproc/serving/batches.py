"""What a batch of a server's engine holds, read from the engine's own objects.

shape_of() takes tens of microseconds with hundreds of requests. It is called only while somebody
records.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple


class Shape(NamedTuple):
    prefill_requests: int
    prefill_tokens: int
    decode_requests: int
    decode_tokens: int


class VllmBatch:
    """`batch` is a SchedulerOutput."""

    @staticmethod
    def shape_of(batch: Any) -> Shape:
        """Counts as vLLM's own annotations do: a request without output yet is in its prefill."""
        cached = batch.scheduled_cached_reqs
        first = {request.req_id for request in batch.scheduled_new_reqs}
        outputs = getattr(cached, "num_output_tokens", None)
        if outputs is not None:
            first.update(name for name, made in zip(cached.req_ids, outputs) if made == 0)
        elif hasattr(cached, "is_context_phase"):
            first.update(filter(cached.is_context_phase, cached.req_ids))
        scheduled = batch.num_scheduled_tokens
        first &= scheduled.keys()
        prefill = sum(map(scheduled.__getitem__, first))
        rest = batch.total_num_scheduled_tokens - prefill
        return Shape(len(first), prefill, len(scheduled) - len(first), rest)

    @staticmethod
    def requests_of(batch: Any) -> Iterable[Any]:
        return batch.num_scheduled_tokens


class SglangBatch:
    """`batch` is a ScheduleBatch."""

    @staticmethod
    def tokens_of(batch: Any) -> int:
        requests = len(batch.reqs)
        return requests if batch.forward_mode.is_decode() else batch.extend_num_tokens or requests

    @staticmethod
    def shape_of(batch: Any) -> Shape:
        requests, tokens = len(batch.reqs), SglangBatch.tokens_of(batch)
        if batch.forward_mode.name not in ("EXTEND", "MIXED", "SPLIT_PREFILL"):
            return Shape(0, 0, requests, tokens)
        decode = len(getattr(batch, "decoding_reqs", None) or ())
        return Shape(requests - decode, tokens - decode, decode, decode)

    @staticmethod
    def requests_of(batch: Any) -> Iterable[Any]:
        return (request.rid for request in batch.reqs)
