//! Every kernel on its own: matrix products against double precision, backward kernels against finite differences.

mod common;
use common::uniform;
use stateset_engine::gemm::{Exec, GradInput, GradWeight, Job, Mode, forward, grad_input, grad_weight};
use stateset_engine::kernel::activation::{activate, activate_backward};
use stateset_engine::kernel::adamw::{self, At, Range, Update};
use stateset_engine::kernel::head::{CHUNK, HeadForward, RowLogProbs, head_forward, head_rows, head_slopes, largest, log_softmax_at};
use stateset_engine::kernel::norm::{NormRow, norm_backward, norm_forward, norm_parameters};
use stateset_engine::kernel::rope::Rope;
use stateset_engine::pool::Pool;
use stateset_engine::simd::{Level, pad16};
use stateset_engine::{Mlp, Norm};

fn noise(stream: u64, n: usize) -> Vec<f32> {
    (0..n).map(|i| uniform(stream, i)).collect()
}

fn panels(w: &[f32], n: usize, k: usize) -> Vec<f32> {
    let mut p = vec![0f32; pad16(n) * k];
    for row in 0..n {
        for col in 0..k {
            p[(row / 16 * k + col) * 16 + row % 16] = w[row * k + col];
        }
    }
    p
}

fn near(got: f32, expected: f64, scale: f64, what: &str) {
    assert!((f64::from(got) - expected).abs() < 1e-5 * (1.0 + scale), "{what}: {got} against {expected}");
}

#[test]
fn the_three_products_agree_with_double_precision_on_every_path() {
    for level in Level::available() {
        for threads in [1, 3] {
            let mut exec = Exec::new(level, threads);
            for (m, n, k) in [(1, 5, 7), (2, 40, 33), (13, 100, 17), (29, 33, 290), (200, 70, 40), (16, 1100, 20)] {
                let (np, kp) = (pad16(n), pad16(k));
                let w = noise(1, n * k);
                let p = panels(&w, n, k);
                let mut x = vec![0f32; m * kp];
                let mut dy = vec![0f32; m * np];
                for t in 0..m {
                    x[t * kp..t * kp + k].copy_from_slice(&noise(2 + t as u64, k));
                    dy[t * np..t * np + n].copy_from_slice(&noise(500 + t as u64, n));
                }
                let bias: Vec<f32> = noise(3, np);
                let add = noise(4, m * np);
                let mut y = vec![0f32; m * np];
                let mut dx = vec![0f32; m * kp];
                let mut dw = vec![1f32; np * k];
                let job = Job { bias: bias.as_ptr(), add: add.as_ptr(), ..Job::of(p.as_ptr(), n, y.as_mut_ptr(), np) };
                let back = GradInput::of(p.as_ptr(), n, dy.as_ptr(), np);
                unsafe {
                    forward(&mut exec, x.as_ptr(), kp, m, k, &[job]).unwrap();
                    grad_input(&mut exec, &[back, back], m, k, dx.as_mut_ptr(), kp, Mode::Set).unwrap();
                    grad_weight(&mut exec, x.as_ptr(), kp, m, k, &[GradWeight { dy: dy.as_ptr(), dy_row: np, n, dw: dw.as_mut_ptr() }])
                        .unwrap();
                }
                for t in 0..m {
                    for i in 0..n {
                        let dot: f64 = (0..k).map(|j| f64::from(x[t * kp + j]) * f64::from(w[i * k + j])).sum();
                        let expected = dot + f64::from(bias[i]) + f64::from(add[t * np + i]);
                        near(y[t * np + i], expected, (k as f64).sqrt(), "y");
                    }
                    for j in 0..k {
                        let dot: f64 = (0..n).map(|i| f64::from(dy[t * np + i]) * f64::from(w[i * k + j])).sum();
                        near(dx[t * kp + j], 2.0 * dot, (n as f64).sqrt(), "dx");
                    }
                }
                for i in 0..n {
                    for j in 0..k {
                        let dot: f64 = (0..m).map(|t| f64::from(dy[t * np + i]) * f64::from(x[t * kp + j])).sum();
                        near(dw[(i / 16 * k + j) * 16 + i % 16], 1.0 + dot, (m as f64).sqrt(), "dw");
                    }
                }
            }
        }
    }
}

