//! Gradient products whose operands are rounded to bf16: those of operands that were rounded beforehand, to the bit, and nothing else changes.

mod common;
use common::*;
use stateset_engine::form::{from_bf16, to_bf16};
use stateset_engine::gemm::{Exec, GradInput, GradWeight, Mode, grad_input, grad_weight};
use stateset_engine::simd::{Level, pad16};
use stateset_engine::*;

/// `dX` and `dW` of `dy [m, n]`, `x [m, k]` and panels of `w [n, k]`.
fn products(exec: &mut Exec, (m, n, k): (usize, usize, usize), dy: &[f32], x: &[f32], w: &[f32]) -> (Vec<u32>, Vec<u32>) {
    let (np, kp) = (pad16(n), pad16(k));
    let (mut dx, mut dw) = (vec![0f32; m * kp], vec![1f32; np * k]);
    unsafe {
        // Two matrices with one input, as q, k and v have.
        let back = GradInput::of(w.as_ptr(), n, dy.as_ptr(), np);
        grad_input(exec, &[back, back], m, k, dx.as_mut_ptr(), kp, Mode::Set).unwrap();
        grad_weight(exec, x.as_ptr(), kp, m, k, &[GradWeight { dy: dy.as_ptr(), dy_row: np, n, dw: dw.as_mut_ptr() }]).unwrap();
    }
    (bits(&dx), bits(&dw))
}

#[test]
fn they_are_the_products_of_rounded_operands_on_every_path() {
    for shape in [(1, 5, 7), (13, 100, 17), (200, 70, 40), (16, 1100, 20), (40, 64, 64)] {
        let (m, n, k) = shape;
        let (np, kp) = (pad16(n), pad16(k));
        let padded = |stream: u64, width: usize, padded: usize| -> Vec<f32> {
            (0..m * padded).map(|i| if i % padded < width { uniform(stream, i) } else { 0.0 }).collect()
        };
        let (dy, x) = (padded(1, n, np), padded(2, k, kp));
        let w: Vec<f32> = (0..np * k).map(|i| if i / (16 * k) * 16 + i % 16 < n { uniform(3, i) } else { 0.0 }).collect();
        let rounded = |values: &[f32]| -> Vec<f32> { values.iter().map(|&value| from_bf16(to_bf16(value))).collect() };
        let mut first = None;
        for level in Level::available() {
            for threads in [1, 3] {
                let mut exec = Exec::new(level, threads);
                let expected = products(&mut exec, shape, &rounded(&dy), &rounded(&x), &rounded(&w));
                let exact = products(&mut exec, shape, &dy, &x, &w);
                exec.gradients = Precision::Bf16;
                let got = products(&mut exec, shape, &dy, &x, &w);
                assert!(got == expected && got != exact, "{shape:?} {level:?} threads {threads}");
                assert!(*first.get_or_insert_with(|| got.clone()) == got, "{shape:?} {level:?} threads {threads}");
            }
        }
    }
}

#[test]
fn scores_stay_what_they_are_and_gradients_are_near() {
    for (flavour, lora) in [("gpt2", false), ("qwen3", false), ("llama", true)] {
        let [exact, rounded] = [Precision::F32, Precision::Bf16].map(|precision| {
            let mut m = trained(flavour, lora);
            m.set_gradient_precision(precision);
            let scores = present(&mut m);
            add_gradients(&mut m);
            (scores, m.read_flat(Flat::Gradients).unwrap())
        });
        assert_eq!(exact.0, rounded.0);
        let norm = |of: &mut dyn Iterator<Item = f32>| of.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let apart = norm(&mut exact.1.iter().zip(&rounded.1).map(|(a, b)| a - b)) / norm(&mut exact.1.iter().copied());
        assert!(apart > 1e-5 && apart < 0.02, "{flavour}: {apart}");
    }
}
