#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs, compared with JAX: values, gradients, and the bytes that XLA's SPMD partitioner moves.

    against_jax.py --seed 1 --programs 1000            makes programs with cleave_fuzz, compiles each with JAX, compares
    against_jax.py --seed 1 --programs 1000 --record FILE.jsonl.gz     and writes what JAX made of them
    against_jax.py --replay FILE.jsonl.gz              compares with what was recorded; needs no JAX
    against_jax.py --seed 17 --programs 1 --show       prints one program, its HLO's collectives, our plan's bytes

Each program of the fuzzer (tests/fuzz/sketch_json.hpp) becomes a JAX function with the same shardings, compiled for virtual CPU devices.
The bytes of the collectives in its HLO are summed (hlo_bytes.py), it is run, and cleave_fuzz --replay compares: values must be equal,
ours may not move more than GSPMD with its all-reduce + slice charged as a reduce-scatter, and 64 bytes, while products are done as often
as GSPMD does them. A program that cannot be translated or compiled is counted, with the reason; the others run. What fails is cut down
to a small program that fails in the same way.

JAX is optional: pip install jax==0.10.2. Without it --replay works, and the rest exits with 77, which CTest reports as skipped.
"""
import argparse
import collections
import gzip
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time

VERSION = "0.10.2"
SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
DIMS = "a b c d e".split() + [f"n{i}" for i in range(5, 32)]
AXES = "xyz"
jax = np = named = hlo = None


def load_jax(devices=8, partitioner="gspmd"):
    """Imports JAX for virtual CPU devices; passes that only change code within a device are left out."""
    global jax, np, named, hlo  # pylint: disable=global-statement
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count={devices} --xla_disable_hlo_passes=fusion,cpu-instruction-fusion "
                               "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
    import jax as jax_module
    import numpy
    jax, np = jax_module, numpy
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
    sys.path.insert(0, HERE)
    import hlo_bytes
    import named_jax
    named, hlo = named_jax, hlo_bytes


def numbers(seed, which, count, low, high, whole=False):
    """`argument` of tests/fuzz/sketch.hpp for elements 0 to count - 1."""
    with np.errstate(over="ignore"):
        x = (np.uint64((seed + 1) & 0xffffffff) * np.uint64(0x9e3779b97f4a7c15) + np.uint64(which) * np.uint64(0xbf58476d1ce4e5b9)
             + np.arange(count, dtype=np.uint64) * np.uint64(0x94d049bb133111eb))
        for _ in range(3):
            x = (x ^ (x >> np.uint64(31))) * np.uint64(0xd6e8feb86659fd93)
    u = low + (high - low) * ((x >> np.uint64(11)).astype(np.float64) / 9007199254740992.0)
    return np.trunc(np.where(u < 0, u - 1, u)) if whole else u


class Program:
    """A program of the fuzzer as a JAX function."""

    def __init__(self, p):
        self.p = p
        sizes = p["axes"]
        devices = np.array(jax.devices()[:int(np.prod(sizes))]).reshape(sizes)
        self.mesh = jax.sharding.Mesh(devices, tuple(AXES[:len(sizes)]))
        self.language = named.Language(self.mesh, p["extents"])
        self.inputs = [k for k, s in enumerate(p["steps"]) if s["op"] == "input"]

    def sharding(self, where):
        spec = [tuple(AXES[a] for a in e[1:]) or None for e in where["dims"]]
        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*spec))

    def dims(self, where):
        return [DIMS[e[0]] for e in where["dims"]]

    def run_steps(self, arguments):
        values, given = {}, iter(arguments)
        for k, step in enumerate(self.p["steps"]):
            if step["op"] == "input":
                values[f"v{k}"] = named.Named(next(given), self.dims(step["where"]))
            else:
                text = self.p["text"][k]
                text = re.sub(r"mesh\(((?:[^()]|\([^()]*\))*)\)", r"mesh_layout(\1)", text)
                values[f"v{k}"] = self.language.read(text, values)
        return values

    def function(self, *arguments):
        p = self.p
        if "by" not in p:
            values = self.run_steps(arguments)
            return tuple(values[f"v{r['step']}"].ordered(self.dims(r)) for r in p["results"])

        def loss(*chosen):
            own = list(arguments)
            for k, a in zip(p["by"], chosen):
                own[self.inputs.index(k)] = a
            values = self.run_steps(own)
            last = values[f"v{p['loss']}"].array
            return (last * jax.numpy.sin(last)).sum(), tuple(values[f"v{r['step']}"].ordered(self.dims(r)) for r in p["results"])
        chosen = [arguments[self.inputs.index(k)] for k in p["by"]]
        (value, others), slopes = jax.value_and_grad(loss, tuple(range(len(chosen))), has_aux=True)(*chosen)
        gradients = [named.Named(g, self.dims(p["steps"][k]["where"])).ordered(self.dims(w)) for g, k, w in
                     zip(slopes, p["by"], p["gradients"])]
        return (value,) + others + tuple(gradients)

    def arguments(self):
        made = []
        for which, k in enumerate(self.inputs):
            step = self.p["steps"][k]
            shape = [self.p["extents"][d] for d in self.dims(step["where"])]
            kind = named.TYPES[step["type"]]
            low, high = (n / 4 for n in step["numbers"])
            flat = numbers(self.p["seed"], which, int(np.prod(shape)), low, high, not np.issubdtype(kind, np.floating))
            made.append(flat.reshape(shape).astype(kind))
        return made

    def compile(self):
        places = [self.sharding(self.p["steps"][k]["where"]) for k in self.inputs]
        results = [self.sharding(r) for r in self.p["results"]]
        if "by" in self.p:
            results = [self.sharding({"dims": []})] + results + [self.sharding(w) for w in self.p["gradients"]]
        arguments = [jax.device_put(a, s) for a, s in zip(self.arguments(), places)]
        compiled = jax.jit(self.function, in_shardings=tuple(places), out_shardings=tuple(results)).lower(*arguments).compile()
        return compiled, arguments

    def sums(self, results):
        """What a record says of the values of each result."""
        values = []
        for r, array in enumerate(results):
            flat = np.asarray(array).astype(np.float64).ravel()
            sums = [float(np.sum(flat * numbers(self.p["seed"], 1000 + 2 * r + k, flat.size, -1, 1))) for k in range(2)]
            values.append(sums + [float(np.abs(flat).sum())])
        return values

    def values_on_one_device(self):
        """The values without shardings, op by op: what JAX means, whatever XLA makes of the program."""
        with jax.disable_jit():
            return self.sums(self.function(*self.arguments()))

    def record(self, show=False):
        """The record of the program: what JAX makes of it."""
        compiled, arguments = self.compile()
        text = compiled.as_text()
        devices = int(np.prod(self.p["axes"]))
        plain, scattered, flops = hlo.Module(text, devices).total()
        if show:
            for line in text.splitlines():
                if any(f" {m}(" in line or f" {m}-start(" in line for m in hlo.MOVES):
                    print("   ", line.strip()[:200])
        values = self.sums(compiled(*arguments))
        own = {k: v for k, v in self.p.items() if k not in ("text", "extents", "flops")}
        work = flops * devices / self.p["flops"] if self.p["flops"] > 0 else 1.0
        if work < 0.999:
            # XLA has written products as multiplications and sums: how often they are done cannot be told.
            work = devices
        own["values"] = values
        own["gspmd"] = {"bytes": plain, "scattered": scattered, "work": round(max(work, 1.0), 6)}
        return own


def attempt(p, show=False):
    """A record, or why there is none."""
    try:
        return Program(p).record(show), None
    except named.Untranslated as e:
        return None, str(e)
    except Exception as e:  # pylint: disable=broad-except
        return None, f"{type(e).__name__}: " + re.sub(r"\s+", " ", str(e))[:160]


def start_worker(partitioner):
    load_jax(partitioner=partitioner)


def smaller_programs(fuzz, p):
    made = subprocess.run([fuzz, "--smaller", "-"], input=json.dumps(p), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in made.stdout.splitlines()]


def verdicts_of(fuzz, records, above=0, quiet=True, most=None):
    """What cleave_fuzz --replay says of each record, its exit status and its last line."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as said:
        limits = ["--above", str(above), *(["--bytes", str(most)] if most else [])]
        run = subprocess.run([fuzz, "--replay", "-", *limits, "--verdicts", said.name], check=False, text=True,
                             input="".join(json.dumps(r) + "\n" for r in records), stdout=subprocess.PIPE)
        if not quiet:
            print(run.stdout, end="")
        with open(said.name, encoding="utf8") as file:
            return [json.loads(line) for line in file], run.returncode, run.stdout.strip().splitlines()[-1:]


