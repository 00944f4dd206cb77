# SPDX-FileCopyrightText: The Cleave authors
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functions of Cleave on arrays of JAX with named dims: what the text of a fuzzed program means when Python reads it.

Each function is written as a JAX user would write it, from jax.numpy and jax.lax alone, so that values, gradients and communication
are those of another system.
"""
import functools
import re
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

TYPES = dict(zip("bool i8 u8 i32 u32 i64 u64 f32 f64".split(),
                 (np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)))
CPP_TYPES = {"bool": np.bool_, "std::int8_t": np.int8, "std::uint8_t": np.uint8, "std::int32_t": np.int32, "std::uint32_t": np.uint32,
             "std::int64_t": np.int64, "std::uint64_t": np.uint64, "float": np.float32, "double": np.float64}
MODES = dict(zero="constant", periodic="wrap", edge="edge", reflect="reflect")
Extremum = namedtuple("Extremum", "first second")


class Untranslated(Exception):
    """What JAX has no form for; the program is counted and left out."""


class Dim(str):
    """A dim by name; divided by axes it is an entry of a layout."""

    def __truediv__(self, axis):
        return Entry(self, [axis])


class Entry:
    def __init__(self, dim, axes):
        self.dim, self.axes = dim, axes

    def __truediv__(self, axis):
        return Entry(self.dim, self.axes + [axis])


class Named:
    """An array and the names of its dims."""

    def __init__(self, array, dims):
        self.array, self.dims = array, tuple(dims)
        assert array.ndim == len(self.dims), (array.shape, dims)

    def at(self, dim):
        return self.dims.index(dim)

    def ordered(self, dims):
        return jnp.transpose(self.array, [self.dims.index(d) for d in dims])

    def spread(self, dims):
        """With all of these dims, of extent 1 where it has none."""
        own = [d for d in dims if d in self.dims]
        return jnp.expand_dims(self.ordered(own), [i for i, d in enumerate(dims) if d not in self.dims])

    def by(self, function):
        return Named(function(self.array), self.dims)

    def along(self, dim, function, to=None):
        """`function` of the array with the dim last, which is called `to` in the result."""
        order = [d for d in self.dims if d != dim]
        made = jnp.moveaxis(function(self.ordered(order + [dim])), -1, self.at(dim))
        return Named(made, [(to or dim) if d == dim else d for d in self.dims])

    def __neg__(self):
        return self.by(lambda a: -a)

    def __invert__(self):
        return self.by(jnp.logical_not)

    def __add__(self, other):
        return together(jnp.add, self, other)

    def __radd__(self, other):
        return together(jnp.add, other, self)

    def __sub__(self, other):
        return together(lambda a, b: a ^ b if a.dtype == bool else a - b, self, other)

    def __rsub__(self, other):
        return together(jnp.subtract, other, self)

    def __mul__(self, other):
        return together(jnp.multiply, self, other)

    def __rmul__(self, other):
        return together(jnp.multiply, other, self)

    def __truediv__(self, other):
        return together(divided, self, other)

    def __eq__(self, other):
        return together(jnp.equal, self, other)

    def __ne__(self, other):
        return together(jnp.not_equal, self, other)

    def __lt__(self, other):
        return together(jnp.less, self, other)

    def __le__(self, other):
        return together(jnp.less_equal, self, other)

    def __gt__(self, other):
        return together(jnp.greater, self, other)

    def __ge__(self, other):
        return together(jnp.greater_equal, self, other)

    def __and__(self, other):
        return together(jnp.logical_and, self, other)

    def __or__(self, other):
        return together(jnp.logical_or, self, other)


def divided(a, b):
    """Integers truncate, and are 0 over 0; of bools it is `and`."""
    if jnp.issubdtype(a.dtype, jnp.floating):
        return a / b
    if a.dtype == bool:
        return a & b
    return jnp.where(b == 0, 0, lax.div(a, jnp.where(b == 0, 1, b) + jnp.zeros_like(a))).astype(a.dtype)


def together(function, *operands):
    """An elementwise function of operands aligned by names. Numbers take the element type of what they stand beside."""
    like = next(o for o in reversed(operands) if isinstance(o, Named)).array.dtype
    first = [o for o in operands if isinstance(o, Named)]
    dims = list(dict.fromkeys(d for o in first for d in o.dims))
    arrays = [o.spread(dims) if isinstance(o, Named) else jnp.asarray(np.asarray(o).astype(like)) for o in operands]
    made = function(*arrays)
    extents = {d: n for o in first for d, n in zip(o.dims, o.array.shape)}
    return Named(jnp.broadcast_to(made, [extents[d] for d in dims]), dims)


class Language:
    """The names that the text of one program uses."""

    def __init__(self, mesh, extents):
        self.mesh, self.extents = mesh, extents
        own = {n: getattr(self, n) for n in dir(self) if not n.startswith("_")}
        for n in "exp expm1 log tanh sqrt sin cos floor abs sign conj real".split():
            own[n] = lambda x, f=getattr(jnp, n): x.by(f)
        own.update(erf=lambda x: x.by(lax.erf), rsqrt=lambda x: x.by(lax.rsqrt), sigmoid=lambda x: x.by(jax.nn.sigmoid),
                   relu=lambda x: x.by(jax.nn.relu), gelu=lambda x: x.by(lambda a: jax.nn.gelu(a, approximate=True)),
                   maximum=lambda a, b: together(jnp.maximum, a, b), minimum=lambda a, b: together(jnp.minimum, a, b),
                   pow=self._pow, stop_gradient=lambda x: x.by(lax.stop_gradient), wave=self._wave, own=lambda x: x.by(jnp.tanh),
                   blend=lambda v, u: together(jnp.tanh, v * u) + v, cleave_to_the_end=None)
        own.update({d: Dim(d) for d in extents}, x="x", y="y", z="z")
        self.names = own

    def read(self, text, values):
        """A C++ expression of the fuzzer's table, read as Python."""
        text = re.sub(r"(?:cleave::)?element_of<([\w:]+)>", r"'\1'", text)
        text = text.replace("cleave::to_the_end", "cleave_to_the_end").replace("cleave::window{", "window(").replace("}", ")")
        text = re.sub(r"cleave::(?:border|running|order|direction|side)::(\w+)", r"'\1'", text)
        text = re.sub(r"<double>", "", text.replace("cleave::", ""))
        text = re.sub(r"^!", "~", text)
        return eval(text, {"__builtins__": {}}, {**self.names, **values})  # pylint: disable=eval-used

    # layouts

    def mesh_layout(self, *entries):
        return {e.dim if isinstance(e, Entry) else e: tuple(e.axes) if isinstance(e, Entry) else () for e in entries}

    def _pinned(self, x, layout, rest):
        spec = [layout.get(d, rest) for d in x.dims]
        spec = [s if s is PartitionSpec.UNCONSTRAINED else (s or None) for s in spec]
        return x.by(lambda a: lax.with_sharding_constraint(a, NamedSharding(self.mesh, PartitionSpec(*spec))))

    def constrain(self, x, layout):
        return self._pinned(x, layout, PartitionSpec.UNCONSTRAINED)

    def reshard(self, x, layout):
        return self._pinned(x, layout, ())

    # elementwise

    def _wave(self, v):
        return v.by(lambda a: jnp.sin(a) * jnp.tanh(a))

    def _pow(self, a, b):
        if not isinstance(b, Named):
            return a.by(lambda x: lax.integer_pow(x, b))
        if not jnp.issubdtype(a.array.dtype, jnp.floating):
            raise Untranslated("powers of integers")
        return together(jnp.power, a, b)

    def cast(self, x, to):
        return x.by(lambda a: a.astype(CPP_TYPES[to]))

    def select(self, p, yes, no):
        made = together(lambda q, a, b: jnp.where(q.astype(bool), a, b), p, *(
            Named(jnp.asarray(np.asarray(v).astype(o.array.dtype)), ()) if not isinstance(v, Named) else v
            for v, o in ((yes, no), (no, yes))))
        return made

    # products, reductions

    def broadcast(self, x, *dims):
        return Named(jnp.broadcast_to(x.spread(dims), [self.extents[d] for d in dims]), dims)

    def dot(self, a, b, *over):
        letters = {d: chr(97 + i) for i, d in enumerate(dict.fromkeys(a.dims + b.dims))}
        dims = [d for d in dict.fromkeys(a.dims + b.dims) if d not in over]
        spelled = "".join(letters[d] for d in a.dims) + "," + "".join(letters[d] for d in b.dims)
        return Named(jnp.einsum(spelled + "->" + "".join(letters[d] for d in dims), a.array, b.array), dims)

    def _reduced(self, function, x, dims, bools=None):
        dims = dims or x.dims
        use = bools if bools and x.array.dtype == bool else function
        made = use(x.array, axis=tuple(x.at(d) for d in dims))
        return Named(made.astype(x.array.dtype), [d for d in x.dims if d not in dims])

    def sum(self, x, *dims):
        return self._reduced(jnp.sum, x, dims, jnp.any)

    def prod(self, x, *dims):
        return self._reduced(jnp.prod, x, dims, jnp.all)

    def max(self, x, *dims):
        return self._reduced(jnp.max, x, dims, jnp.any)

    def min(self, x, *dims):
        return self._reduced(jnp.min, x, dims, jnp.all)

    def mean(self, x, *dims):
        return self._reduced(jnp.mean, x, dims)

    def variance(self, x, *dims):
        return self._reduced(jnp.var, x, dims)

    def moments(self, x, *dims):
        return Extremum(self.mean(x, *dims), self.variance(x, *dims))

    def any(self, x, *dims):
        return self._reduced(jnp.any, x.by(lambda a: a.astype(bool)), dims)

    def all(self, x, *dims):
        return self._reduced(jnp.all, x.by(lambda a: a.astype(bool)), dims)

    def softmax(self, x, d):
        return x.by(lambda a: jax.nn.softmax(a, axis=x.at(d)))

    def log_softmax(self, x, d):
        return x.by(lambda a: jax.nn.log_softmax(a, axis=x.at(d)))

    def logsumexp(self, x, d):
        return self._reduced(jax.scipy.special.logsumexp, x, (d,))

    def layer_norm(self, x, d, scale, bias):
        off = x - self.mean(x, d)
        return off * self.names["rsqrt"](self.mean(off * off, d) + 1e-5) * scale + bias

    def _extremum_at(self, function, x, d):
        return Named(function(x.array, axis=x.at(d)).astype(np.int32), [e for e in x.dims if e != d])

    def argmax(self, x, d):
        return self._extremum_at(jnp.argmax, x, d)

    def argmin(self, x, d):
        return self._extremum_at(jnp.argmin, x, d)

    def top_k(self, x, d, rank):
        order = [e for e in x.dims if e != d] + [d]
        if x.array.shape[x.at(d)] < self.extents[rank]:
            raise Untranslated("more of the largest elements than there are")
        values, places = lax.top_k(x.ordered(order), self.extents[rank])
        return Extremum(Named(values, order[:-1] + [rank]), Named(places.astype(np.int32), order[:-1] + [rank]))

    def one_hot(self, x, d):
        if d not in x.dims:
            return Named(jax.nn.one_hot(x.array, self.extents[d], dtype=np.float64), x.dims + (d,))
        # Labels that have the dim already are compared with its indices, as dims go by name.
        places = [-1 if e == d else 1 for e in x.dims]
        return Named((x.array == jnp.arange(self.extents[d]).reshape(places)).astype(np.float64), x.dims)

    def count(self, _, *dims):
        return Named(jnp.asarray(float(np.prod([self.extents[d] for d in dims]))), ())

    # views

    def rename(self, x, old, new):
        return Named(x.array, [new if d == old else d for d in x.dims])

    def split(self, x, whole, major, minor):
        i = x.at(whole)
        shape = x.array.shape[:i] + (self.extents[major], self.extents[minor]) + x.array.shape[i + 1:]
        return Named(x.array.reshape(shape), x.dims[:i] + (major, minor) + x.dims[i + 1:])

    def merge(self, x, major, minor, whole):
        rest = [d for d in x.dims if d not in (major, minor)]
        i = min(x.at(major), len(rest))
        order = rest[:i] + [major, minor] + rest[i:]
        a = x.ordered(order)
        return Named(a.reshape(a.shape[:i] + (a.shape[i] * a.shape[i + 1],) + a.shape[i + 2:]), rest[:i] + [whole] + rest[i:])

    # elements under other indices

    def slice(self, x, d, to, begin, end, step):
        return x.along(d, lambda a: a[..., begin:end:step], to)

    def pad(self, x, d, to, low, high, interior, filler=0):
        def padded(a):
            return lax.pad(a, jnp.asarray(filler).astype(a.dtype), [(0, 0, 0)] * (a.ndim - 1) + [(low, high, interior)])
        return x.along(d, padded, to)

    @staticmethod
    def _extended(a, low, high, border):
        """The last dim with what lies beyond its ends."""
        mode = MODES[border]
        if mode == "wrap" and a.shape[-1] == 0:
            raise Untranslated("a periodic dim of extent 0")
        return jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(low, high)], mode=mode)

    def shift(self, x, d, by, border="zero"):
        if border == "periodic":
            return x.along(d, lambda a: jnp.roll(a, by, -1))
        n = x.array.shape[x.at(d)]
        return x.along(d, lambda a: self._extended(a, max(by, 0), max(-by, 0), border)[..., max(-by, 0):max(-by, 0) + n])

    def roll(self, x, d, by):
        return x.along(d, lambda a: jnp.roll(a, by.array if isinstance(by, Named) else by, -1))

    def flip(self, x, d):
        return x.along(d, lambda a: jnp.flip(a, -1))

    def rotate_halves(self, x, d):
        def turned(a):
            first, second = jnp.split(a, 2, -1)
            return jnp.concatenate([-second, first], -1)
        return x.along(d, turned)

    def repeat(self, x, d, to, times):
        return x.along(d, lambda a: jnp.repeat(a, times, -1), to)

    def tile(self, x, d, to, times):
        return x.along(d, lambda a: jnp.concatenate([a] * times, -1), to)

    def diagonal(self, x, i, j):
        rest = [d for d in x.dims if d not in (i, j)]
        return Named(jnp.diagonal(x.ordered(rest + [i, j]), axis1=-2, axis2=-1), rest + [i])

    def piece(self, x, d):
        return x, d

    def concat(self, to, *pieces):
        (first, along), renamed = pieces[0], []
        dims = [to if d == along else d for d in first.dims]
        for x, d in pieces:
            renamed.append(self.rename(x, d, to).ordered(dims))
        return Named(jnp.concatenate(renamed, dims.index(to)), dims)

    def stack(self, to, *all_of):
        return Named(jnp.stack([x.ordered(all_of[0].dims) for x in all_of]), (to,) + all_of[0].dims)

    def window(self, *given):
        return given

    def windows(self, x, *given):
        for d, to, at, stride, dilation, low, high, border in given:
            length = self.extents[at]

            def seen(a, n=length, s=stride, w=dilation, lo=low, hi=high, b=border):
                a = self._extended(a, lo, hi, b)
                count = max((a.shape[-1] - w * (n - 1) - 1) // s + 1, 0)
                return jnp.stack([a[..., w * k:w * k + s * (count - 1) + 1:s] if count else a[..., :0] for k in range(n)], -1)

            order = [e for e in x.dims if e != d] + [d]
            x = Named(seen(x.ordered(order)), order[:-1] + [to, at])
        return x

    def _start(self, start, extent, length):
        return jnp.clip(start.array, 0, extent - length)

    def dynamic_slice(self, x, d, to, start):
        n = self.extents[to]
        return x.along(d, lambda a: lax.dynamic_slice_in_dim(a, self._start(start, a.shape[-1], n), n, -1), to)

    def dynamic_update(self, x, d, update, part, start):
        order = [e for e in x.dims if e != d] + [d]
        own = self.rename(update, part, d).ordered(order)
        a = x.ordered(order)
        return Named(lax.dynamic_update_slice_in_dim(a, own, self._start(start, a.shape[-1], own.shape[-1]), a.ndim - 1), order)

    def interior(self, inside, outside, width, *dims):
        x = inside
        for d in dims:
            i = Named(jnp.arange(self.extents[d]), (d,))
            x = self.select((i >= width) & (i < self.extents[d] - width), x, outside)
        return x

    def _cumulative(self, x, d, order, function, identity):
        backwards, exclusive = order.startswith("backward"), order.endswith("exclusive")

        def run(a):
            made = function(a, axis=a.ndim - 1, reverse=backwards)
            if exclusive:
                end = [(0, 0, 0)] * (a.ndim - 1)
                made = lax.pad(made, jnp.asarray(identity).astype(a.dtype), end + [(-1, 1, 0) if backwards else (1, -1, 0)])
            return made
        return x.along(d, run)

    def cumulative_sum(self, x, d, order):
        return self._cumulative(x, d, order, lax.cumsum, 0)

    def cumulative_prod(self, x, d, order):
        return self._cumulative(x, d, order, lax.cumprod, 1)

    def _lowest(self, x, sign):
        if x.array.dtype == bool:
            raise Untranslated("extrema of bools along a dim")
        if jnp.issubdtype(x.array.dtype, jnp.floating):
            return sign * np.inf
        info = np.iinfo(x.array.dtype)
        return info.max if sign > 0 else info.min

    def cumulative_max(self, x, d, order):
        return self._cumulative(x, d, order, lax.cummax, self._lowest(x, -1))

    def cumulative_min(self, x, d, order):
        return self._cumulative(x, d, order, lax.cummin, self._lowest(x, 1))

    # rows, sorting

    def gather(self, table, d, places):
        common = [e for e in table.dims if e in places.dims]
        own, rest = [e for e in places.dims if e not in common], [e for e in table.dims if e not in common and e != d]

        def look_up(t, i):
            n = t.shape[0]
            return jnp.take(t, jnp.where((i >= 0) & (i < n), i, n), axis=0, mode="fill", fill_value=0)
        for _ in common:
            look_up = jax.vmap(look_up)
        return Named(look_up(table.ordered(common + [d] + rest), places.ordered(common + own)), common + own + rest)

    def scatter_add(self, rows, places, d):
        rest = [e for e in rows.dims if e not in places.dims]
        n = self.extents[d]
        a, i = rows.ordered(list(places.dims) + rest), places.array
        zeros = jnp.zeros([n] + [self.extents[e] for e in rest], a.dtype)
        return Named(zeros.at[jnp.where((i >= 0) & (i < n), i, n)].add(a, mode="drop"), [d] + rest)

    def sort(self, x, d, order="ascending"):
        return x.by(lambda a: jnp.sort(a, axis=x.at(d), descending=order == "descending"))

    def argsort(self, x, d):
        return x.by(lambda a: jnp.argsort(a, axis=x.at(d), stable=True).astype(np.int32))

    def take_along(self, x, places, d):
        return x.by(lambda a: jnp.take_along_axis(a, places.ordered(x.dims), axis=x.at(d)))

    def searchsorted(self, ordered, wanted, d, side="left"):
        common = [e for e in ordered.dims if e != d and e in wanted.dims]
        if len(common) + 1 != len(ordered.dims):
            raise Untranslated("places in slices that the values do not have")
        rest = [e for e in wanted.dims if e not in common]
        find = functools.partial(jnp.searchsorted, side=side)
        for _ in common:
            find = jax.vmap(find)
        return Named(find(ordered.ordered(common + [d]), wanted.ordered(common + rest)).astype(np.int32), common + rest)

    # functions of functions

    def remat(self, function):
        def again(*values):
            kept = []

            def inner(*arrays):
                made = function(*(Named(a, v.dims) for a, v in zip(arrays, values)))
                kept.append(made.dims)
                return made.array
            array = jax.checkpoint(inner)(*(v.array for v in values))
            return Named(array, kept[-1])
        return again

    def both(self, v, u):
        return together(jnp.tanh, v + u), v * u

    def scan(self, d, carry, x, body, direction="forward"):
        dims, order = carry.dims, [e for e in x.dims if e != d]
        kept = []

        def step(c, u):
            made = body(Named(c, dims), Named(u, order))
            nexts, out = made if isinstance(made, tuple) else (made, None)
            kept.append(out.dims if out is not None else None)
            return nexts.ordered(dims), None if out is None else out.array
        last, stacked = lax.scan(step, carry.array, jnp.moveaxis(x.array, x.at(d), 0), reverse=direction == "backward")
        if kept[-1] is None:
            return Named(last, dims)
        return Extremum(Named(last, dims), Named(stacked, (d,) + tuple(kept[-1])))

    def repeat_times(self, n, x, body):
        return x.by(lambda a: lax.fori_loop(0, n, lambda _, v: body(Named(v, x.dims)).array, a))

    def cond(self, p, yes, no, x):
        return x.by(lambda a: lax.cond(p.array, lambda v: yes(Named(v, x.dims)).array, lambda v: no(Named(v, x.dims)).array, a))
