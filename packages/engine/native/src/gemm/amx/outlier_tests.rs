//! The forward product from digits on rows that are not noise: outliers, zeros, denormals, magnitudes mixed along the row.
//! One scale a row means that what is left out is relative to the row's largest entry; these tests hold it to that, and say what it comes to.
//!
//! The sums of digits are exact, so they can be computed without the unit: where the machine splits rows (AVX-512 VBMI) the error is
//! checked, and where it has the unit too, that it gives the same bits.

use super::digits::{self, STEP, STEP_BYTES, TILE, steps};
use super::{available, forward};
use crate::buffer::Buffer;
use crate::gemm::{Exec, Job, forward_on};
use crate::kernel::counter_uniform;
use crate::kernel::head::RowLogProbs;
use crate::simd::Level;

const ROWS: usize = 19;
const N: usize = 48;

fn uniform(stream: u64, i: usize) -> f32 {
    2.0 * counter_uniform(5, stream, i as u64) - 1.0
}

/// Sum of uniforms: about normal, deviation 1.
fn normal(stream: u64, i: usize) -> f32 {
    (0..12).map(|part| counter_uniform(6 + part, stream, i as u64)).sum::<f32>() - 6.0
}

fn splits() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vbmi")
}

/// `[n, k]` in panels of 16 outputs.
fn panels(w: &[f32], n: usize, k: usize) -> Buffer {
    let mut p = Buffer::zeroed(n.div_ceil(16) * 16 * k, "panels").unwrap();
    for i in 0..n * k {
        let (row, col) = (i / k, i % k);
        p[(row / 16 * k + col) * 16 + row % 16] = w[i];
    }
    p
}

/// What the unit computes, without it: `finish` of `forward.rs` on sums of the six products of digits.
fn by_digits(x: &[f32], w: &Buffer, m: usize, n: usize, k: usize) -> Vec<f32> {
    let bytes = steps(k) * STEP_BYTES;
    let split = |fill: &dyn Fn(*mut u8, *mut f32)| {
        let to = Buffer::zeroed(bytes / 4, "digits").unwrap();
        let mut scales = [0f32; 16];
        fill(to.pointer().cast(), scales.as_mut_ptr());
        (to, scales)
    };
    let digit = |b: &Buffer, d: usize, at: usize| i64::from(unsafe { *b.pointer().cast::<i8>().add(d * TILE + at) });
    let mut y = vec![0f32; m * n];
    for tile in 0..m.div_ceil(16) {
        let (left, row_scales) = split(&|to, scales| unsafe { digits::rows(x[tile * 16 * k..].as_ptr(), k, m - tile * 16, k, to, scales) });
        for panel in 0..n.div_ceil(16) {
            let (right, scales) = split(&|to, scales| unsafe { digits::panel(w[panel * 16 * k..].as_ptr(), k, to, scales) });
            for (row, col) in (0..16.min(m - tile * 16)).flat_map(|r| (0..16.min(n - panel * 16)).map(move |c| (r, c))) {
                let mut sums = [0i64; 3];
                for i in 0..k {
                    let step = i / STEP * STEP_BYTES;
                    let (a, b) = (step + row * 64 + i % STEP, step + i % STEP / 4 * 64 + col * 4 + i % 4);
                    for (p, q) in [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)] {
                        sums[p + q] += digit(&left, p, a) * digit(&right, q, b);
                    }
                }
                let [high, middle, low] = sums.map(|s| i32::try_from(s).expect("the unit sums in int32") as f32);
                let all = high.mul_add(65536.0, middle.mul_add(256.0, low));
                y[(tile * 16 + row) * n + panel * 16 + col] = all * (scales[col] * 65536.0) * row_scales[row];
            }
        }
    }
    y
}

/// Names and rows; a row is drawn by its number and length.
type Draw = fn(usize, usize) -> Vec<f32>;
const DRAWS: [(&str, Draw); 8] = [
    ("noise", |r, k| (0..k).map(|i| uniform(r as u64, i)).collect()),
    ("one outlier of 1e4 among 1e-2", |r, k| (0..k).map(|i| if i == r * 7 % k { 1e4 } else { 1e-2 * uniform(r as u64, i) }).collect()),
    ("one outlier of 1e3 among 1e-2", |r, k| (0..k).map(|i| if i == r * 5 % k { -1e3 } else { 1e-2 * normal(r as u64, i) }).collect()),
    ("zeros, every second row", |r, k| (0..k).map(|i| if r % 2 == 0 { 0.0 } else { uniform(r as u64, i) }).collect()),
    ("denormals", |r, k| (0..k).map(|i| 1e-39 * uniform(r as u64, i)).collect()),
    ("denormals beside ones", |r, k| (0..k).map(|i| if i % 3 == 0 { uniform(r as u64, i) } else { 1e-39 }).collect()),
    ("magnitudes from 1e-12 to 1e12", |r, k| (0..k).map(|i| normal(r as u64, i) * 10f32.powi((i * 7 + r) as i32 % 25 - 12)).collect()),
    ("outlier channels", |r, k| (0..k).map(|i| normal(r as u64, i) * if i % 97 == 3 { 60.0 } else { 1.0 }).collect()),
];