def shrunk(fuzz, p, what, most):
    """The smallest program found that fails in the same way, after at most so many compilations."""
    better = True
    record = None
    while better and most > 0:
        better = False
        for q in smaller_programs(fuzz, p):
            most -= 1
            made, _ = attempt(q)
            if made is not None and verdicts_of(fuzz, [made])[0][0]["verdict"] == what:
                p, record, better = q, made, True
                break
            if most <= 0:
                break
    return p, record


def described(p):
    """A program as text, for a report."""
    mesh = ", ".join(f"{a} = {n}" for a, n in zip(AXES, p["axes"]))

    def layout(where):
        return "mesh(" + ", ".join(" / ".join([DIMS[e[0]]] + [AXES[a] for a in e[1:]]) for e in where["dims"]) + ")"
    lines = [f"  {mesh}; " + ", ".join(f"{d} = {n}" for d, n in p["extents"].items())]
    for k, step in enumerate(p["steps"]):
        lines.append(f"  v{k} = " + (f"input {step['type']} {layout(step['where'])}" if step["op"] == "input" else p["text"][k]))
    lines += [f"  result v{r['step']} as {layout(r)}" for r in p["results"]]
    lines += [f"  gradient of v{p['loss']} by v{k} as {layout(w)}" for k, w in zip(p.get("by", []), p.get("gradients", []))]
    return "\n".join(lines)


