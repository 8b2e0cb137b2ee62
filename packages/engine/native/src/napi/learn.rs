//! The calls that score and train: forward, backward, the optimiser's step, and flat vectors of parameters.

use super::engine::Access;
use super::value::Reply;
use super::{Answer, Call, no_reference};
use crate::error::EngineError;
use crate::model::{Derivatives, Flat, Scope, StepOptions, TreeBatch, Want};

/// (handle, batch, options)
pub fn forward(call: &Call) -> Answer {
    let b = call.arg(1, "batch");
    let tokens = b.field("tokens")?.tokens()?;
    let node_start = b.field("nodeStart")?.tokens()?;
    let node_parent = b.field("nodeParent")?.ints()?;
    let wanted = b.field("wanted")?.bytes()?;
    let o = call.arg(2, "options");
    let temperature = o.field("temperature")?.float()?;
    let of_reference = o.field("ofReference")?.flag()?;
    let want = Want {
        grad: o.field("grad")?.flag()?,
        entropy: o.field("entropy")?.flag()?,
        values: o.field("values")?.flag()?,
        hidden: o.field("hidden")?.flag()?,
        adapters: o.field("adapters")?.flag()?,
        recompute: o.field("recompute")?.flag()?,
        dropout_seed: o.field("dropoutSeed")?.optional().map(|seed| seed.size()).transpose()?.map(|seed| seed as u64),
    };
    call.submit(Access::Reads, move |state| {
        let batch = TreeBatch { tokens: &tokens, node_start: &node_start, node_parent: &node_parent, wanted: &wanted, temperature };
        let model = if of_reference { state.reference.as_mut().ok_or_else(no_reference)? } else { &mut state.model };
        let mut pass = model.forward(&batch, want)?;
        let take = |on: bool, data: &mut Vec<f32>| {
            if on { Reply::Floats(std::mem::take(data)) } else { Reply::None }
        };
        let mut reply = vec![
            ("logprobs", take(true, &mut pass.logprobs)),
            ("entropy", take(want.entropy, &mut pass.entropy)),
            ("values", take(want.values, &mut pass.values)),
            ("hidden", take(want.hidden, &mut pass.hidden)),
        ];
        if want.grad {
            let id = state.next_pass;
            state.next_pass += 1;
            state.passes.insert(id, pass);
            reply.push(("pass", Reply::Number(id as f64)));
        }
        Ok(Reply::Object(reply))
    })
}

/// (handle, pass, { logprobs, entropy?, values?, valuesIntoTrunk })
pub fn backward(call: &Call) -> Answer {
    let id = call.arg(1, "pass").size()? as u64;
    let d = call.arg(2, "derivatives");
    let logprobs = d.field("logprobs")?.floats()?;
    let entropy = d.field("entropy")?.optional().map(|a| a.floats()).transpose()?;
    let values = d.field("values")?.optional().map(|a| a.floats()).transpose()?;
    let value_into_trunk = d.field("valuesIntoTrunk")?.flag()?;
    call.submit(Access::Reads, move |state| {
        let pass = state.passes.remove(&id);
        let pass = pass.ok_or_else(|| EngineError::input("This forward pass was already used or released."))?;
        let d = Derivatives { logprobs: &logprobs, entropy: entropy.as_deref(), values: values.as_deref(), value_into_trunk };
        state.model.backward(pass, &d).map(|()| Reply::None)
    })
}

pub fn release(call: &Call) -> Answer {
    let id = call.arg(1, "pass").size()? as u64;
    call.submit(Access::Reads, move |state| {
        state.passes.remove(&id);
        Ok(Reply::None)
    })
}

pub fn step(call: &Call) -> Answer {
    let o = call.arg(1, "options");
    let options = StepOptions {
        learning_rate: o.field("learningRate")?.float()?,
        value_learning_rate: o.field("valueLearningRate")?.optional().map(|rate| rate.float()).transpose()?,
        beta1: o.field("beta1")?.float()?,
        beta2: o.field("beta2")?.float()?,
        eps: o.field("epsilon")?.float()?,
        weight_decay: o.field("weightDecay")?.float()?,
        clip_norm: o.field("clipNorm")?.optional().map(|norm| norm.float()).transpose()?,
        scope: match o.field("scope")?.text()?.as_str() {
            "all" => Scope::All,
            "policy" => Scope::Policy,
            "value" => Scope::Value,
            other => return Err(EngineError::input(format!("Unknown scope \"{other}\"."))),
        },
    };
    call.submit(Access::Changes, move |state| {
        let report = state.model.step(&options)?;
        Ok(Reply::Object(vec![("gradNorm", Reply::Number(report.grad_norm)), ("applied", Reply::Flag(report.applied))]))
    })
}

pub fn zero_gradients(call: &Call) -> Answer {
    call.submit(Access::Reads, |state| {
        state.model.zero_gradients();
        Ok(Reply::None)
    })
}

pub fn read_flat(call: &Call) -> Answer {
    let what = match call.arg(1, "what").text()?.as_str() {
        "parameters" => Flat::Parameters,
        "gradients" => Flat::Gradients,
        other => return Err(EngineError::input(format!("Cannot read \"{other}\"."))),
    };
    call.submit(Access::Reads, move |state| Ok(Reply::Floats(state.model.read_flat(what))))
}

pub fn add_flat(call: &Call) -> Answer {
    let delta = call.arg(1, "delta").floats()?;
    call.submit(Access::Changes, move |state| state.model.add_flat(&delta).map(|()| Reply::None))
}
