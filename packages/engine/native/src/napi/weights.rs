//! The calls that read, set, load and keep weights.

use super::value::Reply;
use super::{Answer, Call};
use crate::buffer::zeros;
use crate::error::EngineError;
use crate::model::{Purpose, Values};

pub fn tensors(call: &Call) -> Answer {
    call.read(|state| {
        let specs = state.model.tensors().into_iter().map(|spec| {
            Reply::Object(vec![
                ("name", Reply::Text(spec.name)),
                ("rows", Reply::Number(spec.rows as f64)),
                ("cols", Reply::Number(spec.cols as f64)),
                ("trainable", Reply::Flag(spec.trainable)),
                ("decay", Reply::Flag(spec.decay)),
            ])
        });
        Ok(Reply::List(specs.collect()))
    })
}

/// (handle, name, data)
pub fn set_tensor(call: &Call) -> Answer {
    let (name, data) = (call.arg(1, "name").text()?, call.arg(2, "data").floats()?);
    let of = name.clone();
    call.change(
        move |state| state.model.store_of(&of).map_or(0, |store| state.model.change_cost(&[store])),
        move |state| state.model.set_tensor(&name, &data).map(|()| Vec::new()),
    )
}

/// (handle, "parameters" | "gradients" | "moments", name, weights?); moments, of weights retained for training, come back as [m, v].
pub fn read_tensor(call: &Call) -> Answer {
    let (what, name) = (call.arg(1, "what").text()?, call.arg(2, "name").text()?);
    let kept = call.optional_held(3, "weights")?;
    call.read(move |state| {
        let spec = state.model.tensors().into_iter().find(|spec| spec.name == name);
        let spec = spec.ok_or_else(|| EngineError::tensor(format!("There is no tensor \"{name}\".")))?;
        let mut out = zeros(spec.rows * spec.cols, "a copy of a tensor")?;
        match what.as_str() {
            "parameters" => state.model.read_tensor_of(&state.weights(kept)?, &name, &mut out)?,
            "gradients" => state.model.read_gradient(&name, &mut out)?,
            "moments" => {
                let mut second = zeros(out.len(), "a copy of a tensor")?;
                let training = kept.and_then(|id| state.training.get(&id));
                let training =
                    training.ok_or_else(|| EngineError::input("These weights were not retained for training, or were closed."))?;
                state.model.read_moments(training, &name, &mut out, &mut second)?;
                return Ok(Reply::List(vec![Reply::Floats(out), Reply::Floats(second)]));
            }
            other => {
                return Err(EngineError::input(format!("Cannot read \"{other}\" of a tensor.")));
            }
        }
        Ok(Reply::Floats(out))
    })
}

/// (handle, { rank, alphas, dropout, targets, seed }): an alpha for each target
pub fn add_lora(call: &Call) -> Answer {
    let o = call.arg(1, "lora");
    let (rank, alphas, dropout) = (o.field("rank")?.size()?, o.field("alphas")?.floats()?, o.field("dropout")?.float()?);
    let (targets, seed) = (o.field("targets")?.texts()?, o.field("seed")?.size()? as u64);
    call.change(
        |_| 0,
        move |state| {
            let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
            if alphas.len() != targets.len() {
                return Err(EngineError::input("LoRA needs one alpha for each target."));
            }
            state.model.add_lora(rank, alphas.first().copied().unwrap_or(1.0), dropout, &targets, seed)?;
            for (target, alpha) in targets.iter().zip(&alphas) {
                state.model.set_alpha(target, *alpha)?;
            }
            Ok(Vec::new())
        },
    )
}

pub fn add_value_head(call: &Call) -> Answer {
    call.read(|state| state.model.add_value_head().map(|()| Reply::None))
}

/// (handle, training): the present weights, to be scored with whatever becomes of them; for training, with what the optimiser knows.
pub fn retain(call: &Call) -> Answer {
    let training = call.arg(1, "training").flag()?;
    call.read(move |state| {
        state.model.weights().check_whole()?;
        let (id, weights) = (state.next_id(), state.model.weights().clone());
        let mut reply = vec![("weights", Reply::Held(id)), ("version", Reply::Number(weights.version() as f64))];
        state.kept.insert(id, weights);
        if training {
            let training = state.model.training();
            let (policy, value) = training.step_counts();
            reply.push(("steps", Reply::List(vec![Reply::Number(policy as f64), Reply::Number(value as f64)])));
            state.training.insert(id, training);
        }
        Ok(Reply::Object(reply))
    })
}