def compare(options):
    """Makes programs, gives them to JAX, replays the records, shrinks what fails."""
    try:
        load_jax(partitioner=options.partitioner)
    except ImportError as e:
        print(f"against_jax: left out, JAX is not installed ({e}); pip install jax=={VERSION}")
        return SKIPPED
    if jax.__version__ != VERSION:
        print(f"against_jax: JAX {jax.__version__}, not {VERSION}: other versions move other bytes")
    command = [options.fuzz, "--seed", str(options.seed), "--cases", str(options.programs), "--json", "-"]
    programs = [json.loads(line) for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]
    start, reasons, kept, records = time.time(), collections.Counter(), [], []
    if options.jobs > 1:
        with multiprocessing.get_context("spawn").Pool(options.jobs, start_worker, [options.partitioner]) as pool:
            made = pool.map(attempt, programs, chunksize=16)
    else:
        made = [attempt(p, options.show) for p in programs]
    for p, (record, why) in zip(programs, made):
        if record is None:
            reasons[why] += 1
            if options.show:
                print(f"seed {p['seed']}: not compared: {why}")
        else:
            kept.append(p)
            records.append(record)
    said, status, last = verdicts_of(options.fuzz, records, options.above)
    doubtful = [k for k, v in enumerate(said) if v["verdict"] == "wrong value"]
    for k in doubtful:
        records[k]["values"] = Program(kept[k]).values_on_one_device()
    if doubtful:
        said, status, last = verdicts_of(options.fuzz, records, options.above)
        for k in doubtful:
            if said[k]["verdict"] != "wrong value":
                print(f"seed {kept[k]['seed']}: XLA's partitioned program gives other values than JAX on one device, which ours agree with")
    if options.record:
        with gzip.open(options.record, "wt", 9, encoding="utf8") as file:
            file.writelines(json.dumps(r, separators=(",", ":")) + "\n" for r in records)
    if options.show:
        for p, r, v in zip(kept, records, said):
            print(f"seed {p['seed']}: {v['verdict']} {v['text']} ours {v['ours']} gspmd {r['gspmd']}\n" + described(p))
    failing = [(p, v) for p, v in zip(kept, said) if v["verdict"] not in ("fine", "tie")]
    for number, (p, v) in enumerate(failing):
        print(f"seed {p['seed']}: {v['verdict']}: {v['text']}")
        if number >= options.shrink:
            print(described(p), flush=True)
            continue
        small, record = shrunk(options.fuzz, p, v["verdict"], 100)
        if record is not None:
            print("  cut down: " + verdicts_of(options.fuzz, [record])[0][0]["text"] + f", {record['gspmd']}")
        print(described(small), flush=True)
    for why, count in reasons.most_common(20):
        print(f"not compared {count}: {why}")
    print(f"against_jax: programs {len(programs)}, compared {len(records)}, not compared {sum(reasons.values())}, "
          f"seed {options.seed}, {time.time() - start:.0f} s")
    print(*last)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fuzz", default="build/test/tests/cleave_fuzz", help="the program cleave_fuzz")
    parser.add_argument("--seed", type=lambda s: int(time.time()) // 86400 * 10000 if s == "today" else int(s), default=1,
                        help="a number, or today")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--partitioner", choices=["gspmd", "shardy"], default="gspmd")
    parser.add_argument("--above", type=int, default=0, help="how many programs may move more than GSPMD")
    parser.add_argument("--bytes", type=int, help="with --replay, what all programs together may move")
    parser.add_argument("--shrink", type=int, default=20, help="how many failures are cut down")
    parser.add_argument("--record", help="a file of records to write, .jsonl.gz")
    parser.add_argument("--replay", help="a file of records to compare with")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if options.replay:
        with gzip.open(options.replay, "rt", encoding="utf8") as file:
            return verdicts_of(options.fuzz, [json.loads(line) for line in file], options.above, quiet=False, most=options.bytes)[1]
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
