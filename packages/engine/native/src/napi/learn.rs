//! The calls that score and train: forward, backward, the optimiser's step, and flat vectors of parameters.

use super::value::Reply;
use super::{Answer, Call};
use crate::error::EngineError;
use crate::model::{Derivatives, Flat, Scope, StepOptions, Trainable, TreeBatch, Want};

/// (handle, batch, options)
pub fn forward(call: &Call) -> Answer {
    let b = call.arg(1, "batch");
    let tokens = b.field("tokens")?.tokens()?;
    let node_start = b.field("nodeStart")?.tokens()?;
    let node_parent = b.field("nodeParent")?.ints()?;
    let wanted = b.field("wanted")?.bytes()?;
    let o = call.arg(2, "options");
    let temperature = o.field("temperature")?.float()?;
    let kept = o.field("weights")?.optional().map(|weights| call.held_in(&weights)).transpose()?;
    let want = Want {
        grad: o.field("grad")?.flag()?,
        entropy: o.field("entropy")?.flag()?,
        values: o.field("values")?.flag()?,
        hidden: o.field("hidden")?.flag()?,
        adapters: o.field("adapters")?.flag()?,
        recompute: o.field("recompute")?.flag()?,
        dropout_seed: o.field("dropoutSeed")?.optional().map(|seed| seed.size()).transpose()?.map(|seed| seed as u64),
    };
    call.read(move |state| {
        let batch = TreeBatch { tokens: &tokens, node_start: &node_start, node_parent: &node_parent, wanted: &wanted, temperature };
        let mut pass = state.forward(kept, &batch, want)?;
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
            let id = state.next_id();
            state.passes.insert(id, pass);
            reply.push(("pass", Reply::Held(id)));
        }
        Ok(Reply::Object(reply))
    })
}

/// (handle, pass, { logprobs, entropy?, values?, valuesIntoTrunk })
pub fn backward(call: &Call) -> Answer {
    let id = call.held(1, "pass")?;
    let d = call.arg(2, "derivatives");
    let logprobs = d.field("logprobs")?.floats()?;
    let entropy = d.field("entropy")?.optional().map(|a| a.floats()).transpose()?;
    let values = d.field("values")?.optional().map(|a| a.floats()).transpose()?;
    let value_into_trunk = d.field("valuesIntoTrunk")?.flag()?;
    call.read(move |state| {
        let pass = state.passes.remove(&id);
        let pass = pass.ok_or_else(|| EngineError::input("This forward pass was already used or released."))?;
        let d = Derivatives { logprobs: &logprobs, entropy: entropy.as_deref(), values: values.as_deref(), value_into_trunk };
        state.backward(pass, &d).map(|()| Reply::None)
    })
}

/// (handle, "none" | "full" | "adapters")
pub fn set_trainable(call: &Call) -> Answer {
    let mode = match call.arg(1, "mode").text()?.as_str() {
        "none" => Trainable::None,
        "full" => Trainable::Full,
        "adapters" => Trainable::Adapters,
        other => return Err(EngineError::input(format!("Unknown mode \"{other}\"."))),
    };
    call.read(move |state| state.model.set_trainable(mode).map(|()| Reply::None))
}

pub fn step(call: &Call) -> Answer {
    let o = call.arg(1, "options");
    let options = StepOptions {
        learning_rate: o.field("learningRate")?.float()?,
        value_learning_rate: o.field("valueLearningRate")?.optional().map(|rate| rate.float()).transpose()?,
        lora_plus_ratio: o.field("loraPlusRatio")?.optional().map(|ratio| ratio.float()).transpose()?.unwrap_or(1.0),
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
    call.change(
        move |state| state.model.change_cost(&state.model.stores_in(options.scope)),
        move |state| {
            state.make_room_for_moments(options.scope);
            let report = state.model.step(&options)?;
            Ok(vec![("gradNorm", Reply::Number(report.grad_norm)), ("applied", Reply::Flag(report.applied))])
        },
    )
}

pub fn zero_gradients(call: &Call) -> Answer {
    call.read(|state| {
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
    call.read(move |state| {
        state.model.weights().check_whole()?;
        Ok(Reply::Floats(state.model.read_flat(what)?))
    })
}

pub fn write_flat(call: &Call) -> Answer {
    let values = call.arg(1, "values").floats()?;
    call.change(
        |state| state.model.change_cost(&state.model.stores_in(Scope::All)),
        move |state| state.model.write_flat(&values).map(|()| Vec::new()),
    )
}
