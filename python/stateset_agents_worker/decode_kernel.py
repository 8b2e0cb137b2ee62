"""Attention of one new token per row to its keys in the cache, as one Triton kernel: it puts the new key and value in their place, reads
only the keys that a row has, and each of them once for all query heads that share it. Keys may be read in several parts where rows are
few, and the parts are put together after. Imported only where there is CUDA and Triton."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Way(NamedTuple):
    """How a program reads: keys at a time, warps, and blocks that are on their way at once."""

    block: int
    warps: int
    stages: int


#: The fastest of those that tests/cuda_sampler.py tries on an H200, or within 2% of it.
WAY = Way(block=64, warps=4, stages=2)
#: Programs that keep a large GPU busy; with fewer, keys are read in parts.
PROGRAMS = 256
MOST_PARTS = 32


@triton.jit
def _attend(
    query,
    new_key,
    new_value,
    keys,
    values,
    write,
    reach,
    out,
    part_out,
    part_mass,
    scale,
    window,
    query_row,
    query_head,
    key_row,
    key_head,
    value_row,
    value_head,
    slot_stride,
    head_stride,
    heads,
    GROUP: tl.constexpr,
    GROUP_ROOM: tl.constexpr,
    DIM: tl.constexpr,
    DIM_ROOM: tl.constexpr,
    BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
):
    pair = tl.program_id(0)
    part = tl.program_id(1)
    row = (pair // heads).to(tl.int64)
    head = pair % heads
    last = tl.load(reach + row).to(tl.int32) - 1
    place = tl.load(write + row)
    d = tl.arange(0, DIM_ROOM)
    g = tl.arange(0, GROUP_ROOM)
    in_dim = d < DIM
    in_group = g < GROUP
    both = in_group[:, None] & in_dim[None, :]
    q = tl.load(query + row * query_row + (head * GROUP + g)[:, None] * query_head + d[None, :], mask=both, other=0.0)
    k_new = tl.load(new_key + row * key_row + head * key_head + d, mask=in_dim, other=0.0)
    v_new = tl.load(new_value + row * value_row + head * value_head + d, mask=in_dim, other=0.0)
    here = row * slot_stride + head * head_stride
    # The first part has the new key, of which nothing needs to be read.
    if part == 0:
        tl.store(keys + here + place * DIM + d, k_new, mask=in_dim)
        tl.store(values + here + place * DIM + d, v_new, mask=in_dim)
    score = tl.sum(q.to(tl.float32) * k_new.to(tl.float32)[None, :], 1) * scale
    highest = tl.where(part == 0, score, -float("inf"))
    mass = tl.where(part == 0, 1.0, 0.0) + tl.zeros([GROUP_ROOM], tl.float32)
    total = tl.where(part == 0, v_new.to(tl.float32), 0.0)[None, :] + tl.zeros([GROUP_ROOM, DIM_ROOM], tl.float32)
    begin = tl.where(window > 0, tl.maximum(last + 1 - window, 0), 0)
    each = tl.cdiv(tl.cdiv(last - begin, BLOCK), PARTS) * BLOCK
    low = begin + part * each
    high = tl.minimum(low + each, last)
    for start in range(low, high, BLOCK):
        n = start + tl.arange(0, BLOCK)
        there = n < high
        at = here + n.to(tl.int64) * DIM
        k = tl.load(keys + at[None, :] + d[:, None], mask=there[None, :] & in_dim[:, None], other=0.0)
        v = tl.load(values + at[:, None] + d[None, :], mask=there[:, None] & in_dim[None, :], other=0.0)
        scores = tl.where(there[None, :], tl.dot(q, k, input_precision="ieee") * scale, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        fade = tl.exp2(highest - higher)
        weights = tl.exp2(scores - higher[:, None])
        mass = mass * fade + tl.sum(weights, 1)
        total = total * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        highest = higher
    shared = total / tl.where(mass > 0, mass, 1.0)[:, None]
    if PARTS == 1:
        to = out + (row * heads + head) * GROUP * DIM + g[:, None] * DIM + d[None, :]
        tl.store(to, shared.to(out.dtype.element_ty), mask=both)
    else:
        at = ((row * heads + head) * PARTS + part) * GROUP
        tl.store(part_out + (at + g)[:, None] * DIM + d[None, :], shared, mask=both)
        tl.store(part_mass + at + g, highest + tl.log2(mass), mask=in_group)


@triton.jit
def _join(
    part_out,
    part_mass,
    out,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    DIM_ROOM: tl.constexpr,
    PARTS: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    g = tl.program_id(1)
    p = tl.arange(0, PARTS)
    d = tl.arange(0, DIM_ROOM)
    in_dim = d < DIM
    at = (pair * PARTS + p) * GROUP + g
    mass = tl.load(part_mass + at)
    weights = tl.exp2(mass - tl.max(mass, 0))
    parts = tl.load(part_out + at[:, None] * DIM + d[None, :], mask=in_dim[None, :], other=0.0)
    whole = tl.sum(parts * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out + (pair * GROUP + g) * DIM + d, whole.to(out.dtype.element_ty), mask=in_dim)


def parts_for(pairs: int, length: int) -> int:
    """In how many parts keys are read: as many as keep the GPU busy, and none of them of less than four blocks."""
    wanted = min(PROGRAMS // pairs, length // (4 * WAY.block), MOST_PARTS)
    return 1 << (max(1, wanted).bit_length() - 1)


def attend(
    query: Tensor,
    new_key: Tensor,
    new_value: Tensor,
    keys: Tensor,
    values: Tensor,
    write: Tensor,
    reach: Tensor,
    scaling: float,
    window: int | None,
    parts: int | None = None,
    way: Way = WAY,
) -> Tensor:
    """query [rows, heads, D], new_key and new_value [rows, key heads, D], keys and values [slots, key heads, length, D]; `write` and
    `reach` [rows]: where the new key goes, and how many keys the row sees with it. → [rows, heads, D]"""
    rows, heads, dim = query.shape
    key_heads, length = keys.shape[1], keys.shape[2]
    group = heads // key_heads
    parts = parts or parts_for(rows * key_heads, length)
    out = torch.empty(rows, heads, dim, dtype=query.dtype, device=query.device)
    several = rows * key_heads * parts * group if parts > 1 else 0
    part_out = torch.empty(several, dim, dtype=torch.float32, device=query.device)
    part_mass = torch.empty(several, dtype=torch.float32, device=query.device)
    room = max(16, triton.next_power_of_2(dim))
    _attend[(rows * key_heads, parts)](
        query,
        new_key,
        new_value,
        keys,
        values,
        write,
        reach,
        out,
        part_out,
        part_mass,
        # Powers of two are cheaper than of e.
        scaling * math.log2(math.e),
        window or 0,
        query.stride(0),
        query.stride(1),
        new_key.stride(0),
        new_key.stride(1),
        new_value.stride(0),
        new_value.stride(1),
        keys.stride(0),
        keys.stride(1),
        key_heads,
        GROUP=group,
        GROUP_ROOM=max(16, triton.next_power_of_2(group)),
        DIM=dim,
        DIM_ROOM=room,
        BLOCK=way.block,
        PARTS=parts,
        num_warps=way.warps,
        num_stages=way.stages,
    )
    if parts > 1:
        _join[(rows * key_heads, group)](
            part_out, part_mass, out, GROUP=group, DIM=dim, DIM_ROOM=room, PARTS=parts, num_warps=4
        )
    return out
