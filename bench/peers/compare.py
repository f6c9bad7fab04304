#!/usr/bin/env python3
"""Millrace beside ONNX Runtime and OpenVINO (at forced f32) on models of the zoo.

    bench/peers/setup.sh
    build/peers/venv/bin/python bench/peers/compare.py --models resnet50,bert-base --threads 1,2

All get the same graph (written by `millrace model`, for the peers exported as ONNX), the same
inputs, the same cores (taskset). They take turns, round after round, each time in a fresh process;
a round is some untimed steps and then timed ones within the process. Reported are the least and the
median of all timed steps, how far outputs are from ONNX Runtime's (largest difference over largest
value), and the largest resident memory of the processes. Prints a Markdown table; --json FILE
writes everything that was measured.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("millrace", "onnxruntime", "openvino")
DEFAULT_MODELS = "resnet50,mobilenet-v2,inception-v3,densenet121,bert-base,gpt2,vit-b-16,lstm,dlrm"


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=DEFAULT_MODELS, help="names, comma separated")
    parser.add_argument("--set", action="append", default=[], help="a setting of all models")
    parser.add_argument("--threads", default="1", help="numbers, comma separated")
    parser.add_argument("--batch", default="1", help="numbers, comma separated")
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma separated")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timed steps a turn")
    parser.add_argument("--statistic", choices=("min", "median"), default="median",
                        help="which time ratios are of; min on a busy machine")
    parser.add_argument("--millrace", default=str(ROOT / "build/release/millrace"))
    parser.add_argument("--run-option", action="append", default=[],
                        help="passed on to millrace run, such as --run-option=-O3")
    parser.add_argument("--json", metavar="FILE", help="write all that was measured here")
    arguments = parser.parse_args()
    unknown = set(arguments.engines.split(",")) - set(ENGINES)
    if unknown:
        parser.error(f"--engines: no such engine: {', '.join(sorted(unknown))}")
    return arguments


def check_output(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def run_pinned(command, threads):
    """The JSON that a command prints, run on the first `threads` cores, and its peak memory."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(["taskset", "-c", cores, *map(str, command)], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{err.read().strip()}")
        return json.loads(out.read()), usage.ru_maxrss * 1024


class Case:
    """A model at one batch size: its files, and one input for all."""

    def __init__(self, arguments, folder, model, batch):
        self.arguments = arguments
        self.folder = folder / f"{model}-{batch}"
        self.folder.mkdir()
        self.graph, self.onnx = self.folder / "model.json", self.folder / "model.onnx"
        millrace = arguments.millrace
        settings = [f"--set={each}" for each in [f"batch={batch}", *arguments.set]]
        check_output([millrace, "model", model, *settings, "-o", self.graph])
        check_output([millrace, "export", self.graph, "--to", "onnx", "-o", self.onnx])
        summary = json.loads(check_output([millrace, "inspect", self.graph, "--json"]))
        self.output_names = [output["name"] for output in summary["outputs"]]
        self.make_inputs(summary["inputs"])

    def make_inputs(self, inputs):
        random = np.random.default_rng(seed=1)
        arrays = {}
        self.input_options = []
        for i, value in enumerate(inputs):
            if value["dtype"] == "f32":
                array = random.random(value["shape"], dtype=np.float32)
            elif value["dtype"] in ("i64", "i32"):
                array = random.integers(0, 2, value["shape"]).astype("int" + value["dtype"][1:])
            else:
                raise RuntimeError(f"input {value['name']}: no way to make {value['dtype']}")
            arrays[value["name"]] = array
            file = self.folder / f"input{i}.npy"
            np.save(file, array)
            self.input_options += ["--input", f"{value['name']}=@{file}"]
        self.inputs = self.folder / "inputs.npz"
        np.savez(self.inputs, **arrays)

    def turn(self, engine, threads, warmup, steps):
        """Times of steps in microseconds, peak memory, outputs."""
        if engine == "millrace":
            files = [self.folder / f"output{i}.npy" for i in range(len(self.output_names))]
            outputs = [
                option
                for name, file in zip(self.output_names, files)
                for option in ("--output", f"{name}=@{file}")
            ]
            command = [self.arguments.millrace, "run", self.graph, *self.input_options, *outputs,
                       "--threads", threads, "--warmup", warmup, "--iterations", steps, "--json",
                       *self.arguments.run_option]
            report, memory = run_pinned(command, threads)
            return report["step_us"]["all"], memory, [np.load(file) for file in files]
        file = self.folder / f"{engine}.npz"
        command = [sys.executable, Path(__file__).with_name("contestant.py"), engine, self.onnx,
                   self.inputs, file, threads, warmup, steps]
        report, memory = run_pinned(command, threads)
        with np.load(file) as archive:
            return report["step_us"], memory, [archive[name] for name in archive.files]


