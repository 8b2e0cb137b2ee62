//! Attention on its own: the forward kernel against a plain one in f64, the derivatives of q, k and v against central differences of that.

use super::attention::{Forward, Group, Shape, Span, attention, query_tiles, write_cache};
use super::attention_backward::{Backward, Tree, Turned, attention_backward};
use crate::gemm::Exec;
use crate::simd::{Level, pad16};
use crate::testing::{assert_near, difference, noise, widened};

/// Nodes with their parents; a node's rows see the rows on their path that the window holds.
struct Case {
    shape: Shape,
    lengths: Vec<usize>,
    parents: Vec<i32>,
}

impl Case {
    fn rows(&self) -> usize {
        self.lengths.iter().sum()
    }

    fn first_row(&self, node: usize) -> usize {
        self.lengths[..node].iter().sum()
    }

    fn path(&self, node: usize) -> Vec<usize> {
        let mut path = vec![node];
        while let Ok(parent) = usize::try_from(self.parents[path[path.len() - 1]]) {
            path.push(parent);
        }
        path.reverse();
        path
    }

    /// Rows that each row sees, itself last.
    fn visible(&self) -> Vec<Vec<usize>> {
        let mut all = Vec::new();
        for node in 0..self.lengths.len() {
            let rows = |n: usize| self.first_row(n)..self.first_row(n) + self.lengths[n];
            let path: Vec<usize> = self.path(node).into_iter().flat_map(rows).collect();
            for row in rows(node) {
                let position = path.iter().position(|&r| r == row).unwrap();
                all.push(path[self.shape.first_visible(position)..=position].to_vec());
            }
        }
        all
    }
}

/// One query: `o = Σ_j softmax(q·k_j / √d) v_j`.
fn plain(s: &Shape, visible: &[usize], q: &[f64], k: &[f64], v: &[f64], (row, head): (usize, usize)) -> Vec<f64> {
    let hd = s.head_dim;
    let at = |r: usize| (r * s.kv_heads + head / s.repeat()) * hd;
    let q = &q[(row * s.heads + head) * hd..][..hd];
    let scores: Vec<f64> =
        visible.iter().map(|&j| q.iter().zip(&k[at(j)..]).map(|(q, k)| q * k).sum::<f64>() / (hd as f64).sqrt()).collect();
    let most = scores.iter().fold(f64::MIN, |a, b| a.max(*b));
    let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
    let weigh = |d: usize| visible.iter().zip(&scores).map(|(&j, s)| (s - most).exp() / sum * v[at(j) + d]).sum();
    (0..hd).map(weigh).collect()
}

struct Expected {
    o: Vec<f64>,
    dq: Vec<f64>,
    dk: Vec<f64>,
    dv: Vec<f64>,
}

/// Of `Σ o·d_o`, by central differences.
fn expected(case: &Case, q: &[f32], k: &[f32], v: &[f32], d_o: &[f32]) -> Expected {
    let (s, visible) = (&case.shape, case.visible());
    let (mut q, mut k, mut v, d_o) = (widened(q), widened(k), widened(v), widened(d_o));
    let (hd, repeat) = (s.head_dim, s.repeat());
    let share = |q: &[f64], k: &[f64], v: &[f64], row: usize, head: usize| -> f64 {
        let o = plain(s, &visible[row], q, k, v, (row, head));
        o.iter().zip(&d_o[(row * s.heads + head) * hd..]).map(|(o, d)| o * d).sum()
    };
    // A key counts only for the rows that see it, and for the heads that share it.
    let shares = |q: &[f64], k: &[f64], v: &[f64], i: usize| -> f64 {
        let (j, kv_head) = (i / hd / s.kv_heads, i / hd % s.kv_heads);
        let rows = (0..case.rows()).filter(|&r| visible[r].contains(&j));
        rows.flat_map(|r| (0..repeat).map(move |h| (r, kv_head * repeat + h))).map(|(r, h)| share(q, k, v, r, h)).sum()
    };
    let o = (0..case.rows() * s.heads).flat_map(|i| plain(s, &visible[i / s.heads], &q, &k, &v, (i / s.heads, i % s.heads))).collect();
    let dq = (0..q.len()).map(|i| difference(&mut q, i, |q| share(q, &k, &v, i / hd / s.heads, i / hd % s.heads))).collect();
    let dk = (0..k.len()).map(|i| difference(&mut k, i, |k| shares(&q, k, &v, i))).collect();
    let dv = (0..v.len()).map(|i| difference(&mut v, i, |v| shares(&q, &k, v, i))).collect();
    Expected { o, dq, dk, dv }
}

