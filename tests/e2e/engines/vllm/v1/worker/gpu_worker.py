import torch

from vllm.v1.worker.worker_base import WorkerBase


class Worker(WorkerBase):
    def __init__(self):
        self.model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
        self.output = None

    @torch.inference_mode()
    def execute_model(self, scheduler_output):
        tokens = scheduler_output.total_num_scheduled_tokens
        if tokens == 0:
            return "no output"  # As with a connector of caches.
        self.output = torch.tanh(self.model(torch.randn(tokens, 64)))
        if torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            torch.distributed.all_reduce(self.output.mean())
        return None

    @torch.inference_mode()
    def sample_tokens(self, grammar_output):
        return self.output.argmax(-1).shape[0]

    @torch.inference_mode()
    def execute_dummy_batch(self):
        self.model(torch.randn(1, 64))