#[test]
fn what_is_left_out_is_relative_to_the_largest_entries_whatever_the_rows() {
    if !splits() {
        eprintln!("no AVX-512 VBMI on this machine: nothing to check");
        return;
    }
    if !available() {
        eprintln!("no AMX on this machine: the arithmetic is checked, the unit is not");
    }
    for k in [40usize, 256, 1000] {
        for (x_name, draw_x) in DRAWS {
            for (w_name, draw_w) in DRAWS {
                let x: Vec<f32> = (0..ROWS).flat_map(|r| draw_x(r, k)).collect();
                let w: Vec<f32> = (0..N).flat_map(|r| draw_w(100 + r, k)).collect();
                let panels = panels(&w, N, k);
                let y = by_digits(&x, &panels, ROWS, N, k);
                if available() {
                    for m in [ROWS, 1] {
                        let mut unit = vec![f32::NAN; m * N];
                        let mut exec = Exec::new(Level::available()[0], 2);
                        let job = Job::of(panels.as_ptr(), N, unit.as_mut_ptr(), N);
                        unsafe { forward(&mut exec, x.as_ptr(), k, m, k, &[job]).unwrap() };
                        let same = unit.iter().zip(&y).all(|(a, b)| a.to_bits() == b.to_bits() || (*a == 0.0 && *b == 0.0));
                        assert!(same, "k {k}, x {x_name}, w {w_name}: the unit gives other bits");
                    }
                }
                for (row, col) in (0..ROWS).flat_map(|r| (0..N).map(move |c| (r, c))) {
                    let (x, w) = (&x[row * k..][..k], &w[col * k..][..k]);
                    let exact: f64 = x.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let size: f64 = x.iter().zip(w).map(|(a, b)| (f64::from(*a) * f64::from(*b)).abs()).sum();
                    let largest = |v: &[f32]| v.iter().fold(0f64, |m, v| m.max(f64::from(v.abs())));
                    // Rounding and the three products of digits left out: below 2⁻²² of the largest entries for each product of the sum;
                    // then the sum itself, rounded to f32. Rows below 1e-30 are taken for zero, and so is what is below f32's range.
                    let taken = |v: &[f32]| if largest(v) < 1e-30 { 0.0 } else { 1.0 };
                    let kept = taken(x) * taken(w);
                    let bound = k as f64 * largest(x) * largest(w) * f64::powi(2.0, -22) + size * f64::powi(2.0, -22) + 1e-37;
                    let error = (f64::from(y[row * N + col]) - kept * exact).abs();
                    assert!(error <= bound, "k {k}, x {x_name}, w {w_name}: {error:e}, allowed {bound:e}");
                }
            }
        }
    }
}

/// Largest difference of log-probs from those in f64, by digits and by the vector path, of a head over hidden states with outlier channels.
fn log_prob_errors(ratio: f32) -> (f64, f64) {
    let (m, n, k) = (16, 512, 576);
    let outlier = |i: usize| i % 190 == 7;
    // What a trained model looks like: the outliers are the same channels at every token, and the weights that read them are small.
    let x: Vec<f32> = (0..m * k).map(|i| normal(1, i) * if outlier(i % k) { ratio } else { 1.0 }).collect();
    let w: Vec<f32> = (0..n * k).map(|i| 0.15 * normal(2, i) / if outlier(i % k) { ratio } else { 1.0 }).collect();
    let panels = panels(&w, n, k);
    let digits = by_digits(&x, &panels, m, n, k);
    let mut vector = vec![0f32; m * n];
    let mut exec = Exec::new(Level::available()[0], 1);
    unsafe { forward_on(&mut exec, false, x.as_ptr(), k, m, k, &[Job::of(panels.as_ptr(), n, vector.as_mut_ptr(), n)]).unwrap() };
    let (mut worst, mut worst_vector) = (0f64, 0f64);
    for row in 0..m {
        let exact: Vec<f64> = (0..n).map(|col| (0..k).map(|i| f64::from(x[row * k + i]) * f64::from(w[col * k + i])).sum()).collect();
        let log_sum = exact.iter().map(|z| z.exp()).sum::<f64>().ln();
        for (y, worst) in [(&digits, &mut worst), (&vector, &mut worst_vector)] {
            let logits = &y[row * n..][..n];
            let of = RowLogProbs::of(Level::available()[0], logits, 1.0);
            for col in 0..n {
                *worst = worst.max((f64::from(of.at(logits[col])) - (exact[col] - log_sum)).abs());
            }
        }
    }
    (worst, worst_vector)
}

#[test]
fn outlier_channels_cost_log_probs_in_proportion_to_how_far_they_stand_out() {
    if !splits() {
        eprintln!("no AVX-512 VBMI on this machine: nothing to check");
        return;
    }
    for (ratio, allowed) in [(1.0, 1.5e-5), (30.0, 2.5e-4), (1000.0, 8e-3)] {
        let (digits, vector) = log_prob_errors(ratio);
        println!("outliers {ratio} times the rest: log-probs within {digits:.1e} by digits, {vector:.1e} by vectors");
        assert!(digits < allowed, "{ratio}: {digits:e}");
        assert!(vector < 2e-5, "{ratio}: {vector:e} by vectors");
    }
}
