"""Trains an ONNX model with JAX, and times its steps.

    jax_step.py MODEL.onnx LOSS OUTPUT INPUTS.npz GRADIENTS.npz THREADS WARMUP STEPS

LOSS is softmax-cross-entropy (of OUTPUT, or of what goes into its Softmax; classes last) or mse; INPUTS.npz
has the model's inputs and `labels` or `target`. A step is forward, backward and Adam, as one
compiled program that updates its arrays in place. Writes the loss and the gradients at the first
weights, and prints one JSON document: the time of each step in microseconds.
"""

import json
import os
import sys
import time

threads = int(sys.argv[6])
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}")

import jax  # noqa: E402  (reads the variables above)
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax_model import JaxModel  # noqa: E402

RATE, BETA1, BETA2, EPSILON = 1e-4, 0.9, 0.999, 1e-8


def loss_of(model, kind, output):
    producer = {name: node for node, _ in model.nodes for name in node.output}
    if kind == "softmax-cross-entropy" and producer[output].op_type == "Softmax":
        output = producer[output].input[0]

    def loss(weights, inputs):
        value = model(weights, inputs)[output]
        if kind == "mse":
            return jnp.square(value - inputs["target"]).mean()
        chosen = jnp.take_along_axis(jax.nn.log_softmax(value), inputs["labels"][..., None], -1)
        return -chosen.mean()

    return loss


def adam_step(loss):
    def step(weights, first, second, count, inputs):
        value, gradients = jax.value_and_grad(loss)(weights, inputs)
        count = count + 1
        rate = RATE * jnp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
        first = {n: BETA1 * first[n] + (1 - BETA1) * g for n, g in gradients.items()}
        second = {n: BETA2 * second[n] + (1 - BETA2) * g * g for n, g in gradients.items()}
        weights = {
            n: w - rate * first[n] / (jnp.sqrt(second[n]) + EPSILON) for n, w in weights.items()
        }
        return weights, first, second, count, value

    return jax.jit(step, donate_argnums=(0, 1, 2, 3))


def main():
    path, kind, output, inputs_file, gradients_file, _, warmup, steps = sys.argv[1:]
    model = JaxModel(path)
    with np.load(inputs_file) as archive:
        inputs = {name: jnp.asarray(archive[name]) for name in archive.files}
    loss = loss_of(model, kind, output)
    weights = {name: jnp.asarray(value) for name, value in model.weights.items()}
    value, gradients = jax.jit(jax.value_and_grad(loss))(weights, inputs)
    np.savez(gradients_file, **{"/loss": value, **{f"g/{n}": g for n, g in gradients.items()}})
    del gradients

    step = adam_step(loss)
    state = (
        weights,
        {n: jnp.zeros_like(w) for n, w in weights.items()},
        {n: jnp.zeros_like(w) for n, w in weights.items()},
        jnp.float32(0),
    )
    times = []
    for i in range(int(warmup) + int(steps)):
        start = time.perf_counter()
        *state, value = step(*state, inputs)
        jax.block_until_ready((state, value))
        if i >= int(warmup):
            times.append((time.perf_counter() - start) * 1e6)
    print(json.dumps({"step_us": times}))


if __name__ == "__main__":
    main()
