class WorkerBase:
    def execute_model(self, scheduler_output):
        raise NotImplementedError

    def sample_tokens(self, grammar_output):
        raise NotImplementedError


class WorkerWrapperBase:
    """Creates its worker late, and passes on what it does not know."""

    def __init__(self, vllm_config, rank=0):
        self.vllm_config, self.rank, self.worker = vllm_config, rank, None

    def init_device(self):
        from vllm.v1.worker.gpu_worker import Worker

        self.worker = Worker()

    def __getattr__(self, name):
        return getattr(self.worker, name)

    def execute_model(self, scheduler_output):
        return self.worker.execute_model(scheduler_output)
