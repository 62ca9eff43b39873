import torch

from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.model_executor.forward_batch_info import ForwardMode


class Scheduler:
    """Prefills what waits, or decodes what runs."""

    def __init__(self, disaggregation_mode="null"):
        self.disaggregation_mode = disaggregation_mode
        self.waiting_queue, self.running = [], []
        self.forward_ct = 0
        self.model = torch.nn.Linear(64, 64)

    def get_next_batch_to_run(self):
        if self.waiting_queue:
            new = [self.waiting_queue.pop(0)]
            self.running += new
            return ScheduleBatch(new, ForwardMode.EXTEND, new[0].prompt)
        return ScheduleBatch(list(self.running), ForwardMode.DECODE) if self.running else None

    @torch.inference_mode()
    def run_batch(self, batch, pp_proxy_tensors=None):
        self.forward_ct += 1
        return torch.tanh(self.model(torch.randn(batch.extend_num_tokens or len(batch.reqs) or 1, 64)))

    def process_batch_result(self, batch, result):
        for request in batch.reqs:
            request.left -= 1
        self.running = [request for request in self.running if request.left > 0]
