"""ONNX models as JAX functions: enough operators to train the models of the zoo, written for what
XLA is good at (its own convolution, windows and dot products), not translated line by line.

    model = JaxModel("resnet50.onnx")
    outputs = model(model.weights, {"image": array})     # by name; BatchNormalization as in training
"""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from onnx import numpy_helper


def pads_of(attrs, spatial):
    pads = attrs.get("pads", [0] * 2 * spatial)
    return list(zip(pads[:spatial], pads[spatial:]))


def conv(attrs, x, w, b=None):
    spatial = w.ndim - 2
    y = lax.conv_general_dilated(
        x, w,
        window_strides=attrs.get("strides", [1] * spatial),
        padding=pads_of(attrs, spatial),
        rhs_dilation=attrs.get("dilations", [1] * spatial),
        feature_group_count=attrs.get("group", 1),
    )
    return y if b is None else y + b.reshape((1, -1) + (1,) * spatial)


def window(attrs, x, initial, operation):
    spatial = x.ndim - 2
    return lax.reduce_window(
        x, initial, operation,
        (1, 1, *attrs["kernel_shape"]),
        (1, 1, *attrs.get("strides", [1] * spatial)),
        [(0, 0), (0, 0), *pads_of(attrs, spatial)],
    )


def max_pool(attrs, x):
    return window(attrs, x, -jnp.inf, lax.max)


def average_pool(attrs, x):
    total = window(attrs, x, 0.0, lax.add)
    if attrs.get("count_include_pad", 0):
        return total / np.prod(attrs["kernel_shape"])
    return total / window(attrs, jnp.ones_like(x), 0.0, lax.add)


def batch_normalization(attrs, x, scale, bias, mean, variance):
    axes = (0, *range(2, x.ndim))
    shape = (1, -1) + (1,) * (x.ndim - 2)
    mean = x.mean(axes).reshape(shape)
    variance = jnp.square(x - mean).mean(axes).reshape(shape)
    normal = (x - mean) * lax.rsqrt(variance + attrs.get("epsilon", 1e-5))
    return normal * scale.reshape(shape) + bias.reshape(shape)


def layer_normalization(attrs, x, scale, bias=None):
    axes = tuple(range(attrs.get("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    y = (x - mean) * lax.rsqrt(variance + attrs.get("epsilon", 1e-5)) * scale
    return y if bias is None else y + bias


def gemm(attrs, a, b, c=None):
    a = a.T if attrs.get("transA", 0) else a
    b = b.T if attrs.get("transB", 0) else b
    y = attrs.get("alpha", 1.0) * (a @ b)
    return y if c is None else y + attrs.get("beta", 1.0) * c


def lstm(attrs, x, w, r, bias=None, lengths=None, h=None, c=None):
    """Forward, default activations; x [time, batch, in]. All input products are one product."""
    hidden = r.shape[2]
    gates = jnp.einsum("tbi,gi->tbg", x, w[0])
    if bias is not None:
        gates = gates + bias[0, : 4 * hidden] + bias[0, 4 * hidden :]
    zero = jnp.zeros((x.shape[1], hidden), x.dtype)
    start = (zero if h is None else h[0], zero if c is None else c[0])

    def step(state, gate):
        i, o, f, g = jnp.split(gate + state[0] @ r[0].T, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        output = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (output, cell), output

    (last_h, last_c), outputs = lax.scan(step, start, gates)
    return outputs[:, None], last_h[None], last_c[None]


def reshape(attrs, x, shape):
    dims = [x.shape[i] if d == 0 and not attrs.get("allowzero", 0) else int(d)
            for i, d in enumerate(np.asarray(shape))]
    return x.reshape(dims)


def split(attrs, x, sizes=None, count=1):
    axis = attrs.get("axis", 0)
    if sizes is None:
        return tuple(jnp.split(x, count, axis))
    return tuple(jnp.split(x, np.cumsum(np.asarray(sizes))[:-1], axis))


def squeeze(attrs, x, axes):
    return jnp.squeeze(x, tuple(int(a) for a in np.asarray(axes)))


def unsqueeze(attrs, x, axes):
    return jnp.expand_dims(x, tuple(int(a) for a in np.asarray(axes)))


def flatten(attrs, x):
    axis = attrs.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def gelu(attrs, x):
    return jax.nn.gelu(x, approximate=attrs.get("approximate", b"none") == b"tanh")


def clip(attrs, x, low=None, high=None):
    return jnp.clip(x, low, high)


def cast(attrs, x):
    return x.astype(onnx.helper.tensor_dtype_to_np_dtype(attrs["to"]))


OPERATORS = {
    "Add": lambda attrs, a, b: a + b,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "Clip": clip,
    "Concat": lambda attrs, *x: jnp.concatenate(x, attrs["axis"]),
    "Conv": conv,
    "Div": lambda attrs, a, b: a / b,
    "Expand": lambda attrs, x, shape: jnp.broadcast_to(x, tuple(int(d) for d in np.asarray(shape))),
    "Flatten": flatten,
    "Gather": lambda attrs, x, i: jnp.take(x, i, attrs.get("axis", 0)),
    "Gelu": gelu,
    "Gemm": gemm,
    "GlobalAveragePool": lambda attrs, x: x.mean(tuple(range(2, x.ndim)), keepdims=True),
    "LSTM": lstm,
    "LayerNormalization": layer_normalization,
    "LessOrEqual": lambda attrs, a, b: a <= b,
    "MatMul": lambda attrs, a, b: a @ b,
    "MaxPool": max_pool,
    "Mul": lambda attrs, a, b: a * b,
    "Relu": lambda attrs, x: jax.nn.relu(x),
    "Reshape": reshape,
    "Sigmoid": lambda attrs, x: jax.nn.sigmoid(x),
    "Softmax": lambda attrs, x: jax.nn.softmax(x, attrs.get("axis", -1)),
    "Split": split,
    "Squeeze": squeeze,
    "Sub": lambda attrs, a, b: a - b,
    "Tanh": lambda attrs, x: jnp.tanh(x),
    "Transpose": lambda attrs, x: jnp.transpose(x, attrs.get("perm")),
    "Unsqueeze": unsqueeze,
    "Where": lambda attrs, c, a, b: jnp.where(c, a, b),
}


class JaxModel:
    def __init__(self, path):
        self.graph = onnx.load(path).graph
        tensors = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Constant":
                tensors[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        # What is drawn or learned is trained; shapes, axes and single numbers are not.
        self.weights = {n: t for n, t in tensors.items() if t.dtype == np.float32 and t.ndim > 0}
        self.constants = {n: t for n, t in tensors.items() if n not in self.weights}
        self.nodes = [
            (node, {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
            for node in self.graph.node if node.op_type != "Constant"
        ]
        unknown = sorted({node.op_type for node, _ in self.nodes} - OPERATORS.keys())
        if unknown:
            raise RuntimeError(f"{path}: no JAX function for {', '.join(unknown)}")

    def __call__(self, weights, inputs):
        """All values by name."""
        values = {**self.constants, **weights, **inputs}
        for node, attrs in self.nodes:
            operands = [values[name] if name else None for name in node.input]
            if node.op_type == "Split":
                results = split(attrs, *operands, count=len(node.output))
            else:
                results = OPERATORS[node.op_type](attrs, *operands)
            if not isinstance(results, tuple):
                results = (results,)
            values.update(zip(node.output, results))
        return values
