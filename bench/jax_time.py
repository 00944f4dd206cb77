#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times programs of the benchmarks in JAX, against Cleave's, and appends the ratios to RESULTS.jsonl.

    python3 bench/jax_time.py RESULTS.jsonl --programs build/bench/bench [--mpirun "mpiexec -n 2"] [--rounds 3] [part...]

JAX has two devices, which are threads of one process. Cleave has two ranks. Each round runs a program of Cleave and then the same in
JAX; the ratio is the median over the rounds. Without JAX, nothing is measured, and a line says so. A part is a program of bench/, such as
memory_time:chain.
"""
import argparse
import dataclasses
import importlib.util
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable

DEVICES = 2
SECONDS = 0.5
# JAX gets memory that it has had before: else glibc gives back and asks again for what a large result needs.
MALLOC = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:glibc.malloc.hugetlb=1"


@dataclasses.dataclass
class Beside:
    """A measurement of Cleave, and what it is in JAX: functions that each compute all of it, of which the fastest counts."""
    name: str
    limit: float
    runs: list[Callable[[], None]]
    # A measurement is of so many runs, each of which is so many steps.
    calls: int = 1
    steps: int = 1
    place: str = f"{DEVICES} ranks"


def start_jax() -> None:
    """Starts this program again where the environment is not the one in which JAX is to run."""
    flags, given = f"--xla_force_host_platform_device_count={DEVICES}", os.environ.get("XLA_FLAGS", "")
    if given.endswith(flags) and os.environ.get("GLIBC_TUNABLES") == MALLOC:
        return
    os.environ.update({"XLA_FLAGS": f"{given} {flags}".strip(), "GLIBC_TUNABLES": MALLOC, "JAX_PLATFORMS": "cpu"})
    os.execv(sys.executable, [sys.executable, *sys.argv])


class Workloads:
    def __init__(self) -> None:
        import jax
        import jax.numpy
        import numpy
        self.jax, self.jnp, self.np = jax, jax.numpy, numpy
        self.random = numpy.random.default_rng(0)
        self.line = self.mesh(DEVICES)

    def mesh(self, *shape: int):
        return self.jax.sharding.Mesh(self.np.array(self.jax.devices()).reshape(shape), ("x", "y")[:len(shape)])

    def sharding(self, mesh, *spec):
        return self.jax.sharding.NamedSharding(mesh, self.jax.sharding.PartitionSpec(*spec))

    def array(self, shape, mesh, *spec, scale: float = 1.0):
        values = self.random.standard_normal(shape, dtype=self.np.float32) * self.np.float32(scale)
        return self.jax.device_put(values, self.sharding(mesh, *spec))

    def call(self, function, *args) -> Callable[[], None]:
        return lambda: self.jax.block_until_ready(function(*args))

    def carried(self, function, *state) -> Callable[[], None]:
        """A function that gives new values for its arguments, whose memory it takes."""
        kept = list(state)

        def run() -> None:
            kept[:] = self.jax.block_until_ready(function(*kept))[:len(kept)]
        return run

    def products(self, n: int, limits: tuple[float, float, float], calls: int) -> list[Beside]:
        jnp, m = self.jnp, self.line
        into = lambda *spec: self.jax.jit(jnp.matmul, out_shardings=self.sharding(m, *spec))
        rows, whole = self.array((n, n), m, "x", None), self.array((n, n), m, None, None)
        left, right = self.array((n, n), m, None, "x"), self.array((n, n), m, "x", None)
        size = f"{n}^2 product, "
        return [Beside(size + "rows sharded", limits[0], [self.call(into("x", None), rows, whole)], calls),
                Beside(size + "all-reduce", limits[1], [self.call(into(None, None), left, right)], calls),
                Beside(size + "reduce-scatter", limits[2], [self.call(into("x", None), left, right)], calls)]

    def reshard(self, n: int, limit: float, calls: int) -> Beside:
        x = self.array((n, n), self.line, "x", None)
        to = self.sharding(self.line, None, "x")
        spec = self.jax.sharding.PartitionSpec
        exchanged = self.jax.jit(self.jax.shard_map(lambda a: self.jax.lax.all_to_all(a, "x", 1, 0, tiled=True), mesh=self.line,
                                                    in_specs=spec("x", None), out_specs=spec(None, "x")))
        return Beside(f"{n}^2 reshard", limit, [self.call(self.jax.jit(lambda a: a, out_shardings=to), x),
                                                self.call(lambda a: self.jax.device_put(a, to), x), self.call(exchanged, x)], calls)

    def small(self) -> list[Beside]:
        x = self.array((64, 64), self.line, "x", None)
        return [Beside("64^2 sum", 0.04, [self.call(self.jax.jit(lambda a, b: a + b), x, x)], 500),
                *self.products(64, (0.15, 0.04, 0.04), 100), self.reshard(64, 0.04, 100)]

    def chain(self) -> list[Beside]:
        jnp, n = self.jnp, 1 << 24

        def ten(x):
            y = x * 1.5
            y = y + 0.25
            y = y * y
            y = y - x
            y = jnp.abs(y)
            y = y + 1.0
            y = jnp.sqrt(y)
            y = y * 0.5
            y = jnp.maximum(y, 0.75)
            return 1.0 / y
        donated = self.jax.jit(lambda x: (ten(x),), donate_argnums=0)
        return [Beside("ten operations", 0.9, [self.call(self.jax.jit(ten), self.array((n,), self.line, "x"))]),
                Beside("ten operations in place", 0.9, [self.carried(donated, self.array((n,), self.line, "x"))])]

    def entropy(self) -> list[Beside]:
        jnp, jax, rows, words = self.jnp, self.jax, 2048, 32768
        scores = self.array((rows, words), self.line, None, "x")
        labels = jax.device_put((self.np.arange(rows) * 7919 % words).astype(self.np.int32), self.sharding(self.line))

        def gathered(s, where):
            z = s - jax.lax.stop_gradient(s.max(-1, keepdims=True))
            return jnp.mean(jnp.log(jnp.exp(z).sum(-1)) - jnp.take_along_axis(z, where[:, None], 1)[:, 0])

        def picked(s, where):
            return -jnp.mean((jax.nn.log_softmax(s) * jax.nn.one_hot(where, words, dtype=jnp.float32)).sum(-1))
        both = lambda f: jax.jit(jax.value_and_grad(f), out_shardings=(self.sharding(self.line), self.sharding(self.line, None, "x")))
        forms = (gathered, picked)
        return [Beside("cross entropy", 0.4, [self.call(jax.jit(f), scores, labels) for f in forms]),
                Beside("cross entropy and its gradient", 0.65, [self.call(both(f), scores, labels) for f in forms])]

    def mlp(self) -> list[Beside]:
        jnp, jax, (batch, embed, hidden) = self.jnp, self.jax, (1024, 1024, 4096)
        found = []
        for data, model in ((2, 1), (1, 2)):
            m = self.mesh(data, model)
            x, wanted = (self.array((batch, embed), m, "x", None, scale=s) for s in (1.0, 0.5))
            # Training takes the memory of its weights.
            (up, down), trainable = ((self.array((embed, hidden), m, None, "y", scale=0.03), self.array((hidden, embed), m, "y", None, scale=0.02))
                                     for _ in range(2))
            forward = lambda up, down, x: jnp.maximum(x @ up, 0) @ down

            def step(up, down, x, wanted, forward=forward):
                loss = lambda up, down: jnp.mean((forward(up, down, x) - wanted)**2)
                value, (of_up, of_down) = jax.value_and_grad(loss, argnums=(0, 1))(up, down)
                return up - 0.1 * of_up, down - 0.1 * of_down, value
            rows = self.sharding(m, "x", None)
            trained = jax.jit(step, donate_argnums=(0, 1),
                              out_shardings=(self.sharding(m, None, "y"), self.sharding(m, "y", None), self.sharding(m)))
            place = f"{data}x{model}"
            found += [Beside("mlp forward", 1.0, [self.call(jax.jit(forward, out_shardings=rows), up, down, x)], place=place),
                      Beside("mlp training step", 0.8, [self.carried(lambda u, d, f=trained, x=x, w=wanted: f(u, d, x, w), *trainable)],
                             place=place)]
        return found

    def layer(self) -> list[Beside]:
        jnp, jax = self.jnp, self.jax
        sequences, positions, width, heads, hidden = 8, 256, 512, 8, 2048
        head = width // heads

        def norm(x, gain):
            off = x - x.mean(-1, keepdims=True)
            return off * jax.lax.rsqrt((off * off).mean(-1, keepdims=True) + 1e-5) * gain

        def layer(w, x):
            z = norm(x, w["gain1"])
            q, k, v = (jnp.einsum("bsd,dhe->bhse", z, w["qkv"][i]) for i in range(3))
            scores = jax.nn.softmax(jnp.einsum("bhse,bhte->bhst", q, k) * head**-0.5, -1)
            x = x + jnp.einsum("bhse,hed->bsd", jnp.einsum("bhst,bhte->bhse", scores, v), w["out"])
            return x + jax.nn.gelu(norm(x, w["gain2"]) @ w["up"]) @ w["down"]
        found = []
        for data, model in ((2, 1), (1, 2)):
            m = self.mesh(data, model)
            make = lambda shape, *spec, m=m: self.array(shape, m, *spec, scale=0.03)
            w = {"qkv": make((3, width, heads, head), None, None, "y", None), "out": make((heads, head, width), "y", None, None),
                 "up": make((width, hidden), None, "y"), "down": make((hidden, width), "y", None), "gain1": make((width,)), "gain2": make((width,))}
            x = self.array((sequences, positions, width), m, "x", None, None)
            slope = jax.jit(jax.grad(lambda w, x: jnp.mean(layer(w, x)**2), argnums=(0, 1)),
                            out_shardings=(jax.tree.map(lambda a: a.sharding, w), x.sharding))
            place = f"{data}x{model}"
            found += [Beside("Transformer layer, forward", 1.0, [self.call(jax.jit(layer, out_shardings=x.sharding), w, x)], place=place),
                      Beside("Transformer layer, forward and backward", 0.8, [self.call(slope, w, x)], place=place)]
        return found

    def torus(self) -> list[Beside]:
        """Five points on a torus, several steps in a loop of JAX, so that it swaps its buffers; the time is that of one."""
        jnp, jax, n, steps = self.jnp, self.jax, 4096, 10
        spec = self.jax.sharding.PartitionSpec("x", None)

        def rolled(u):
            return u + 0.1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)

        def exchanged(u):
            there, back = ([(i, (i + by) % DEVICES) for i in range(DEVICES)] for by in (1, -1))
            tall = jnp.concatenate([jax.lax.ppermute(u[-1:], "x", there), u, jax.lax.ppermute(u[:1], "x", back)], 0)
            return u + 0.1 * (tall[:-2] + tall[2:] + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u)
        loop = lambda f: lambda u: jax.lax.fori_loop(0, steps, lambda i, v: f(v), u)
        forms = [jax.jit(lambda u: (loop(rolled)(u),), donate_argnums=0),
                 jax.jit(lambda u: (jax.shard_map(loop(exchanged), mesh=self.line, in_specs=spec, out_specs=spec)(u),), donate_argnums=0)]
        runs = [self.carried(f, self.array((n, n), self.line, "x", None)) for f in forms]
        return [Beside("5 points of 4096^2, sides joined, float", 0.2, runs, steps=steps)]


PARTS: dict[str, tuple[str, list[str], Callable[[Workloads], list[Beside]]]] = {
    "memory_time:product": ("memory_time", ["product"], lambda w: w.products(2048, (1.0, 1.0, 0.75), 1)),
    "memory_time:reshard": ("memory_time", ["reshard"], lambda w: [w.reshard(4096, 0.6, 1)]),
    "memory_time:chain": ("memory_time", ["chain"], lambda w: w.chain()),
    "memory_time:entropy": ("memory_time", ["entropy"], lambda w: w.entropy()),
    "memory_time:small": ("memory_time", ["small"], lambda w: w.small()),
    "run_time:mlp": ("run_time", ["mlp"], lambda w: w.mlp()),
    "layer_time": ("layer_time", [], lambda w: w.layer()),
    "field_time": ("field_time", ["torus"], lambda w: w.torus()),
}


def seconds_of(run: Callable[[], None], calls: int) -> float:
    """Of a run: the median over as many repetitions of `calls` runs as fit."""
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def of_cleave(program: pathlib.Path, arguments: list[str], mpirun: list[str]) -> tuple[dict[str, float], float]:
    """Seconds by the name of a measurement, and how long a cache line took to another rank and back, in nanoseconds."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.jsonl"
        environment = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "GLIBC_TUNABLES")}
        subprocess.run([*mpirun, str(program), str(results), str(SECONDS), *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)
        units = {"ms": 1e-3, "us": 1e-6}
        lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        seconds = {line["name"]: line["value"] * units[line["unit"]] for line in lines if line.get("unit") in units}
        return seconds, statistics.median(line.get("round_trip_ns", 0) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", metavar="part")
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--mpirun", default=f"mpiexec -n {DEVICES}")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    if importlib.util.find_spec("jax") is None:
        print("jax_time.py: bench compares with JAX where it is installed; it was not found.")
        return
    start_jax()
    workloads = Workloads()
    with given.results.open("a", encoding="utf-8") as out:
        for part in given.parts or PARTS:
            program, arguments, make = PARTS[part]
            measured = [(b, [], []) for b in make(workloads)]
            for b, _, _ in measured:
                for run in b.runs:
                    run()
            trips: list[float] = []
            for _ in range(given.rounds):
                cleave, trip = of_cleave(given.programs / program, arguments, shlex.split(given.mpirun))
                trips.append(trip)
                for b, ours, theirs in measured:
                    ours.append(cleave[f"{b.name} on {b.place}"])
                    theirs.append(min(seconds_of(run, b.calls) for run in b.runs) / b.steps)
            for b, ours, theirs in measured:
                ratio = statistics.median(o / t for o, t in zip(ours, theirs))
                value, reference = statistics.median(ours), statistics.median(theirs)
                line = {"name": f"{b.name}, against JAX on {b.place}", "value": float(f"{value * 1e3:.6g}"), "unit": "ms", "reference": "JAX",
                        "reference_value": float(f"{reference * 1e3:.6g}"), "ratio": float(f"{ratio:.4g}"), "limit_ratio": b.limit,
                        "repetitions": given.rounds, "round_trip_ns": statistics.median(trips)}
                print(json.dumps(line), file=out, flush=True)
                print(f"{line['name']:<64} {line['value']:10.4g} ms  ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
