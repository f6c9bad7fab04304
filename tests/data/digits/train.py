#!/usr/bin/env python3
"""Trains the digits CNN with NumPy alone and writes digits.json and digits.safetensors beside this file.

Data: digits.csv.gz (see README.md). Rows with index % 5 == 4 are held out: they are never trained on,
and nothing (epoch, rate, seed) was chosen by looking at them. The rest is augmented by small random
affine maps. The numbers repeat with the same NumPy and BLAS; with others they differ by rounding.

    python3 -m venv /path/to/venv && /path/to/venv/bin/pip install numpy
    /path/to/venv/bin/python tests/data/digits/train.py
"""

import csv
import gzip
import hashlib
import json
import pathlib
import struct

import numpy as np

SEED = 1
EPOCHS = 60
BATCH = 64
PEAK_RATE = 3e-3
WEIGHT_DECAY = 1e-4
DROPOUT = 0.3
FOLDER = pathlib.Path(__file__).resolve().parent


def load():
    """Images f32[1797,1,8,8] with pixels 0 to 16, and labels i64[1797]."""
    with gzip.open(FOLDER / "digits.csv.gz", "rt") as f:
        rows = np.array([[int(x) for x in row] for row in csv.reader(f)])
    return rows[:, :64].reshape(-1, 1, 8, 8).astype(np.float32), rows[:, 64]


def augment(images, rng):
    """Each image turned, sheared, scaled and shifted a little, with bilinear sampling."""
    n = len(images)
    angle = rng.uniform(-0.22, 0.22, n)
    scale = rng.uniform(0.88, 1.12, (2, n))
    shear = rng.uniform(-0.18, 0.18, n)
    shift = rng.uniform(-0.8, 0.8, (2, n))
    cos, sin = np.cos(angle), np.sin(angle)
    y, x = np.mgrid[0:8, 0:8] - 3.5
    sy = (cos * scale[0])[:, None, None] * y + (-sin + shear)[:, None, None] * x
    sx = sin[:, None, None] * y + (cos * scale[1])[:, None, None] * x
    sy += 3.5 + shift[0][:, None, None]
    sx += 3.5 + shift[1][:, None, None]
    y0, x0 = np.floor(sy).astype(int), np.floor(sx).astype(int)
    fy, fx = sy - y0, sx - x0
    padded = np.pad(images[:, 0], ((0, 0), (3, 4), (3, 4)))
    i = np.arange(n)[:, None, None]

    def at(dy, dx):
        return padded[i, np.clip(y0 + dy + 3, 0, 14), np.clip(x0 + dx + 3, 0, 14)]

    out = ((1 - fy) * ((1 - fx) * at(0, 0) + fx * at(0, 1))
           + fy * ((1 - fx) * at(1, 0) + fx * at(1, 1)))
    return out[:, None].astype(np.float32)


def patches(x):
    """3x3 patches with one pixel of zero padding: [N,C,H,W] -> [N*H*W, C*9]."""
    n, c, h, w = x.shape
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)


def unpatches(g, shape):
    """The transpose of patches."""
    n, c, h, w = shape
    g = g.reshape(n, h, w, c, 3, 3)
    out = np.zeros((n, c, h + 2, w + 2), g.dtype)
    for dy in range(3):
        for dx in range(3):
            out[:, :, dy:dy + h, dx:dx + w] += g[..., dy, dx].transpose(0, 3, 1, 2)
    return out[:, :, 1:-1, 1:-1]


def conv(x, w, b):
    n, _, h, width = x.shape
    p = patches(x)
    y = p @ w.reshape(len(w), -1).T + b
    return y.reshape(n, h, width, len(w)).transpose(0, 3, 1, 2), p


def conv_backward(g, p, w, x_shape):
    g = g.transpose(0, 2, 3, 1).reshape(-1, len(w))
    return (unpatches(g @ w.reshape(len(w), -1), x_shape),
            (g.T @ p).reshape(w.shape), g.sum(0))


def max_pool(x):
    n, c, h, w = x.shape
    windows = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = windows.max(axis=(3, 5))
    first = windows == y[:, :, :, None, :, None]
    return y, first / first.sum(axis=(3, 5), keepdims=True)


def forward(p, images, rng=None):
    """Logits and what backward needs. Dropout only with `rng`."""
    x = images / 16
    a1, p1 = conv(x, p["conv1.weight"], p["conv1.bias"])
    r1 = np.maximum(a1, 0)
    a2, p2 = conv(r1, p["conv2.weight"], p["conv2.bias"])
    r2 = np.maximum(a2, 0)
    pooled, share = max_pool(r2)
    flat = pooled.reshape(len(x), -1)
    a3 = flat @ p["fc1.weight"] + p["fc1.bias"]
    keep = 1.0 if rng is None else (
        (rng.random(a3.shape) >= DROPOUT) / (1 - DROPOUT)).astype(np.float32)
    h = np.maximum(a3, 0) * keep
    logits = h @ p["fc2.weight"] + p["fc2.bias"]
    return logits, (x, a1, p1, r1, a2, p2, pooled, share, flat, a3, keep, h)


