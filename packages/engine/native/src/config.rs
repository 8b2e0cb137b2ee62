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
    Layer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mlp {
    /// `down(silu(gate x) · up x)`
    SwiGlu,
    /// `down(gelu_tanh(up x))`
    GeluTanh,
    /// `down(gelu_erf(up x))`
    Gelu,
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
    /// The head shares the embedding's matrix.
    pub tied: bool,
    pub qkv_bias: bool,
    pub out_bias: bool,
    pub mlp_bias: bool,
    /// RMS norm over each query and key head before the rotation (Qwen3).
    pub qk_norm: bool,
    /// A token attends to itself and at most this many − 1 tokens before it.
    pub sliding_window: Option<usize>,
}

impl Config {
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
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
        if self.position == Position::Rope && !self.head_dim.is_multiple_of(2) {
            return Err(EngineError::config(format!("head_dim ({}) must be even for rotary positions.", self.head_dim)));
        }
        if self.position == Position::Rope && !(self.rope_theta > 0.0 && self.rope_theta.is_finite()) {
            return Err(EngineError::config(format!("rope_theta ({}) must be positive.", self.rope_theta)));
        }
        if !(self.norm_eps >= 0.0 && self.norm_eps.is_finite()) {
            return Err(EngineError::config(format!("norm_eps ({}) must be a small positive number.", self.norm_eps)));
        }
        if self.sliding_window == Some(0) {
            return Err(EngineError::config("sliding_window must be at least 1."));
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
}
