"""Runs an ONNX model with ONNX Runtime or OpenVINO, and times its steps.

    contestant.py onnxruntime|openvino MODEL.onnx INPUTS.npz OUTPUTS.npz THREADS WARMUP STEPS

Prints one JSON document: the time of each step in microseconds. A process of its own, so that its
peak memory is that of one engine and one model.
"""

import json
import sys
import time

import numpy as np


def onnxruntime_step(model, inputs, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def openvino_step(model, inputs, threads):
    import openvino as ov

    compiled = ov.Core().compile_model(
        model,
        "CPU",
        {
            "INFERENCE_PRECISION_HINT": "f32",
            "EXECUTION_MODE_HINT": "ACCURACY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # the whole process is pinned
        },
    )
    request = compiled.create_infer_request()
    shared = {name: ov.Tensor(value, shared_memory=True) for name, value in inputs.items()}

    def step():
        request.infer(shared, share_outputs=True)
        return [request.get_output_tensor(i).data for i in range(len(compiled.outputs))]

    return step


def main():
    runtime, model, inputs_file, outputs_file, threads, warmup, steps = sys.argv[1:]
    with np.load(inputs_file) as archive:
        inputs = {name: np.ascontiguousarray(archive[name]) for name in archive.files}
    make = {"onnxruntime": onnxruntime_step, "openvino": openvino_step}[runtime]
    step = make(model, inputs, int(threads))
    for _ in range(int(warmup)):
        step()
    times = []
    for _ in range(int(steps)):
        start = time.perf_counter_ns()
        outputs = step()
        times.append((time.perf_counter_ns() - start) / 1e3)
    np.savez(outputs_file, *[np.array(output) for output in outputs])
    json.dump({"step_us": times}, sys.stdout)


main()
