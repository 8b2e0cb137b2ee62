//! Shape and flavour of a decoder-only transformer.

use crate::error::EngineError;

/// Of numbers that training keeps or multiplies with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    F32,
    Bf16,
}

impl Precision {
    /// `what`: of which numbers, for the message.
    pub fn of(what: &str, name: &str) -> Result<Precision, EngineError> {
        match name {
            "f32" => Ok(Precision::F32),
            "bf16" => Ok(Precision::Bf16),
            other => Err(EngineError::config(format!("The precision of {what} is \"{other}\"; it must be f32 or bf16."))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    Rms,
    /// Its weights are kept as what they are above one (Gemma).
    RmsPlusOne,
    Layer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mlp {
    /// `down(silu(gate x) · up x)`
    SwiGlu,
    /// `down(gelu_tanh(gate x) · up x)`
    GeGlu,
    /// `down(gelu_tanh(up x))`
    GeluTanh,
    /// `down(gelu_erf(up x))`
    Gelu,
}

impl Mlp {
    pub fn is_gated(self) -> bool {
        matches!(self, Mlp::SwiGlu | Mlp::GeGlu)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Rope,
    Learned,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    None,
    Linear { factor: f32 },
    Llama3 { factor: f32, low_freq: f32, high_freq: f32, original_max: usize },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub vocab: usize,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Width of the feed-forward block.
    pub inter: usize,
    pub max_positions: usize,
    pub norm: Norm,
    pub norm_eps: f32,
    pub mlp: Mlp,
    pub position: Position,
    pub rope_theta: f32,
    pub rope_scaling: RopeScaling,
    /// How many numbers at the start of each head are rotated; none is all of them (Phi-3).
    pub rotary_dim: Option<usize>,
    /// The head shares the embedding's matrix.
    pub tied: bool,
    pub qkv_bias: bool,
    pub out_bias: bool,
    pub mlp_bias: bool,
    /// RMS norm over each query and key head before the rotation (Qwen3, Gemma 3).
    pub qk_norm: bool,
    /// What attention and the feed-forward block give is normed, too, before it is added to the stream (Gemma).
    pub post_norm: bool,
    /// Token embeddings are multiplied by it; 1 where the model says nothing.
    pub embedding_scale: f32,
    /// What attention and the feed-forward block give is multiplied by it before it is added to the stream; 1 where the model says nothing.
    pub residual_scale: f32,
    /// Logits are multiplied by it; 1 where the model says nothing.
    pub logit_scale: f32,
    /// Scores are multiplied by it; none is 1/√head_dim.
    pub attention_scale: Option<f32>,
    /// A token attends to itself and at most this many − 1 tokens before it.
    pub sliding_window: Option<usize>,
    /// Layers that attend to everything before them in spite of the window.
    pub full_layers: Vec<usize>,
    /// Of the layers with a window, where it is another one than `rope_theta`; without scaling (Gemma 3).
    pub local_rope_theta: Option<f32>,
    /// Layers whose queries and keys are not rotated (SmolLM3).
    pub unrotated_layers: Vec<usize>,
}

impl Config {
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Numbers of a head that are rotated.
    pub fn rotated(&self) -> usize {
        self.rotary_dim.unwrap_or(self.head_dim)
    }

    /// Of scores, by head_dim unless the model says otherwise.
    pub fn score_scale(&self) -> f32 {
        self.attention_scale.unwrap_or(1.0 / (self.head_dim as f32).sqrt())
    }

    /// How many tokens a token of this layer attends to, itself included.
    pub fn window_of(&self, layer: usize) -> usize {
        self.sliding_window.filter(|_| !self.full_layers.contains(&layer)).unwrap_or(usize::MAX)
    }

    /// Rejects shapes the engine cannot run, before anything is allocated.
    pub fn check(&self) -> Result<(), EngineError> {
        const LIMIT: usize = 1 << 24;
        let sizes = [
            ("vocab", self.vocab),
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("heads", self.heads),
            ("kv_heads", self.kv_heads),
            ("head_dim", self.head_dim),
            ("inter", self.inter),
            ("max_positions", self.max_positions),
        ];
        for (name, value) in sizes {
            if value == 0 || value > LIMIT {
                return Err(EngineError::config(format!("{name} is {value}; it must be between 1 and {LIMIT}.")));
            }
        }
        if self.layers > 4096 {
            return Err(EngineError::config(format!("layers is {}; at most 4096 are supported.", self.layers)));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(EngineError::config(format!("heads ({}) must be a multiple of kv_heads ({}).", self.heads, self.kv_heads)));
        }
        // With every width below the limit no product of a size of the model and of a batch leaves 64 bits, up to sums over layers,
        // which saturate. kv_heads divides heads, so the keys' width is no larger.
        if self.q_width() > LIMIT {
            return Err(EngineError::config(format!(
                "heads ({}) times head_dim ({}) is {}; it must be at most {LIMIT}.",
                self.heads,
                self.head_dim,
                self.q_width()
            )));
        }
        let positive = |name: &str, value: f32| {
            if value > 0.0 && value.is_finite() { Ok(()) } else { Err(EngineError::config(format!("{name} ({value}) must be positive."))) }
        };
        if self.position == Position::Rope {
            let rotated = self.rotated();
            if rotated == 0 || rotated > self.head_dim || !rotated.is_multiple_of(2) {
                return Err(EngineError::config(format!("rotary_dim ({rotated}) must be even, and at most head_dim ({}).", self.head_dim)));
            }
            positive("rope_theta", self.rope_theta)?;
            positive("local_rope_theta", self.local_rope_theta.unwrap_or(1.0))?;
        }
        positive("embedding_scale", self.embedding_scale)?;
        positive("residual_scale", self.residual_scale)?;
        positive("logit_scale", self.logit_scale)?;
        positive("attention_scale", self.attention_scale.unwrap_or(1.0))?;
        if self.position == Position::Learned && self.embedding_scale != 1.0 {
            return Err(EngineError::config("embedding_scale goes with rotary positions: learned ones are added unscaled."));
        }
        if !(self.norm_eps >= 0.0 && self.norm_eps.is_finite()) {
            return Err(EngineError::config(format!("norm_eps ({}) must be a small positive number.", self.norm_eps)));
        }
        if self.sliding_window == Some(0) {
            return Err(EngineError::config("sliding_window must be at least 1."));
        }
        if self.sliding_window.is_none() && !self.full_layers.is_empty() {
            return Err(EngineError::config("full_layers names layers without a window, but the model has no sliding_window."));
        }
        self.check_layers("full_layers", &self.full_layers)?;
        self.check_layers("unrotated_layers", &self.unrotated_layers)?;
        if self.post_norm && self.residual_scale != 1.0 {
            return Err(EngineError::config("post_norm and residual_scale do not go together: no model has both."));
        }
        let scaling_ok = match self.rope_scaling {
            RopeScaling::None => true,
            RopeScaling::Linear { factor } => factor > 0.0 && factor.is_finite(),
            RopeScaling::Llama3 { factor, low_freq, high_freq, original_max } => {
                factor > 0.0 && low_freq > 0.0 && high_freq > low_freq && original_max > 0
            }
        };
        if !scaling_ok {
            return Err(EngineError::config(format!("rope_scaling {:?} has values out of range.", self.rope_scaling)));
        }
        Ok(())
    }

    fn check_layers(&self, name: &str, list: &[usize]) -> Result<(), EngineError> {
        match list.iter().find(|&&layer| layer >= self.layers) {
            Some(layer) => Err(EngineError::config(format!("{name} names layer {layer}; the model has {} layers.", self.layers))),
            None => Ok(()),
        }
    }
}
