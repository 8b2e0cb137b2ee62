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
        tied: true,
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
        qk_norm: false,
        sliding_window: None,
    };
    Model::new(config, 1).unwrap()
}

/// Random numbers for a tensor.
pub fn noise(seed: u64, count: usize) -> Vec<f32> {
    (0..count).map(|i| counter_uniform(seed, 1, i as u64) - 0.5).collect()
}
