//! A model for unit tests, as small as one can be.

use crate::config::{Config, Mlp, Norm, Position, RopeScaling};
use crate::kernel::counter_uniform;
use crate::model::Model;

pub fn model() -> Model {
    let config = Config {
        vocab: 32,
        hidden: 16,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 16,
        inter: 16,
        max_positions: 2048,
        norm: Norm::Rms,
        norm_eps: 1e-5,
        mlp: Mlp::SwiGlu,
        position: Position::Rope,
        rope_theta: 1e4,
        rope_scaling: RopeScaling::None,
        rotary_dim: None,
        tied: true,
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
        qk_norm: false,
        post_norm: false,
        embedding_scale: 1.0,
        residual_scale: 1.0,
        logit_scale: 1.0,
        attention_scale: None,
        sliding_window: None,
        full_layers: Vec::new(),
        local_rope_theta: None,
        unrotated_layers: Vec::new(),
    };
    Model::new(config, 1).unwrap()
}

/// Random numbers for a tensor.
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    (0..count).map(|i| counter_uniform(seed, 1, i as u64) - 0.5).collect()
}

/// Central difference of `f` by `x[i]`. With references in f64 the step can be so small that rounding, not the step, is the error (≈ 1e-10).
pub fn difference(x: &mut [f64], i: usize, mut f: impl FnMut(&[f64]) -> f64) -> f64 {
    const STEP: f64 = 1e-5;
    let was = x[i];
    x[i] = was + STEP;
    let up = f(x);
    x[i] = was - STEP;
    let down = f(x);
    x[i] = was;
    (up - down) / (2.0 * STEP)
}

pub fn widened(x: &[f32]) -> Vec<f64> {
    x.iter().map(|v| f64::from(*v)).collect()
}

/// Every number within `tolerance` of what it should be, relative to the largest of them (of sums of numbers near one: at least 0.1).
pub fn assert_near(got: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.1f64, |m, v| m.max(v.abs()));
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*g) - e).abs();
        assert!(error <= tolerance * largest, "{what} [{i}]: {g} where {e} is right (largest {largest})");
    }
}
