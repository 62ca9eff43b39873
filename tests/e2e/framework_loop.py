"""A JAX or TensorFlow training loop that knows nothing of Strobe: framework_loop.py FRAMEWORK NOTES ORDERS [PAUSE]. See torch_loop.py.

FRAMEWORK is jax, tensorflow, or bare-tensorflow, which does not even import Strobe's package.
"""

import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
framework, notes_path, orders = sys.argv[1:4]
pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.001
loop = os.environ.get("LOOP", "train")  # The name of the steps' annotation.
if framework == "jax":
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(lambda x: jnp.tanh(x @ x))
    state = jnp.ones((64, 64))

    def train(number):
        global state
        with jax.profiler.StepTraceAnnotation(loop, step_num=number):
            state = compiled(state).block_until_ready()
else:
    if framework == "tensorflow":
        import strobe  # noqa: F401 - Nothing else is done with it.
    import tensorflow as tf

    compiled = tf.function(lambda x: tf.tanh(x @ x))
    state = tf.ones((64, 64))

    def train(number):
        global state
        with tf.profiler.experimental.Trace(loop, step_num=number):
            state = compiled(state)

train(-1)
notes = open(notes_path, "w", buffering=1)
print("ready", flush=True)
step = 0
parent = os.getppid()
while os.getppid() == parent:
    begin = time.time_ns()
    train(step)
    notes.write(f"{step} {begin} {time.time_ns()}\n")
    step += 1
    time.sleep(pause)
    if os.path.exists(orders):
        with open(orders) as file:
            code = file.read()
        exec(code, globals())
        os.unlink(orders)
        print("did it", flush=True)
