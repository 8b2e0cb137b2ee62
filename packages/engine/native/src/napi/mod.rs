//! What JavaScript can call. Each function checks and copies its arguments on the main thread and queues the work; each returns
//! a promise. The TypeScript side of this table is `packages/engine/src/native.ts`.

mod api;
mod config;
mod engine;
mod learn;
mod value;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use api::{CallbackInfo, Env, Value, api};
use config::read_config;
use engine::{Access, Engine, State};
use learn::{add_flat, backward, forward, read_flat, release, step, zero_gradients};
use value::{Arg, Reply, c_string};

use crate::decode::{Limits, Request, Sampling};
use crate::error::EngineError;
use crate::model::{Model, Trainable};

type Answer = Result<Value, EngineError>;
type Function = fn(&Call) -> Answer;

const FUNCTIONS: &[(&str, Function)] = &[
    ("open", open),
    ("close", close),
    ("tensors", tensors),
    ("setTensor", set_tensor),
    ("readTensor", read_tensor),
    ("writeMoments", write_moments),
    ("stepCounts", step_counts),
    ("setStepCounts", set_step_counts),
    ("setTrainable", set_trainable),
    ("setThreads", set_threads),
    ("addLora", add_lora),
    ("addValueHead", add_value_head),
    ("makeReference", make_reference),
    ("memory", memory),
    ("sample", sample),
    ("cancel", cancel),
    ("forward", forward),
    ("backward", backward),
    ("release", release),
    ("step", step),
    ("zeroGradients", zero_gradients),
    ("readFlat", read_flat),
    ("addFlat", add_flat),
];

const MAX_ARGS: usize = 4;

struct Call {
    env: Env,
    args: [Value; MAX_ARGS],
}

impl Call {
    fn arg<'a>(&self, index: usize, name: &'a str) -> Arg<'a> {
        Arg { env: self.env, value: self.args[index], name }
    }

    fn engine(&self) -> Result<&Engine, EngineError> {
        let mut data: *mut c_void = null_mut();
        if unsafe { (api().napi_get_value_external)(self.env, self.args[0], &mut data) } != api::OK || data.is_null() {
            return Err(EngineError::input("The first argument must be a handle from open()."));
        }
        // Safety: externals are only made by `Engine::main`; the argument keeps it alive during the call.
        Ok(unsafe { &*data.cast::<Engine>() })
    }

    fn submit(&self, access: Access, work: impl FnOnce(&mut State) -> Result<Reply, EngineError> + Send + 'static) -> Answer {
        unsafe { self.engine()?.submit(self.env, access, Box::new(work)) }
    }

    fn undefined(&self) -> Value {
        unsafe { value::to_js(self.env, Reply::None) }
    }
}

/// Node looks for this name when it loads the addon.
///
/// # Safety
/// Called by Node with a valid environment and exports object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napi_register_module_v1(env: *mut c_void, exports: *mut c_void) -> *mut c_void {
    if !api::load() {
        return null_mut();
    }
    for (name, function) in FUNCTIONS {
        let mut value: Value = null_mut();
        let key = c_string(name);
        unsafe {
            (api().napi_create_function)(
                env,
                key.as_ptr(),
                api::AUTO_LENGTH,
                enter,
                function as *const Function as *mut c_void,
                &mut value,
            );
            (api().napi_set_named_property)(env, exports, key.as_ptr(), value);
        }
    }
    exports
}

/// The one callback behind every function: its data says which. Errors, and panics, become exceptions.
unsafe extern "C" fn enter(env: Env, info: CallbackInfo) -> Value {
    let mut args = [null_mut(); MAX_ARGS];
    let mut count = MAX_ARGS;
    let mut data: *mut c_void = null_mut();
    let function = unsafe {
        (api().napi_get_cb_info)(env, info, &mut count, args.as_mut_ptr(), null_mut(), &mut data);
        *data.cast::<Function>()
    };
    let call = Call { env, args };
    let answer = catch_unwind(AssertUnwindSafe(|| function(&call)))
        .unwrap_or_else(|_| Err(EngineError::new("ENGINE_FAILED", "The engine failed while reading a call's arguments.")));
    answer.unwrap_or_else(|error| {
        let (code, message) = (c_string(error.code), c_string(&error.message));
        unsafe { (api().napi_throw_error)(env, code.as_ptr(), message.as_ptr()) };
        null_mut()
    })
}

