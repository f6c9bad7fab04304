#!/usr/bin/env python3
"""Training steps of Millrace beside JAX's, on models of the zoo.

    bench/peers/setup.sh
    build/peers/venv/bin/python bench/peers/train.py --models mlp,lenet,resnet18 --threads 1,2

Both train the same graph from the same weights on the same batch with Adam in f32, on the same
cores, taking turns in fresh processes. Before that, the gradients of all weights at the start are
compared: reported is the largest difference over the largest gradient of that weight, of the worst
weight; gradients that are nothing but rounding (below 1e-4 of the largest of all) count as of that
size. Prints a Markdown table; --json FILE writes everything that was measured.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from compare import ROOT, check_output, geometric_mean, run_pinned

# Model: settings, loss.
MODELS = {
    "mlp": ({"batch": 64}, "softmax-cross-entropy"),
    "lenet": ({"batch": 64}, "softmax-cross-entropy"),
    "resnet18": ({"batch": 8}, "softmax-cross-entropy"),
    "resnet50": ({"batch": 8}, "softmax-cross-entropy"),
    "lstm": ({"batch": 8}, "mse"),
    "bert-base": ({"batch": 1}, "mse"),
    "gpt2": ({"batch": 1}, "softmax-cross-entropy"),
    "vit-b-16": ({"batch": 2}, "softmax-cross-entropy"),
}
DEFAULT_MODELS = "mlp,lenet,resnet18,resnet50,lstm,bert-base,gpt2"


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=DEFAULT_MODELS, help="names, comma separated")
    parser.add_argument("--threads", default="1", help="numbers, comma separated")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument("--steps", type=int, default=10, help="timed, of a turn")
    parser.add_argument("--millrace", default=str(ROOT / "build/release/millrace"))
    parser.add_argument("--json", metavar="FILE", help="write all that was measured here")
    arguments = parser.parse_args()
    unknown = set(arguments.models.split(",")) - MODELS.keys()
    if unknown:
        parser.error(f"--models: no such model here: {', '.join(sorted(unknown))}")
    return arguments


class Case:
    """A model ready to train: its step as a graph, its ONNX file, one batch for both."""

    def __init__(self, arguments, folder, model):
        self.folder, self.millrace = folder, arguments.millrace
        folder.mkdir()
        settings, self.loss = MODELS[model]
        graph, self.onnx, self.step = (folder / f for f in ("model.json", "model.onnx", "step.json"))
        options = [f"--set={name}={value}" for name, value in settings.items()]
        check_output([self.millrace, "model", model, *options, "-o", graph])
        check_output([self.millrace, "export", graph, "--to", "onnx", "-o", self.onnx])
        summary = json.loads(check_output([self.millrace, "inspect", graph, "--json"]))
        self.output = summary["outputs"][0]["name"]
        self.make_batch(summary)
        data = [option for name, file in self.files.items() for option in ("--data", f"{name}=@{file}")]
        check_output([self.millrace, "train", graph, *data, "--loss", self.loss, "--optimizer", "adam",
                      "--lr", "1e-4", "--step-graph", self.step])
        self.inputs = [o for n, f in self.files.items() for o in ("--input", f"{n}=@{f}")]

    def make_batch(self, summary):
        random = np.random.default_rng(seed=1)
        arrays = {}
        for value in summary["inputs"]:
            if value["dtype"] == "f32":
                arrays[value["name"]] = random.standard_normal(value["shape"], dtype=np.float32)
            else:
                arrays[value["name"]] = random.integers(0, 2, value["shape"])
        shape = summary["outputs"][0]["shape"]
        if self.loss == "mse":
            arrays["target"] = random.standard_normal(shape, dtype=np.float32)
        else:
            arrays["labels"] = random.integers(0, shape[-1], shape[:-1])
        self.files = {}
        for i, (name, array) in enumerate(arrays.items()):
            self.files[name] = self.folder / f"batch{i}.npy"
            np.save(self.files[name], array)
        self.batch = self.folder / "batch.npz"
        np.savez(self.batch, **arrays)

    def our_gradients(self):
        """The step, with what its optimizer nodes read as outputs."""
        graph = json.loads(self.step.read_text())
        read = {node["inputs"][0]: node["inputs"][1] for node in graph["nodes"]
                if node["op"].startswith("optim.")}
        graph["outputs"] += sorted(set(read.values()) - set(graph["outputs"]))
        file = self.folder / "gradients.json"
        file.write_text(json.dumps(graph))
        outputs, files = [], {}
        for i, (weight, gradient) in enumerate(read.items()):
            files[weight] = self.folder / f"gradient{i}.npy"
            outputs += ["--output", f"{gradient}=@{files[weight]}"]
        check_output([self.millrace, "run", file, *self.inputs, *outputs])
        return {weight: np.load(path) for weight, path in files.items()}

    def turn(self, engine, threads, steps):
        """Times of steps in microseconds, and peak memory."""
        if engine == "millrace":
            command = [self.millrace, "run", self.step, *self.inputs, "--threads", threads,
                       "--warmup", 2, "--iterations", steps, "--json"]
            report, memory = run_pinned(command, threads)
            return report["step_us"]["all"], memory
        command = [sys.executable, Path(__file__).with_name("jax_step.py"), self.onnx, self.loss,
                   self.output, self.batch, self.folder / "jax.npz", threads, 2, steps]
        report, memory = run_pinned(command, threads)
        return report["step_us"], memory

    def worst_gradient(self):
        """Largest difference over the largest gradient of that weight, and which weight it is."""
        worst = (0.0, "")
        with np.load(self.folder / "jax.npz") as theirs:
            largest = max(float(np.abs(theirs[name]).max()) for name in theirs if name != "/loss")
            for weight, ours in self.our_gradients().items():
                reference = theirs[f"g/{weight}"].astype(np.float64)
                scale = max(float(np.abs(reference).max()), 1e-4 * largest)
                error = float(np.abs(ours - reference).max() / scale)
                worst = max(worst, (error if np.isfinite(error) else np.inf, weight))
        return worst


def measure(case, threads, arguments):
    engines = ["jax", "millrace"]
    times, memory = ({engine: [] for engine in engines} for _ in range(2))
    for turn in range(arguments.rounds):
        for engine in engines[:: 1 if turn % 2 == 0 else -1]:
            step_us, peak = case.turn(engine, threads, arguments.steps)
            times[engine] += step_us
            memory[engine].append(peak)
    return {
        engine: {"min_us": min(times[engine]), "median_us": statistics.median(times[engine]),
                 "peak_bytes": max(memory[engine])}
        for engine in engines
    }


def table_row(row):
    ours, theirs = row["millrace"], row["jax"]
    cells = [row["model"], str(row["threads"])]
    cells += [f"{each['min_us'] / 1e3:.4g} ({each['median_us'] / 1e3:.4g})" for each in (ours, theirs)]
    cells += [f"{theirs['min_us'] / ours['min_us']:.2f}", f"{row['gradient_error']:.1e}"]
    cells.append(f"{ours['peak_bytes'] / 2**20:.0f} / {theirs['peak_bytes'] / 2**20:.0f}")
    return "| " + " | ".join(cells) + " |"


def main():
    arguments = parse_arguments()
    print("| Model | Threads | millrace, ms: min (median) | jax, ms: min (median) | faster than jax |"
          " gradients | peak MiB: millrace / jax |")
    print("| --- |" + " ---: |" * 6, flush=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="millrace-peers-") as folder:
        for model in arguments.models.split(","):
            case = Case(arguments, Path(folder) / model, model)
            for threads in map(int, arguments.threads.split(",")):
                row = {"model": model, "threads": threads, **measure(case, threads, arguments)}
                row["gradient_error"], row["worst_gradient"] = case.worst_gradient()
                rows.append(row)
                print(table_row(row), flush=True)
    mean = geometric_mean([row["jax"]["min_us"] / row["millrace"]["min_us"] for row in rows])
    print(f"\nGeometric mean, faster than jax: {mean:.3f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"rows": rows, "faster_than_jax": mean}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, subprocess.SubprocessError) as error:
        sys.exit(f"train: {error}")
