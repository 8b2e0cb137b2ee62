//! AdamW with moments of two bytes: what they are on average, what they take, and what they do to learning.

mod common;
use common::*;
use stateset_engine::form::from_bf16;
use stateset_engine::kernel::adamw::{self, At, Chance, Range, Update};
use stateset_engine::pool::Pool;
use stateset_engine::simd::Level;
use stateset_engine::*;

const UPDATE: Update =
    Update { rate: 0.0, beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.0, gradient_scale: 1.0, correction1: 1.0, correction2_sqrt: 1.0 };

/// The moments of `n` parameters that have had the same gradients.
fn after(gradients: impl Iterator<Item = f32>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut p, mut m, mut v) = (vec![0f32; n], vec![0u16; n], vec![0u16; n]);
    let pool = Pool::new(2);
    for (step, gradient) in gradients.enumerate() {
        let mut g = vec![gradient; n];
        let chance = Chance { step: step as u64 + 1, store: 0, first: 0 };
        let moments = At::Bf16 { m: m.as_mut_ptr(), v: v.as_mut_ptr(), chance };
        let range = Range { data: p.as_mut_ptr(), grad: g.as_mut_ptr(), moments, len: n, update: UPDATE };
        unsafe { adamw::adamw(Level::available()[0], &pool, &[range]) };
    }
    let wide = |x: &[u16]| x.iter().map(|&x| f64::from(from_bf16(x))).collect();
    (wide(&m), wide(&v))
}

/// Mean and standard deviation, both over what is expected.
fn spread(of: &[f64], expected: f64) -> (f64, f64) {
    let n = of.len() as f64;
    let mean = of.iter().sum::<f64>() / n;
    let variance = of.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean / expected, variance.sqrt() / expected)
}

#[test]
fn moments_of_two_bytes_are_right_on_average_where_the_nearest_would_stand_still() {
    let n = 1 << 14;
    // A second moment that only falls: by a thousandth a step, where neighbours lie up to 1/128 apart.
    let (_, v) = after([1.0].into_iter().chain([0.0; 1500]), n);
    let (mean, deviation) = spread(&v, 1e-3 * 0.999f64.powi(1500));
    assert!((mean - 1.0).abs() < 0.01 && deviation < 0.1, "{mean} ± {deviation}");
    // Both moments of a small gradient after a large one, which begin to grow towards it by less than half such a step.
    let (m, v) = after([1.0; 300].into_iter().chain([1.02; 300]), n);
    let grown = |beta: f64, from: f64, to: f64| {
        let before = (1.0 - beta.powi(300)) * from;
        to + (before - to) * beta.powi(300)
    };
    for (moment, expected) in [(m, grown(0.9, 1.0, 1.02)), (v, grown(0.999, 1.0, 1.02 * 1.02))] {
        let (mean, deviation) = spread(&moment, expected);
        assert!((mean - 1.0).abs() < 0.002 && deviation < 0.05, "{mean} ± {deviation}");
    }
}

#[test]
fn each_number_has_a_chance_of_its_own() {
    let n = 1 << 14;
    let (m, v) = after([1.003; 20].into_iter(), n);
    let signs = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / n as f64;
        x.iter().map(|x| (x - mean).signum()).collect::<Vec<f64>>()
    };
    let (m, v) = (signs(&m), signs(&v));
    // Of independent signs this is within 4 / √n but for once in 16,000.
    let alike = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64;
    let mean = m.iter().sum::<f64>() / n as f64;
    assert!((alike(&m, &v) - mean * v.iter().sum::<f64>() / n as f64).abs() < 0.032);
    for apart in [1, 2, 8, 16, 32, 256] {
        assert!((alike(&m[apart..], &m[..n - apart]) - mean * mean).abs() < 0.032, "{apart} apart");
    }
}

#[test]
fn they_take_half_and_learn_as_well() {
    let learnt = [Precision::F32, Precision::Bf16].map(|precision| {
        let mut m = model("qwen3", 2, Level::available()[0]);
        m.set_moment_precision(precision).unwrap();
        m.set_trainable(Trainable::Full).unwrap();
        let f = forest(m.config().vocab);
        let before = m.memory_bytes();
        let mut loss = Vec::new();
        for _ in 0..60 {
            let pass = m.forward(&f.batch(1.0), Want { grad: true, ..WANT }).unwrap();
            loss.push(-pass.logprobs.iter().sum::<f32>());
            let d = vec![-1.0; f.tokens.len()];
            m.backward(pass, &Derivatives { logprobs: &d, entropy: None, values: None, value_into_trunk: false }).unwrap();
            m.step(&StepOptions { learning_rate: 1e-3, ..STEP }).unwrap();
        }
        let parameters = m.read_flat(Flat::Parameters).unwrap().len();
        assert!(m.memory_bytes() - before >= (if precision == Precision::F32 { 8 } else { 4 }) * parameters);
        assert_eq!(code(m.set_moment_precision(precision)), "INVALID_INPUT");
        (m.memory_bytes(), parameters, loss)
    });
    let [(wide, parameters, exact), (half, _, rounded)] = learnt;
    assert!(wide - half >= 4 * parameters);
    assert_eq!(exact[0], rounded[0]);
    assert!(exact[59] < 0.2 * exact[0] && (rounded[59] / exact[59] - 1.0).abs() < 0.02, "{} {} {}", exact[0], exact[59], rounded[59]);
}