fn open(call: &Call) -> Answer {
    let config = read_config(&call.arg(0, "config"))?;
    let options = call.arg(1, "options");
    let limits = Limits { slots: options.field("slots")?.size()?, cache_bytes: options.field("cacheBytes")?.size()? };
    unsafe { Engine::start(call.env, config, options.field("threads")?.size()?, limits, call.args[2]) }
}

fn close(call: &Call) -> Answer {
    unsafe { call.engine()?.close(call.env) }
}

fn tensors(call: &Call) -> Answer {
    call.submit(Access::Reads, |state| {
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

fn no_reference() -> EngineError {
    EngineError::input("There is no reference; call makeReference() first.")
}

/// (handle, name, data, ofReference)
fn set_tensor(call: &Call) -> Answer {
    let (name, data) = (call.arg(1, "name").text()?, call.arg(2, "data").floats()?);
    if call.arg(3, "ofReference").flag()? {
        return call.submit(Access::Reads, move |state| {
            state.reference.as_mut().ok_or_else(no_reference)?.set_tensor(&name, &data).map(|()| Reply::None)
        });
    }
    call.submit(Access::Changes, move |state| state.model.set_tensor(&name, &data).map(|()| Reply::None))
}

/// (handle, "parameters" | "reference" | "gradients" | "moments", name); moments come back as [m, v].
fn read_tensor(call: &Call) -> Answer {
    let (what, name) = (call.arg(1, "what").text()?, call.arg(2, "name").text()?);
    call.submit(Access::Reads, move |state| {
        let spec = state.model.tensors().into_iter().find(|spec| spec.name == name);
        let spec = spec.ok_or_else(|| EngineError::tensor(format!("There is no tensor \"{name}\".")))?;
        let mut out = zeros(spec.rows * spec.cols)?;
        match what.as_str() {
            "parameters" => state.model.read_tensor(&name, &mut out)?,
            "reference" => state.reference.as_ref().ok_or_else(no_reference)?.read_tensor(&name, &mut out)?,
            "gradients" => state.model.read_gradient(&name, &mut out)?,
            "moments" => {
                let mut second = zeros(out.len())?;
                state.model.read_moments(&name, &mut out, &mut second)?;
                return Ok(Reply::List(vec![Reply::Floats(out), Reply::Floats(second)]));
            }
            other => {
                return Err(EngineError::input(format!("Cannot read \"{other}\" of a tensor.")));
            }
        }
        Ok(Reply::Floats(out))
    })
}

fn zeros(count: usize) -> Result<Vec<f32>, EngineError> {
    let mut out = Vec::new();
    out.try_reserve_exact(count).map_err(|_| EngineError::memory("a copy of a tensor", count * 4))?;
    out.resize(count, 0.0);
    Ok(out)
}

/// (handle, name, m, v)
fn write_moments(call: &Call) -> Answer {
    let (name, m, v) = (call.arg(1, "name").text()?, call.arg(2, "m").floats()?, call.arg(3, "v").floats()?);
    call.submit(Access::Changes, move |state| state.model.write_moments(&name, &m, &v).map(|()| Reply::None))
}

fn step_counts(call: &Call) -> Answer {
    call.submit(Access::Reads, |state| {
        let (policy, value) = state.model.step_counts();
        Ok(Reply::List(vec![Reply::Number(policy as f64), Reply::Number(value as f64)]))
    })
}

/// (handle, policy, value)
fn set_step_counts(call: &Call) -> Answer {
    let (policy, value) = (call.arg(1, "policy").size()?, call.arg(2, "value").size()?);
    call.submit(Access::Changes, move |state| {
        state.model.set_step_counts(policy as u64, value as u64);
        Ok(Reply::None)
    })
}

/// (handle, "none" | "full" | "adapters")
fn set_trainable(call: &Call) -> Answer {
    let mode = match call.arg(1, "mode").text()?.as_str() {
        "none" => Trainable::None,
        "full" => Trainable::Full,
        "adapters" => Trainable::Adapters,
        other => return Err(EngineError::input(format!("Unknown mode \"{other}\"."))),
    };
    call.submit(Access::Changes, move |state| state.model.set_trainable(mode).map(|()| Reply::None))
}

fn set_threads(call: &Call) -> Answer {
    let threads = call.arg(1, "threads").size()?.max(1);
    call.submit(Access::Reads, move |state| {
        state.model.set_threads(threads);
        if let Some(reference) = state.reference.as_mut() {
            reference.set_threads(threads);
        }
        Ok(Reply::None)
    })
}

/// (handle, { rank, alpha, dropout, targets, seed })
fn add_lora(call: &Call) -> Answer {
    let o = call.arg(1, "lora");
    let (rank, alpha, dropout) = (o.field("rank")?.size()?, o.field("alpha")?.float()?, o.field("dropout")?.float()?);
    let (targets, seed) = (o.field("targets")?.texts()?, o.field("seed")?.size()? as u64);
    call.submit(Access::Changes, move |state| {
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        state.model.add_lora(rank, alpha, dropout, &targets, seed).map(|()| Reply::None)
    })
}

fn add_value_head(call: &Call) -> Answer {
    let seed = call.arg(1, "seed").size()? as u64;
    call.submit(Access::Changes, move |state| state.model.add_value_head(seed).map(|()| Reply::None))
}

/// (handle, threads, copy): a second, frozen model; with `copy`, of the weights as they are now.
fn make_reference(call: &Call) -> Answer {
    let (threads, copy) = (call.arg(1, "threads").size()?, call.arg(2, "copy").flag()?);
    call.submit(Access::Reads, move |state| {
        let mut reference = Model::new(state.model.config().clone(), threads)?;
        reference.set_trainable(Trainable::None)?;
        if copy {
            for spec in reference.tensors() {
                let mut data = zeros(spec.rows * spec.cols)?;
                state.model.read_tensor(&spec.name, &mut data)?;
                reference.set_tensor(&spec.name, &data)?;
            }
        }
        state.reference = Some(reference);
        Ok(Reply::None)
    })
}

fn memory(call: &Call) -> Answer {
    call.submit(Access::Reads, |state| {
        let reference = state.reference.as_ref().map_or(0, Model::memory_bytes);
        Ok(Reply::Object(vec![
            ("model", Reply::Number(state.model.memory_bytes() as f64)),
            ("reference", Reply::Number(reference as f64)),
            ("cache", Reply::Number(state.scheduler.cache_bytes() as f64)),
        ]))
    })
}

/// (handle, id, request)
fn sample(call: &Call) -> Answer {
    let id = call.arg(1, "id").size()? as u64;
    let r = call.arg(2, "request");
    let request = Request {
        id,
        prompt: r.field("tokens")?.tokens()?,
        sampling: Sampling {
            temperature: r.field("temperature")?.float()?,
            top_p: r.field("topP")?.float()?,
            top_k: r.field("topK")?.size()?,
            min_p: r.field("minP")?.float()?,
            repetition_penalty: r.field("repetitionPenalty")?.float()?,
        },
        max_tokens: r.field("maxTokens")?.size()?,
        stop_tokens: r.field("stopTokens")?.tokens()?,
        seed: r.field("seed")?.size()? as u64,
        stream: r.field("stream")?.flag()?,
    };
    unsafe { call.engine()?.sample(call.env, request) }
}

fn cancel(call: &Call) -> Answer {
    call.engine()?.cancel(call.arg(1, "id").size()? as u64);
    Ok(call.undefined())
}