/// Central differences of `f` at `x[i]`.
fn slope(x: &mut [f32], i: usize, eps: f32, mut f: impl FnMut(&[f32]) -> f64) -> f64 {
    let was = x[i];
    x[i] = was + eps;
    let (up, high) = (f(x), f64::from(x[i]));
    x[i] = was - eps;
    let (down, low) = (f(x), f64::from(x[i]));
    x[i] = was;
    (up - down) / (high - low)
}

#[test]
fn norm_gradients_match_finite_differences() {
    let level = Level::available()[0];
    for kind in [Norm::Rms, Norm::RmsPlusOne, Norm::Layer] {
        let (h, hp) = (21, 32);
        let padded = |stream: u64| -> Vec<f32> { (0..hp).map(|i| if i < h { uniform(stream, i) } else { 0.0 }).collect() };
        let (mut x, mut w, mut b, d) = (padded(1), padded(2), padded(3), padded(4));
        let run = |x: &[f32], w: &[f32], b: &[f32], stats: *mut f32| -> f64 {
            let n =
                NormRow { kind, h, eps: 1e-5, weight: w.as_ptr(), bias: if kind == Norm::Layer { b.as_ptr() } else { std::ptr::null() } };
            let mut y = vec![0f32; hp];
            unsafe { norm_forward(level, &n, 1, x.as_ptr(), hp, y.as_mut_ptr(), hp, stats) };
            y.iter().zip(&d).map(|(y, d)| f64::from(*y) * f64::from(*d)).sum()
        };
        let mut stats = [0f32; 2];
        run(&x, &w, &b, stats.as_mut_ptr());
        let n = NormRow { kind, h, eps: 1e-5, weight: w.as_ptr(), bias: std::ptr::null() };
        let (mut dx, mut dw, mut db) = (vec![0f32; hp], vec![0f32; hp], vec![0f32; hp]);
        unsafe {
            norm_backward(level, &n, 1, x.as_ptr(), hp, stats.as_ptr(), d.as_ptr(), hp, dx.as_mut_ptr(), hp);
            norm_parameters(level, 0, hp, 1, x.as_ptr(), hp, stats.as_ptr(), d.as_ptr(), hp, dw.as_mut_ptr(), db.as_mut_ptr());
        }
        let null = std::ptr::null_mut();
        for i in 0..h {
            let (w0, b0, x0) = (w.clone(), b.clone(), x.clone());
            assert!((slope(&mut x, i, 1e-2, |x| run(x, &w0, &b0, null)) - f64::from(dx[i])).abs() < 2e-3, "{kind:?} dx {i}");
            assert!((slope(&mut w, i, 1e-1, |w| run(&x0, w, &b0, null)) - f64::from(dw[i])).abs() < 1e-4, "{kind:?} dw {i}");
            if kind == Norm::Layer {
                assert!((slope(&mut b, i, 1e-1, |b| run(&x0, &w0, b, null)) - f64::from(db[i])).abs() < 1e-4, "{kind:?} db {i}");
            }
        }
    }
}

