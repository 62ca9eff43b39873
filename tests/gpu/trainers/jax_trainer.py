"""Trains a model by JAX at the command of trainer_loop.py."""

import os

import jax
import jax.numpy as jnp
from rehearsal import FakeWork
from trainer_loop import serve

LAYERS, WIDTH, BATCH = (int(part) for part in os.environ.get("STROBE_GPU_MODEL", "8,4096,2048").split(","))


def loss(weights, batch):
    for weight in weights:
        batch = jnp.tanh(batch @ weight)
    return jnp.mean(jnp.square(batch.astype(jnp.float32)))


@jax.jit
def update(weights, batch):
    return [weight - 0.001 * gradient for weight, gradient in zip(weights, jax.grad(loss)(weights, batch))]


class Trainer:
    def __init__(self):
        device = jax.devices()[0]
        self.fake = None
        if "STROBE_GPU_REHEARSAL" in os.environ:
            self.fake = FakeWork(5)
        elif device.platform not in ("gpu", "cuda"):
            raise SystemExit(f"JAX has no GPU here, only {device.platform}")
        self.device = f"jax {jax.__version__} on {device.device_kind}"
        keys = jax.random.split(jax.random.PRNGKey(0), LAYERS + 1)
        self.weights = [jax.random.normal(key, (WIDTH, WIDTH), jnp.bfloat16) / WIDTH ** 0.5 for key in keys[1:]]
        self.batch = jax.random.normal(keys[0], (BATCH, WIDTH), jnp.bfloat16)
        self.number = 0

    def step(self):
        with jax.profiler.StepTraceAnnotation("train", step_num=self.number):
            self.weights = update(self.weights, self.batch)
        self.number += 1
        if self.fake:
            self.fake.step()

    def wait(self):
        jax.block_until_ready(self.weights)

    def start_own(self, folder):
        jax.profiler.start_trace(folder)

    def stop_own(self, folder):
        jax.profiler.stop_trace()


if __name__ == "__main__":
    serve(Trainer())