def backward(p, cache, g):
    x, a1, p1, r1, a2, p2, pooled, share, flat, a3, keep, h = cache
    grads = {"fc2.weight": h.T @ g, "fc2.bias": g.sum(0)}
    g = (g @ p["fc2.weight"].T) * keep * (a3 > 0)
    grads |= {"fc1.weight": flat.T @ g, "fc1.bias": g.sum(0)}
    g = (g @ p["fc1.weight"].T).reshape(pooled.shape)
    g = (share * g[:, :, :, None, :, None]).reshape(a2.shape) * (a2 > 0)
    g, grads["conv2.weight"], grads["conv2.bias"] = conv_backward(
        g.astype(np.float32), p2, p["conv2.weight"], r1.shape)
    _, grads["conv1.weight"], grads["conv1.bias"] = conv_backward(
        g * (a1 > 0), p1, p["conv1.weight"], x.shape)
    return grads


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def train(images, labels):
    rng = np.random.default_rng(SEED)

    def he(*shape, fan_in):
        return (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)

    p = {"conv1.weight": he(16, 1, 3, 3, fan_in=9),
         "conv2.weight": he(32, 16, 3, 3, fan_in=144),
         "fc1.weight": he(512, 64, fan_in=512),
         "fc2.weight": he(64, 10, fan_in=64)}
    for name, size in [("conv1", 16), ("conv2", 32), ("fc1", 64), ("fc2", 10)]:
        p[name + ".bias"] = np.zeros(size, np.float32)
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(w) for k, w in p.items()}
    average = {k: w.copy() for k, w in p.items()}  # of the weights, over the last steps
    steps = EPOCHS * -(-len(images) // BATCH)
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        loss = 0.0
        for begin in range(0, len(order), BATCH):
            batch = order[begin:begin + BATCH]
            logits, cache = forward(p, augment(images[batch], rng), rng)
            g = softmax(logits)
            picked = (np.arange(len(batch)), labels[batch])
            loss -= np.log(g[picked] + 1e-12).sum()
            g[picked] -= 1
            grads = backward(p, cache, (g / len(batch)).astype(np.float32))
            step += 1
            # Adam with decoupled decay; the rate rises over the first tenth, then follows a cosine.
            t = step / steps
            rate = PEAK_RATE * (t / 0.1 if t < 0.1 else 0.5 + 0.5 * np.cos(np.pi * (t - 0.1) / 0.9))
            for k in p:
                m[k] += 0.1 * (grads[k] - m[k])
                v[k] += 0.001 * (grads[k] ** 2 - v[k])
                update = (m[k] / (1 - 0.9 ** step)) / (np.sqrt(v[k] / (1 - 0.999 ** step)) + 1e-8)
                p[k] -= (rate * (update + WEIGHT_DECAY * p[k])).astype(np.float32)
                average[k] += np.float32(0.01) * (p[k] - average[k])
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss / len(order):.4f}")
    return average


def write_safetensors(path, tensors):
    header, begin = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [begin, begin + t.nbytes]}
        begin += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text
                     + b"".join(t.astype("<f4").tobytes() for t in tensors.values()))


def graph(p, accuracy, sha256):
    def param(name):
        return {"name": name, "type": {"dtype": "f32", "shape": list(p[name].shape)},
                "data": {"file": "w", "tensor": name}, "trainable": True}

    def node(name, op, inputs, attrs=None, output=None):
        n = {"name": name, "op": op, "inputs": inputs, "outputs": [output or name]}
        return n | ({"attrs": attrs} if attrs else {})

    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return {
        "format": "millrace-graph", "version": "1.0", "name": "digits",
        "producer": {"name": "tests/data/digits/train.py", "seed": SEED},
        "x-held-out-accuracy": round(accuracy, 4),
        "opset": {"core": 17},
        "symbols": {"N": {"min": 1, "max": 65536, "default": 1797}},
        "weights": {"w": {"path": "digits.safetensors", "sha256": sha256}},
        "inputs": [{"name": "image", "type": {"dtype": "f32", "shape": ["N", 1, 8, 8]},
                    "doc": "pixels from 0 (white) to 16 (black)"}],
        "params": [param(k) for k in p],
        "constants": [{"name": "scale", "type": {"dtype": "f32", "shape": []},
                       "data": {"splat": 0.0625}}],
        "nodes": [
            node("normalize", "Mul", ["image", "scale"]),
            node("conv1", "Conv", ["normalize", "conv1.weight", "conv1.bias"], same),
            node("relu1", "Relu", ["conv1"]),
            node("conv2", "Conv", ["relu1", "conv2.weight", "conv2.bias"], same),
            node("relu2", "Relu", ["conv2"]),
            node("pool", "MaxPool", ["relu2"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
            node("flatten", "Flatten", ["pool"], {"axis": 1}),
            node("fc1", "Gemm", ["flatten", "fc1.weight", "fc1.bias"]),
            node("relu3", "Relu", ["fc1"]),
            node("fc2", "Gemm", ["relu3", "fc2.weight", "fc2.bias"], output="logits"),
            node("softmax", "Softmax", ["logits"], {"axis": 1}, output="probabilities"),
        ],
        "outputs": ["probabilities"],
    }


def write_graph(path, g):
    """JSON with one value or node a line."""
    lines = []
    for key, item in g.items():
        text = json.dumps(item)
        if key in ("inputs", "params", "constants", "nodes"):
            text = "[\n" + ",\n".join("    " + json.dumps(x) for x in item) + "\n  ]"
        lines.append(f"  {json.dumps(key)}: {text}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    images, labels = load()
    held_out = np.arange(len(images)) % 5 == 4
    p = train(images[~held_out], labels[~held_out])
    right = forward(p, images)[0].argmax(axis=1) == labels
    print(f"held-out accuracy {right[held_out].mean():.4f} ({right[held_out].sum()} of "
          f"{held_out.sum()}), all {right.mean():.4f} ({right.sum()} of {len(right)})")
    names = ["conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
             "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    p = {k: p[k] for k in names}
    weights = FOLDER / "digits.safetensors"
    write_safetensors(weights, p)
    sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
    write_graph(FOLDER / "digits.json", graph(p, right[held_out].mean(), sha256))


if __name__ == "__main__":
    main()