def largest_error(outputs, expected):
    """Largest difference over largest value; infinite where only one of both is finite."""
    worst = 0.0
    for output, reference in zip(outputs, expected, strict=True):
        output, reference = output.astype(np.float64), reference.astype(np.float64)
        finite = np.isfinite(reference)
        if not np.array_equal(np.isfinite(output), finite):
            return math.inf
        if not np.array_equal(output[~finite], reference[~finite], equal_nan=True):
            return math.inf
        if finite.any():
            scale = np.abs(reference[finite]).max() or 1
            difference = np.abs(output[finite] - reference[finite])
            worst = max(worst, float(difference.max() / scale))
    return worst


def measure(case, engines, threads, arguments):
    # How many steps make a turn is found with the first engine, and is the same for all.
    pilot, _, _ = case.turn(engines[0], threads, 1, 3)
    steps = max(3, min(1000, int(arguments.seconds * 1e6 / min(pilot))))
    times, memory, outputs = ({engine: [] for engine in engines} for _ in range(3))
    for turn in range(arguments.rounds):
        # Each goes first as often as the others do.
        order = engines[turn % len(engines):] + engines[:turn % len(engines)]
        for engine in order:
            step_us, peak, results = case.turn(engine, threads, max(1, steps // 10), steps)
            times[engine] += step_us
            memory[engine].append(peak)
            outputs[engine] = results
    reference = outputs.get("onnxruntime", outputs[engines[0]])
    return {
        engine: {
            "min_us": min(times[engine]),
            "median_us": statistics.median(times[engine]),
            "steps": len(times[engine]),
            "peak_bytes": max(memory[engine]),
            "error": largest_error(outputs[engine], reference),
        }
        for engine in engines
    }


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def table_row(row, engines, statistic):
    results = row["engines"]
    cells = [row["model"], str(row["batch"]), str(row["threads"])]
    for engine in engines:
        result = results[engine]
        cells.append(f"{result['min_us'] / 1e3:.4g} ({result['median_us'] / 1e3:.4g})")
    ours = results.get("millrace")
    if ours:
        for engine in engines:
            if engine != "millrace":
                ratio = results[engine][f"{statistic}_us"] / ours[f"{statistic}_us"]
                cells.append(f"{ratio:.2f}")
        cells.append(f"{ours['error']:.1e}")
    cells.append(" / ".join(f"{results[engine]['peak_bytes'] / 2**20:.0f}" for engine in engines))
    return "| " + " | ".join(cells) + " |"


def print_head(engines):
    columns = ["Model", "Batch", "Threads", *[f"{engine}, ms: min (median)" for engine in engines]]
    if "millrace" in engines:
        columns += [f"faster than {engine}" for engine in engines if engine != "millrace"]
        columns.append("error")
    columns.append("peak MiB: " + " / ".join(engines))
    print("| " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * (len(columns) - 1), flush=True)


def main():
    arguments = parse_arguments()
    engines = arguments.engines.split(",")
    rows = []
    print_head(engines)
    with tempfile.TemporaryDirectory(prefix="millrace-peers-") as folder:
        for model in arguments.models.split(","):
            for batch in map(int, arguments.batch.split(",")):
                case = Case(arguments, Path(folder), model, batch)
                for threads in map(int, arguments.threads.split(",")):
                    results = measure(case, engines, threads, arguments)
                    row = {"model": model, "batch": batch, "threads": threads, "engines": results}
                    rows.append(row)
                    print(table_row(row, engines, arguments.statistic), flush=True)
    summary = {}
    if "millrace" in engines:
        for engine in engines:
            if engine != "millrace":
                key = f"{arguments.statistic}_us"
                summary[engine] = geometric_mean(
                    [row["engines"][engine][key] / row["engines"]["millrace"][key] for row in rows]
                )
                print(f"\nGeometric mean, faster than {engine}: {summary[engine]:.3f}")
    if arguments.json:
        document = {"statistic": arguments.statistic, "rows": rows, "faster_than": summary}
        Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"compare: {error}")