#[test]
fn activation_gradients_match_finite_differences() {
    let level = Level::available()[0];
    for kind in [Mlp::SwiGlu, Mlp::GeGlu, Mlp::GeluTanh, Mlp::Gelu] {
        let n = 64;
        let (mut gate, mut up, d) = (noise(1, n), noise(2, n), noise(3, n));
        for i in 0..n {
            gate[i] *= 4.0;
            up[i] *= 4.0;
        }
        let run = |gate: &[f32], up: &[f32]| -> Vec<f32> {
            let mut y = vec![0f32; n];
            unsafe { activate(level, kind, n, gate.as_ptr(), up.as_ptr(), y.as_mut_ptr()) };
            y
        };
        let total = |y: Vec<f32>| -> f64 { y.iter().zip(&d).map(|(y, d)| f64::from(*y) * f64::from(*d)).sum() };
        let (mut dg, mut du, mut da) = (gate.clone(), up.clone(), d.clone());
        unsafe { activate_backward(level, kind, n, dg.as_mut_ptr(), du.as_mut_ptr(), da.as_mut_ptr()) };
        assert!(da == run(&gate, &up), "backward leaves the activation");
        for i in 0..n {
            let (g0, u0) = (gate.clone(), up.clone());
            assert!((slope(&mut up, i, 1e-2, |u| total(run(&g0, u))) - f64::from(du[i])).abs() < 2e-3, "{kind:?} up {i}");
            if kind.is_gated() {
                assert!((slope(&mut gate, i, 1e-2, |g| total(run(g, &u0))) - f64::from(dg[i])).abs() < 2e-3, "gate {i}");
            }
        }
    }
}

#[test]
fn rotation_back_is_the_transpose() {
    let mut rope = Rope::new(12, 10_000.0, stateset_engine::RopeScaling::None);
    rope.grow(50).unwrap();
    assert_eq!(rope.grow(usize::MAX).unwrap_err().code, "OUT_OF_MEMORY");
    let (a, b) = (noise(1, 12), noise(2, 12));
    let (mut ra, mut rb) = (a.clone(), b.clone());
    rope.rotate(&mut ra, 37);
    rope.rotate_back(&mut rb, 37);
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
    assert!((dot(&ra, &b) - dot(&a, &rb)).abs() < 1e-5);
}

#[test]
fn the_head_gives_log_softmax_entropy_and_their_gradients() {
    for level in Level::available() {
        let mut exec = Exec::new(level, 2);
        let (rows, vocab, k) = (5, 1203, 8);
        let (vp, kp) = (pad16(vocab), pad16(k));
        let w = panels(&noise(1, vocab * k), vocab, k);
        let mut x = vec![0f32; rows * kp];
        for t in 0..rows {
            x[t * kp..t * kp + k].copy_from_slice(&noise(7 + t as u64, k));
        }
        let targets = [0u32, 1202, 1023, 1024, 600];
        let temperature = 0.7;
        let mut logits = vec![0f32; rows * vp];
        let f = HeadForward {
            hidden: x.as_ptr(),
            hidden_row: kp,
            rows,
            w: w.as_ptr().into(),
            split: std::ptr::null(),
            vocab,
            k,
            temperatures: &[temperature; 5],
            entropy: true,
            keep: logits.as_mut_ptr(),
        };
        let (log_probs, stats) = unsafe { head_forward(&mut exec, &f, &targets).unwrap() };
        // As sampling has them: of rows that are kept, by threads that share a chunk.
        let parts = unsafe { head_rows(&mut exec, &f).unwrap() };
        let of_row = |t: usize| &parts[t * vocab.div_ceil(CHUNK)..(t + 1) * vocab.div_ceil(CHUNK)];
        let (g, h) = (noise(21, rows), noise(22, rows));
        let kept = logits.clone();
        unsafe { head_slopes(&exec, (logits.as_mut_ptr(), vp), None, (0, vocab), (temperature, &stats, &targets), &g, Some(&h)) };
        for t in 0..rows {
            let row = &kept[t * vp..t * vp + vocab];
            assert_eq!(log_softmax_at(level, row, temperature, targets[t] as usize).to_bits(), log_probs[t].to_bits());
            let sampled = RowLogProbs::of_parts(of_row(t), temperature).at(row[targets[t] as usize]);
            assert_eq!(sampled.to_bits(), log_probs[t].to_bits());
            assert_eq!(largest(of_row(t)), row.iter().copied().fold(f32::MIN, f32::max));
            let z: Vec<f64> = row.iter().map(|x| f64::from(*x) / f64::from(temperature)).collect();
            let log_sum = z.iter().map(|z| z.exp()).sum::<f64>().ln();
            let entropy: f64 = z.iter().map(|z| -(z - log_sum).exp() * (z - log_sum)).sum();
            near(log_probs[t], z[targets[t] as usize] - log_sum, 1.0, "log-prob");
            near(stats[t].entropy, entropy, 10.0, "entropy");
            for v in 0..vocab {
                let (p, lp) = ((z[v] - log_sum).exp(), z[v] - log_sum);
                let delta = f64::from(u8::from(v == targets[t] as usize));
                let expected = (f64::from(g[t]) * (delta - p) - f64::from(h[t]) * p * (lp + entropy)) / f64::from(temperature);
                near(logits[t * vp + v], expected, 0.0, "slope");
            }
            assert!(logits[t * vp + vocab..(t + 1) * vp].iter().all(|x| *x == 0.0));
        }
    }
}

