//! The shape of a model, as JavaScript describes it (`EngineConfig` in `packages/engine/src/native.ts`).

use super::value::Arg;
use crate::config::{Config, Mlp, Norm, Position, RopeScaling};
use crate::error::EngineError;
use crate::form::Form;
use crate::model::Forms;

/// Names of tensors and of forms in turn.
pub fn read_forms(list: &Arg<'_>) -> Result<Forms, EngineError> {
    list.optional()
        .map_or(Ok(Vec::new()), |list| list.texts())?
        .chunks_exact(2)
        .map(|pair| Ok((pair[0].clone(), Form::of(&pair[1])?)))
        .collect()
}

pub fn read_config(c: &Arg<'_>) -> Result<Config, EngineError> {
    let unknown = |what: &str, value: &str| EngineError::config(format!("Unknown {what} \"{value}\"."));
    let rope = match c.field("ropeScaling")?.optional() {
        None => RopeScaling::None,
        Some(scaling) => match scaling.field("type")?.text()?.as_str() {
            "linear" => RopeScaling::Linear { factor: scaling.field("factor")?.float()? },
            "llama3" => RopeScaling::Llama3 {
                factor: scaling.field("factor")?.float()?,
                low_freq: scaling.field("lowFrequency")?.float()?,
                high_freq: scaling.field("highFrequency")?.float()?,
                original_max: scaling.field("originalMaxPositions")?.size()?,
            },
            other => return Err(unknown("rope scaling", other)),
        },
    };
    let number = |name| c.field(name)?.optional().map(|number| number.float()).transpose();
    Ok(Config {
        vocab: c.field("vocab")?.size()?,
        hidden: c.field("hidden")?.size()?,
        layers: c.field("layers")?.size()?,
        heads: c.field("heads")?.size()?,
        kv_heads: c.field("kvHeads")?.size()?,
        head_dim: c.field("headDim")?.size()?,
        inter: c.field("inter")?.size()?,
        max_positions: c.field("maxPositions")?.size()?,
        norm: match c.field("norm")?.text()?.as_str() {
            "rms" => Norm::Rms,
            "rms-plus-one" => Norm::RmsPlusOne,
            "layer" => Norm::Layer,
            other => return Err(unknown("norm", other)),
        },
        norm_eps: c.field("normEps")?.float()?,
        mlp: match c.field("mlp")?.text()?.as_str() {
            "swiglu" => Mlp::SwiGlu,
            "geglu" => Mlp::GeGlu,
            "gelu-tanh" => Mlp::GeluTanh,
            "gelu" => Mlp::Gelu,
            other => return Err(unknown("mlp", other)),
        },
        position: match c.field("position")?.text()?.as_str() {
            "rope" => Position::Rope,
            "learned" => Position::Learned,
            other => return Err(unknown("position", other)),
        },
        rope_theta: c.field("ropeTheta")?.float()?,
        rope_scaling: rope,
        rotary_dim: c.field("rotaryDim")?.optional().map(|dim| dim.size()).transpose()?,
        tied: c.field("tied")?.flag()?,
        qkv_bias: c.field("qkvBias")?.flag()?,
        out_bias: c.field("outBias")?.flag()?,
        mlp_bias: c.field("mlpBias")?.flag()?,
        qk_norm: c.field("qkNorm")?.flag()?,
        post_norm: c.field("postNorm")?.optional().map_or(Ok(false), |on| on.flag())?,
        embedding_scale: number("embeddingScale")?.unwrap_or(1.0),
        residual_scale: number("residualScale")?.unwrap_or(1.0),
        logit_scale: number("logitScale")?.unwrap_or(1.0),
        attention_scale: number("attentionScale")?,
        sliding_window: c.field("slidingWindow")?.optional().map(|window| window.size()).transpose()?,
        full_layers: c.field("fullLayers")?.optional().map_or(Ok(Vec::new()), |layers| layers.sizes())?,
        local_rope_theta: number("localRopeTheta")?,
        unrotated_layers: c.field("unrotatedLayers")?.optional().map_or(Ok(Vec::new()), |layers| layers.sizes())?,
    })
}
