"""Trains a model by PyTorch at the command of trainer_loop.py; with $STROBE_GPU_GRAPHS, a step is one CUDA graph."""

import os

import torch
from rehearsal import FakeWork
from trainer_loop import serve

LAYERS, WIDTH, BATCH = (int(part) for part in os.environ.get("STROBE_GPU_MODEL", "8,4096,2048").split(","))


class Trainer:
    def __init__(self):
        self.fake = None
        if "STROBE_GPU_REHEARSAL" in os.environ:
            self.fake = FakeWork(5)
        elif not torch.cuda.is_available():
            raise SystemExit("PyTorch has no GPU here")
        self.cuda = torch.cuda.is_available()
        where = "cuda" if self.cuda else "cpu"
        self.device = f"torch {torch.__version__} on {torch.cuda.get_device_name() if self.cuda else 'cpu'}"
        torch.manual_seed(0)
        torch.set_num_threads(1)
        kind = torch.float32 if self.fake else torch.bfloat16  # Processors are slow with the short one.
        parts = [part for _ in range(LAYERS) for part in (torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.Tanh())]
        self.model = torch.nn.Sequential(*parts).to(where, kind)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self.batch = torch.randn(BATCH, WIDTH, device=where, dtype=kind)
        self.count, self.graph = 0, None
        if "STROBE_GPU_GRAPHS" in os.environ and self.cuda:
            self.capture_graph()

    def capture_graph(self):
        """As PyTorch's documentation says: warms up on a stream of its own, then captures a whole step."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.model(self.batch).float().square().mean().backward()
            self.optimizer.step()
        self.graph = graph

    def compute(self):
        self.optimizer.zero_grad()
        self.model(self.batch).float().square().mean().backward()
        self.optimizer.step()

    def step(self):
        if self.graph:
            self.graph.replay()
        else:
            self.compute()
        if self.fake:
            self.fake.step()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def start_own(self, folder):
        kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * self.cuda
        self.profile = torch.profiler.profile(activities=kinds)
        self.profile.__enter__()

    def stop_own(self, folder):
        self.profile.__exit__(None, None, None)
        os.makedirs(folder, exist_ok=True)
        self.count += 1
        self.profile.export_chrome_trace(f"{folder}/{self.count}.pt.trace.json")


if __name__ == "__main__":
    serve(Trainer())