#[test]
fn a_logit_that_is_no_number_is_seen_wherever_it_is() {
    for level in Level::available() {
        let (mut exec, vocab) = (Exec::new(level, 2), 1203);
        for broken in [0, 500, 1023, 1024, 1202] {
            let mut rows = noise(3, vocab);
            rows[broken] = f32::NAN;
            let (w, mut logits) = (panels(&rows, vocab, 1), vec![0f32; pad16(vocab)]);
            let f = HeadForward {
                hidden: [1.0].as_ptr(),
                hidden_row: 16,
                rows: 1,
                w: w.as_ptr().into(),
                split: std::ptr::null(),
                vocab,
                k: 1,
                temperatures: &[1.0],
                entropy: false,
                keep: logits.as_mut_ptr(),
            };
            let parts = unsafe { head_rows(&mut exec, &f).unwrap() };
            assert!(largest(&parts).is_nan(), "{broken} on {level:?}");
        }
    }
}

#[test]
fn adamw_follows_its_formula() {
    let n = 48;
    let (mut p, mut m, mut v) = (noise(1, n), vec![0f32; n], vec![0f32; n]);
    let start = p.clone();
    let (rate, b1, b2, eps, decay) = (1e-2f64, 0.9f64, 0.999f64, 1e-8f64, 0.1f64);
    let mut expected: Vec<(f64, f64, f64)> = start.iter().map(|x| (f64::from(*x), 0.0, 0.0)).collect();
    for step in 1..=5 {
        let gradient = noise(10 + step, n);
        let mut g = gradient.clone();
        let t = step as i32;
        let update = Update {
            rate: rate as f32,
            beta1: b1 as f32,
            beta2: b2 as f32,
            eps: eps as f32,
            decay: decay as f32,
            gradient_scale: 0.5,
            correction1: (1.0 - b1.powi(t)) as f32,
            correction2_sqrt: (1.0 - b2.powi(t)).sqrt() as f32,
        };
        let moments = At::F32 { m: m.as_mut_ptr(), v: v.as_mut_ptr() };
        let range = Range { data: p.as_mut_ptr(), grad: g.as_mut_ptr(), moments, len: n, update };
        unsafe { adamw::adamw(Level::available()[0], &Pool::new(2), &[range]) };
        assert!(g.iter().all(|x| *x == 0.0), "the gradient is cleared");
        for (i, e) in expected.iter_mut().enumerate() {
            let g = 0.5 * f64::from(gradient[i]);
            e.1 = b1 * e.1 + (1.0 - b1) * g;
            e.2 = b2 * e.2 + (1.0 - b2) * g * g;
            let denominator = e.2.sqrt() / (1.0 - b2.powi(t)).sqrt() + eps;
            e.0 = e.0 * (1.0 - rate * decay) - rate / (1.0 - b1.powi(t)) * e.1 / denominator;
        }
    }
    for (p, e) in p.iter().zip(&expected) {
        near(*p, e.0, 0.0, "parameter");
    }
}
