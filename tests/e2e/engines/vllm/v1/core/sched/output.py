from dataclasses import dataclass, field


@dataclass
class NewRequestData:
    req_id: str


@dataclass
class CachedRequestData:
    req_ids: list = field(default_factory=list)
    num_output_tokens: list = field(default_factory=list)

    def is_context_phase(self, req_id):
        return self.num_output_tokens[self.req_ids.index(req_id)] == 0


@dataclass
class SchedulerOutput:
    scheduled_new_reqs: list
    scheduled_cached_reqs: CachedRequestData
    num_scheduled_tokens: dict
    total_num_scheduled_tokens: int
