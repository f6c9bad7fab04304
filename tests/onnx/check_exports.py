"""Runs exported models on ONNX Runtime and compares with what Millrace's reference kernels give.

    MILLRACE_EXPORT_FOLDER=build/onnx_exports build/release/tests/onnx_test \
        --gtest_filter=OnnxRoundTrip.EveryCaseOfEveryOp
    build/onnx_models/venv/bin/python tests/onnx/check_exports.py build/onnx_exports

Per op: models that agree, that ONNX Runtime has no kernel for (it lacks many types), that it refuses
to load, and that differ. Exits with 1 when one is refused or differs for no reason listed below.
"""

import collections
import glob
import os
import sys

import numpy as np
import onnxruntime


# Where the two part ways, by the beginning of the case's name.
EMPTY = "final states of an empty sequence are 0 there, the initial states here"
BATCH_FIRST = "layout = 1 is not supported there"
EXPLAINED = {
    "AveragePool_count_include_pad_dilations": "dilations are not supported there",
    "AveragePool_dilations": "dilations are not supported there",
    "ConvTranspose": "output sizes that no convolution would take back are refused or cut there",
    "GRU_direction_layout_f64_6": BATCH_FIRST,
    "GRU": EMPTY,
    "GlobalMaxPool": "at most 3 spatial dims there",
    "LRN": "rank 4 only there",
    "LSTM_clip": "the cell state is not clipped before its activation there; " + EMPTY,
    "LSTM_direction_layout_f64_6": BATCH_FIRST,
    "LSTM": EMPTY,
    "LpPool_dilations": "dilations are not supported there",
    "Mod_i64": "division by zero is an error there, 0 here",
    "OneHot": "indices of rank 0 are refused there",
    "Pad_mode": "wrapping with negative pads cuts first there",
    "RNN_direction_layout_f64_6": BATCH_FIRST,
    "RNN": EMPTY,
    "Slice_f64___": "scalars are refused there",
    "TopK_axis_largest_sorted": "not sorted: any order is right",
}


def run(case):
    """"agrees", "no kernel", or what is wrong."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(f"{case}/model.onnx", options)
    except Exception as error:
        text = str(error)
        if "NOT_IMPLEMENTED" in text or "Could not find an implementation" in text:
            return "no kernel", ""
        return "refused", text
    inputs = {i.name: np.load(f"{case}/{i.name}.npy") for i in session.get_inputs()}
    try:
        outputs = session.run(None, inputs)
    except Exception as error:
        return "refused", str(error)
    for i, actual in enumerate(outputs):
        expected = np.load(f"{case}/output_{i}.npy")
        if actual.dtype != expected.dtype or actual.shape != expected.shape:
            return "differs", f"output {i}: {actual.dtype}{actual.shape} for {expected.dtype}{expected.shape}"
        if not np.allclose(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
            return "differs", f"output {i}: {actual.ravel()[:8]} for {expected.ravel()[:8]}"
    return "agrees", ""


def main(folder):
    counts = collections.defaultdict(collections.Counter)
    wrong = 0
    for case in sorted(glob.glob(f"{folder}/*/")):
        name = os.path.basename(case.rstrip("/"))
        verdict, detail = run(case)
        counts[name.split("_")[0]][verdict] += 1
        if verdict in ("refused", "differs"):
            reasons = [why for prefix, why in EXPLAINED.items() if name.startswith(prefix)]
            wrong += not reasons
            print(f"{name}: {verdict}: {reasons[0] if reasons else detail[:300]}")
    verdicts = ["agrees", "no kernel", "refused", "differs"]
    print(f"{'op':28}" + "".join(f"{v:>12}" for v in verdicts))
    for op, count in sorted(counts.items()):
        print(f"{op:28}" + "".join(f"{count[v] or '':>12}" for v in verdicts))
    print(f"{'all':28}" + "".join(f"{sum(c[v] for c in counts.values()):>12}" for v in verdicts))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