/// (handle, weights, decay): `kept ← decay·kept + (1 − decay)·present`; says which the present ones were.
pub fn blend(call: &Call) -> Answer {
    let (id, decay) = (call.held(1, "weights")?, call.arg(2, "decay").float()?);
    call.read(move |state| {
        let kept = state.kept.get_mut(&id).ok_or_else(|| EngineError::input("These weights were closed."))?;
        state.model.blend(kept, decay)?;
        let (version, present) = (kept.version() as f64, state.model.version() as f64);
        Ok(Reply::Object(vec![("version", Reply::Number(version)), ("present", Reply::Number(present))]))
    })
}

/// (handle, weights?)
pub fn digest(call: &Call) -> Answer {
    let kept = call.optional_held(1, "weights")?;
    call.read(move |state| Ok(Reply::Text(state.model.digest(&state.weights(kept)?)?)))
}

/// (handle, beside): weights to be set tensor by tensor, which become the present ones or, beside, some that are kept.
pub fn begin_load(call: &Call) -> Answer {
    let purpose = if call.arg(1, "beside").flag()? { Purpose::Beside } else { Purpose::Present };
    call.read(move |state| {
        let (id, staged) = (state.next_id(), state.model.stage(purpose));
        state.loads.insert(id, super::state::Load { staged, drained: false });
        Ok(Reply::Held(id))
    })
}

/// What JavaScript gave for a tensor.
enum Data {
    Floats(Vec<f32>),
    Bytes(Vec<u8>),
}

impl Data {
    fn values(&self) -> Values<'_> {
        match self {
            Data::Floats(data) => Values::Floats(data),
            Data::Bytes(data) => Values::Bytes(data),
        }
    }
}

/// (handle, load, name, data)
pub fn load_tensor(call: &Call) -> Answer {
    let (id, name, data) = (call.held(1, "load")?, call.arg(2, "name").text()?, call.arg(3, "data"));
    let data = if data.is_bytes() { Data::Bytes(data.bytes()?) } else { Data::Floats(data.floats()?) };
    let of = name.clone();
    call.load(
        id,
        move |model, staged| model.stage_cost(staged, &of, false),
        move |model, staged, in_place| model.stage_tensor(staged, &name, data.values(), in_place),
    )
}

/// (handle, load, name, m, v)
pub fn load_moments(call: &Call) -> Answer {
    let (id, name) = (call.held(1, "load")?, call.arg(2, "name").text()?);
    let (m, v) = (call.arg(3, "m").floats()?, call.arg(4, "v").floats()?);
    let of = name.clone();
    call.load(
        id,
        move |model, staged| model.stage_cost(staged, &of, true),
        move |model, staged, in_place| model.stage_moments(staged, &name, &m, &v, in_place),
    )
}

/// (handle, load, policy, value)
pub fn load_steps(call: &Call) -> Answer {
    let id = call.held(1, "load")?;
    let (policy, value) = (call.arg(2, "policy").size()? as u64, call.arg(3, "value").size()? as u64);
    call.load(
        id,
        |_, _| 0,
        move |model, staged, _| {
            model.stage_steps(staged, policy, value);
            Ok(())
        },
    )
}

/// (handle, load): one change, whatever was set.
pub fn commit_load(call: &Call) -> Answer {
    let id = call.held(1, "load")?;
    call.of_held(id, move |state| {
        let load = state.end_load(id)?;
        state.model.commit(load.staged)?;
        Ok(Reply::Object(state.changed(load.drained)))
    })
}

/// (handle, load): weights to score with, beside the present ones.
pub fn keep_load(call: &Call) -> Answer {
    let id = call.held(1, "load")?;
    call.of_held(id, move |state| {
        let load = state.end_load(id)?;
        let weights = state.model.keep(load.staged)?;
        let version = Reply::Number(weights.version() as f64);
        let id = state.next_id();
        state.kept.insert(id, weights);
        Ok(Reply::Object(vec![("weights", Reply::Held(id)), ("version", version)]))
    })
}

/// (handle, held): frees a pass, weights or a load.
pub fn release(call: &Call) -> Answer {
    let id = call.held(1, "held")?;
    call.of_held(id, move |state| {
        state.forget(id);
        Ok(Reply::None)
    })
}
