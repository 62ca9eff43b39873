from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput


class Request:
    def __init__(self, name, prompt, outputs):
        self.name, self.prompt, self.left, self.made = name, prompt, outputs, 0


class Scheduler:
    """Takes one waiting request into each batch, whole."""

    def __init__(self, vllm_config):
        self.vllm_config = vllm_config
        self.running, self.waiting = [], []

    def schedule(self, throttle_prefills=False):
        new = [self.waiting.pop(0) for _ in range(min(1, len(self.waiting)))]
        tokens = {request.name: 1 for request in self.running} | {request.name: request.prompt for request in new}
        output = SchedulerOutput(
            [NewRequestData(request.name) for request in new],
            CachedRequestData([request.name for request in self.running], [request.made for request in self.running]),
            tokens, sum(tokens.values()))
        self.running += new
        return output

    def update_from_output(self, scheduler_output, model_runner_output):
        for request in self.running:
            request.made += 1
            request.left -= 1
        self.running = [request for request in self.running if request.left > 0]