/// Rows of `width` to rows of a padded stride, and back.
fn strided(from: &[f32], width: usize, stride: usize) -> Vec<f32> {
    let mut to = vec![f32::NAN; from.len() / width * stride];
    for (to, from) in to.chunks_mut(stride).zip(from.chunks(width)) {
        to[..width].copy_from_slice(from);
    }
    to
}
fn dense(from: &[f32], width: usize, stride: usize) -> Vec<f32> {
    from.chunks(stride).flat_map(|row| row[..width].to_vec()).collect()
}

/// The kernels' o, dq, dk, dv. Memory they must not count on holds NaN.
fn kernels(case: &Case, level: Level, threads: usize, [q, k, v, d_o]: [&[f32]; 4]) -> [Vec<f32>; 4] {
    const LAYER: usize = 1;
    let (s, rows) = (case.shape, case.rows());
    let (hd, hdp) = (s.head_dim, pad16(s.head_dim));
    let (width, kv_width, stride) = (s.heads * hd, s.kv_heads * hd, pad16(s.heads * hd));
    let mut exec = Exec::new(level, threads);
    let (mut own, mut memory, mut turned_memory) = (Vec::new(), Vec::new(), Vec::new());
    for (node, &len) in case.lengths.iter().enumerate() {
        let capacity = pad16(len);
        let start = case.path(node).iter().map(|&n| case.lengths[n]).sum::<usize>() - len;
        memory.push(vec![f32::NAN; 2 * s.layer_floats(capacity)]);
        turned_memory.push(vec![f32::NAN; Turned::floats(&s, capacity)]);
        own.push(Span { base: memory[node].as_mut_ptr(), layer_stride: s.layer_floats(capacity), capacity, start, len });
        for slot in 0..len {
            let at = (case.first_row(node) + slot) * kv_width;
            unsafe { write_cache(&s, &own[node], LAYER, slot, k[at..].as_ptr(), v[at..].as_ptr()) };
        }
    }
    let turned: Vec<Turned> =
        own.iter().zip(&mut turned_memory).map(|(span, m)| unsafe { Turned::at(&s, span.capacity, m.as_mut_ptr()) }).collect();
    let (mut groups, mut spans, mut span_index) = (Vec::new(), Vec::new(), Vec::new());
    for node in 0..own.len() {
        let first = spans.len();
        for n in case.path(node) {
            span_index.push(n);
            spans.push(own[n]);
        }
        groups.push(Group { row: case.first_row(node), rows: own[node].len, start: own[node].start, spans: first..spans.len() });
    }
    let tiles = query_tiles(&groups, &s);
    let roots: Vec<usize> = (0..own.len()).filter(|&n| case.parents[n] < 0).chain([own.len()]).collect();
    let tile_of = |node: usize| tiles.partition_point(|t| t.group < node);
    let trees: Vec<Tree> = roots.windows(2).map(|r| Tree { tiles: tile_of(r[0])..tile_of(r[1]), spans: r[0]..r[1] }).collect();

    let (q, d_o) = (strided(q, width, stride), strided(d_o, width, stride));
    let (mut o, mut dq) = (vec![f32::NAN; rows * stride], vec![f32::NAN; rows * stride]);
    let mut stats = vec![f32::NAN; rows * s.heads * 2];
    unsafe {
        let f = Forward {
            shape: s,
            groups: &groups,
            spans: &spans,
            layer: LAYER,
            q: q.as_ptr(),
            q_row: stride,
            o: o.as_mut_ptr(),
            o_row: stride,
            stats: stats.as_mut_ptr(),
        };
        attention(&mut exec, &f, &tiles).unwrap();
        let b = Backward {
            shape: s,
            groups: &groups,
            spans: &spans,
            layer: LAYER,
            q: q.as_ptr(),
            o: o.as_ptr(),
            d_o: d_o.as_ptr(),
            dq: dq.as_mut_ptr(),
            row: stride,
            stats: stats.as_ptr(),
            turned: &turned,
        };
        attention_backward(&mut exec, &b, &own, &tiles, &trees, &span_index).unwrap();
    }
    let by_row = |part: fn(&Turned) -> *mut f32| -> Vec<f32> {
        let mut out = Vec::new();
        for (node, span) in own.iter().enumerate() {
            for slot in 0..span.len {
                for head in 0..s.kv_heads {
                    let at = (head * span.capacity + slot) * hdp;
                    out.extend_from_slice(unsafe { std::slice::from_raw_parts(part(&turned[node]).add(at), hd) });
                }
            }
        }
        out
    };
    [dense(&o, width, stride), dense(&dq, width, stride), by_row(|t| t.d_keys), by_row(|t| t.d_values)]
}

