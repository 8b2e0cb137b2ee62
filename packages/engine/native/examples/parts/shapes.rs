//! The shapes that are measured: "gpt2", "smol" (SmolLM2-135M), and that of the starter model for any other name.

use stateset_engine::*;

pub fn config(shape: &str) -> Config {
    let gpt2 = Config {
        vocab: 50257,
        hidden: 768,
        layers: 12,
        heads: 12,
        kv_heads: 12,
        head_dim: 64,
        inter: 3072,
        max_positions: 1024,
        norm: Norm::Layer,
        norm_eps: 1e-5,
        mlp: Mlp::GeluTanh,
        position: Position::Learned,
        rope_theta: 10_000.0,
        rope_scaling: RopeScaling::None,
        rotary_dim: None,
        tied: true,
        qkv_bias: true,
        out_bias: true,
        mlp_bias: true,
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
    let llama = Config {
        norm: Norm::Rms,
        mlp: Mlp::SwiGlu,
        position: Position::Rope,
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
        ..gpt2.clone()
    };
    match shape {
        "smol" => Config { vocab: 49152, hidden: 576, layers: 30, heads: 9, kv_heads: 3, inter: 1536, max_positions: 2048, ..llama },
        "gpt2" => gpt2,
        _ => Config { vocab: 8192, hidden: 320, layers: 8, heads: 10, kv_heads: 5, head_dim: 32, inter: 864, max_positions: 2048, ..llama },
    }
}
