//! Gradient products whose operands are rounded to bf16: those of operands that were rounded beforehand, and nothing else changes.

mod common;
use common::*;
use stateset_engine::form::{from_bf16, to_bf16};
use stateset_engine::gemm::{Exec, GradInput, GradWeight, Mode, grad_input, grad_weight, pairs_available};
use stateset_engine::simd::{Level, pad16};
use stateset_engine::*;

const SHAPES: [(usize, usize, usize); 6] = [(1, 5, 7), (13, 100, 17), (200, 70, 40), (16, 1100, 20), (40, 64, 64), (163, 33, 50)];

struct Operands {
    dy: Vec<f32>,
    x: Vec<f32>,
    w: Vec<f32>,
}

impl Operands {
    /// Zeros between rows and their padding.
    fn of((m, n, k): (usize, usize, usize)) -> Operands {
        let (np, kp) = (pad16(n), pad16(k));
        let padded = |stream: u64, width: usize, padded: usize| -> Vec<f32> {
            (0..m * padded).map(|i| if i % padded < width { uniform(stream, i) } else { 0.0 }).collect()
        };
        let w = (0..np * k).map(|i| if i / (16 * k) * 16 + i % 16 < n { uniform(3, i) } else { 0.0 }).collect();
        Operands { dy: padded(1, n, np), x: padded(2, k, kp), w }
    }

    fn rounded(&self) -> Operands {
        let round = |values: &[f32]| values.iter().map(|&value| from_bf16(to_bf16(value))).collect();
        Operands { dy: round(&self.dy), x: round(&self.x), w: round(&self.w) }
    }
}

/// `dX` and `dW` of `dy [m, n]`, `x [m, k]` and panels of `w [n, k]`.
fn products(exec: &mut Exec, (m, n, k): (usize, usize, usize), Operands { dy, x, w }: &Operands) -> (Vec<u32>, Vec<u32>) {
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
fn they_are_the_products_of_rounded_operands_to_the_bit_where_f32_multiplies() {
    for shape in SHAPES {
        let operands = Operands::of(shape);
        let mut first = None;
        for level in Level::available() {
            for threads in [1, 3] {
                let mut exec = Exec::new(level, threads);
                let expected = products(&mut exec, shape, &operands.rounded());
                let exact = products(&mut exec, shape, &operands);
                exec.gradients = Precision::Bf16;
                let got = products(&mut exec, shape, &operands);
                assert!(got == expected && got != exact, "{shape:?} {level:?} threads {threads}");
                assert!(*first.get_or_insert_with(|| got.clone()) == got, "{shape:?} {level:?} threads {threads}");
            }
        }
    }
}

#[test]
fn they_are_the_products_of_rounded_operands_where_pairs_are_multiplied() {
    if !pairs_available() {
        return eprintln!("no AVX512-BF16 on this machine: nothing to check");
    }
    for shape in SHAPES {
        let operands = Operands::of(shape);
        let mut exec = Exec::new(Level::available()[0], 1);
        let expected = products(&mut exec, shape, &operands.rounded());
        let mut first = None;
        for threads in [1, 3] {
            let mut exec = Exec::new(Level::available()[0], threads);
            exec.set_pairs(true);
            assert!(products(&mut exec, shape, &operands) != expected, "{shape:?}: f32 stays f32");
            exec.gradients = Precision::Bf16;
            let got = products(&mut exec, shape, &operands);
            for (got, expected) in [(&got.0, &expected.0), (&got.1, &expected.1)] {
                let values = |bits: &[u32]| bits.iter().map(|&bits| f64::from(f32::from_bits(bits))).collect::<Vec<_>>();
                let (got, expected) = (values(got), values(expected));
                let size = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
                let apart = got.iter().zip(&expected).fold(0f64, |most, (a, b)| most.max((a - b).abs()));
                // The sums are rounded in another order, and nothing else.
                assert!(apart <= 2e-6 * size, "{shape:?} threads {threads}: {apart} of {size}");
            }
            assert!(*first.get_or_insert_with(|| got.clone()) == got, "{shape:?} threads {threads}");
        }
    }
}

#[test]
fn scores_stay_what_they_are_and_gradients_are_near() {
    let cases = [("gpt2", false), ("qwen3", false), ("llama", true)];
    for (flavour, lora, pairs) in [false, true].into_iter().flat_map(|pairs| cases.map(|(flavour, lora)| (flavour, lora, pairs))) {
        let [exact, rounded] = [Precision::F32, Precision::Bf16].map(|precision| {
            let mut m = trained(flavour, lora);
            m.set_gradient_precision(precision);
            m.set_pairs(pairs);
            let scores = present(&mut m);
            add_gradients(&mut m);
            (scores, m.read_flat(Flat::Gradients).unwrap())
        });
        assert_eq!(exact.0, rounded.0);
        let norm = |of: &mut dyn Iterator<Item = f32>| of.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        let apart = norm(&mut exact.1.iter().zip(&rounded.1).map(|(a, b)| a - b)) / norm(&mut exact.1.iter().copied());
        assert!(apart > 1e-5 && apart < 0.02, "{flavour} pairs {pairs}: {apart}");
    }
}