fn check(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>, lengths: &[usize], parents: &[i32]) {
    let shape = Shape { heads, kv_heads, head_dim, scale: 1.0 / (head_dim as f32).sqrt(), window: window.unwrap_or(usize::MAX) };
    let case = Case { shape, lengths: lengths.to_vec(), parents: parents.to_vec() };
    // Spread so that the softmax is neither flat nor one token.
    let wide = |seed: u64, n: usize| -> Vec<f32> { noise(seed, n).iter().map(|x| 3.0 * x).collect() };
    let (q, d_o) = (wide(1, case.rows() * heads * head_dim), wide(4, case.rows() * heads * head_dim));
    let (k, v) = (wide(2, case.rows() * kv_heads * head_dim), wide(3, case.rows() * kv_heads * head_dim));
    let e = expected(&case, &q, &k, &v, &d_o);
    for level in Level::available() {
        for threads in [1, 3] {
            let got = kernels(&case, level, threads, [&q, &k, &v, &d_o]);
            let which = format!("{} {heads}/{kv_heads}x{head_dim} window {window:?} nodes {lengths:?}", level.name());
            for ((got, expected), name) in got.iter().zip([&e.o, &e.dq, &e.dk, &e.dv]).zip(["o", "dq", "dk", "dv"]) {
                assert_near(got, expected, 3e-6, &format!("{which} {name}"));
            }
        }
    }
}

#[test]
fn one_row_and_seventeen_for_head_sizes_beside_the_vector_width() {
    for head_dim in [2, 12, 16, 20, 33] {
        for rows in [1, 17] {
            check(2, 2, head_dim, None, &[rows], &[-1]);
        }
    }
}

#[test]
fn heads_that_share_keys() {
    check(4, 2, 12, None, &[17], &[-1]);
    check(6, 1, 20, None, &[7], &[-1]);
}

#[test]
fn sliding_windows_inside_a_block_across_blocks_and_of_one_token() {
    for window in [1, 5, 16, 18, 40] {
        check(2, 1, 12, Some(window), &[37], &[-1]);
    }
}

#[test]
fn more_rows_than_a_tile_holds() {
    check(2, 1, 6, None, &[101], &[-1]);
    check(2, 2, 6, Some(30), &[101], &[-1]);
}

#[test]
fn paths_of_several_spans_in_several_trees() {
    let (lengths, parents) = ([9, 4, 18, 3, 1, 17, 1], [-1, 0, 0, 1, 1, -1, 5]);
    check(4, 2, 12, None, &lengths, &parents);
    check(2, 1, 20, Some(7), &lengths, &parents);
    check(2, 1, 6, Some(20), &[33, 1, 16, 5], &[-1, 0, 1, 2]);
}
