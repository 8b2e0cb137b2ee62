//! What JavaScript can call. Each function checks and copies its arguments on the main thread and queues the work; each returns
//! a promise. The TypeScript side of this table is `packages/engine/src/native.ts`.

mod api;
mod config;
mod desk;
mod engine;
mod learn;
mod sample;
mod state;
mod value;
mod weights;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::{CallbackInfo, Env, Value, api};
use config::{read_config, read_forms};
use desk::Work;
use engine::{Build, Engine, Held};
use learn::{backward, forward, read_flat, set_trainable, step, write_flat, zero_gradients};
use sample::{cancel, embed, sample, set_constraint, set_vocabulary};
use state::{FAILURES, Options, State, told_to_fail};
use value::{Arg, Reply, c_string};
use weights::{
    add_lora, add_value_head, begin_load, blend, commit_load, digest, keep_load, load_moments, load_steps, load_tensor, read_tensor,
    release, retain, set_tensor, tensors,
};

use crate::config::Precision;
use crate::decode::Limits;
use crate::error::EngineError;
use crate::model::{Model, Staged};

type Answer = Result<Value, EngineError>;
type Function = fn(&Call) -> Answer;

const FUNCTIONS: &[(&str, Function)] = &[
    ("open", open),
    ("close", close),
    ("tensors", tensors),
    ("setTensor", set_tensor),
    ("readTensor", read_tensor),
    ("setTrainable", set_trainable),
    ("setThreads", set_threads),
    ("addLora", add_lora),
    ("addValueHead", add_value_head),
    ("retain", retain),
    ("blend", blend),
    ("digest", digest),
    ("beginLoad", begin_load),
    ("loadTensor", load_tensor),
    ("loadMoments", load_moments),
    ("loadSteps", load_steps),
    ("commitLoad", commit_load),
    ("keepLoad", keep_load),
    ("release", release),
    ("memory", memory),
    ("stats", stats),
    ("sample", sample),
    ("embed", embed),
    ("cancel", cancel),
    ("setVocabulary", set_vocabulary),
    ("setConstraint", set_constraint),
    ("forward", forward),
    ("backward", backward),
    ("step", step),
    ("zeroGradients", zero_gradients),
    ("readFlat", read_flat),
    ("writeFlat", write_flat),
];

const MAX_ARGS: usize = 5;

struct Call {
    env: Env,
    args: [Value; MAX_ARGS],
}

impl Call {
    fn arg<'a>(&self, index: usize, name: &'a str) -> Arg<'a> {
        Arg { env: self.env, value: self.args[index], name }
    }

    fn external(&self, value: Value, name: &str) -> Result<&Held, EngineError> {
        let mut data: *mut c_void = null_mut();
        if unsafe { (api().napi_get_value_external)(self.env, value, &mut data) } != api::OK || data.is_null() {
            return Err(EngineError::input(format!("{name} must be what an earlier call gave.")));
        }
        // Safety: externals are only made by `held_to_js`; the argument keeps it alive during the call.
        Ok(unsafe { &*data.cast::<Held>() })
    }

    fn engine(&self) -> Result<&Engine, EngineError> {
        Ok(&self.external(self.args[0], "The first argument")?.engine)
    }

    /// The id of something that this model gave out.
    fn held(&self, index: usize, name: &str) -> Result<u64, EngineError> {
        self.held_in(&self.arg(index, name))
    }

    fn held_in(&self, arg: &Arg<'_>) -> Result<u64, EngineError> {
        let held = self.external(arg.value, arg.name)?;
        if !std::ptr::eq(&*held.engine, self.engine()?) {
            return Err(EngineError::input(format!("{} is of another model.", arg.name)));
        }
        Ok(held.id)
    }

    fn optional_held(&self, index: usize, name: &str) -> Result<Option<u64>, EngineError> {
        self.arg(index, name).optional().map(|arg| self.held_in(&arg)).transpose()
    }

    /// Work that leaves the weights as they are.
    fn read(&self, run: impl FnOnce(&mut State) -> Result<Reply, EngineError> + Send + 'static) -> Answer {
        unsafe { self.engine()?.submit(self.env, Work { cost: None, held: None, run: Box::new(run) }) }
    }

    /// Work on something that JavaScript holds.
    fn of_held(&self, id: u64, run: impl FnOnce(&mut State) -> Result<Reply, EngineError> + Send + 'static) -> Answer {
        unsafe { self.engine()?.submit(self.env, Work { cost: None, held: Some(id), run: Box::new(run) }) }
    }

    /// A change of the weights. `cost`: the bytes it reserves because others hold them; its answer says the new version too.
    fn change(
        &self,
        cost: impl Fn(&State) -> usize + Send + 'static,
        run: impl FnOnce(&mut State) -> Result<Vec<(&'static str, Reply)>, EngineError> + Send + 'static,
    ) -> Answer {
        let run = |state: &mut State| {
            let mut reply = run(state)?;
            reply.extend(state.changed(state.drained));
            Ok(Reply::Object(reply))
        };
        unsafe { self.engine()?.submit(self.env, Work { cost: Some(Box::new(cost)), held: None, run: Box::new(run) }) }
    }

    /// A part of a load.
    fn load(
        &self,
        id: u64,
        cost: impl Fn(&Model, &Staged) -> usize + Send + Clone + 'static,
        put: impl FnOnce(&mut Model, &mut Staged, bool) -> Result<(), EngineError> + Send + 'static,
    ) -> Answer {
        let again = cost.clone();
        let now = move |state: &State| state.loads.get(&id).map_or(0, |load| again(&state.model, &load.staged));
        let run = move |state: &mut State| state.load(id, cost, put);
        unsafe { self.engine()?.submit(self.env, Work { cost: Some(Box::new(now)), held: Some(id), run: Box::new(run) }) }
    }

    fn undefined(&self) -> Answer {
        self.answer(Reply::None)
    }

    /// At once, for what needs no engine thread.
    fn answer(&self, reply: Reply) -> Answer {
        unsafe { value::to_js(self.env, &reply, &|_| null_mut()) }
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

/// (config, { threads, slots, cacheBytes, forms, moments?, gradients?, maxWaiting?, versionBytes?, activationBytes?, drainMs? }, onTokens)
fn open(call: &Call) -> Answer {
    let config = read_config(&call.arg(0, "config"))?;
    let o = call.arg(1, "options");
    let optional = |name| o.field(name)?.optional().map(|value| value.size()).transpose();
    let options = Options {
        limits: Limits { slots: o.field("slots")?.size()?, cache_bytes: o.field("cacheBytes")?.size()? },
        max_waiting: optional("maxWaiting")?,
        version_bytes: optional("versionBytes")?,
        activation_bytes: optional("activationBytes")?.unwrap_or(0),
        drain: Duration::from_millis(optional("drainMs")?.unwrap_or(DRAIN_MS) as u64),
        rest: REST,
        fails_after: told_to_fail(std::env::var("STATESET_ENGINE_FAILS").ok().as_deref(), FAILURES.load(Ordering::Relaxed)),
    };
    let precision = |of| o.field(of)?.optional().map_or(Ok(Precision::F32), |name| Precision::of(of, &name.text()?));
    let build = Build {
        config,
        threads: threads_of(&o.field("threads")?)?,
        forms: read_forms(&o.field("forms")?)?,
        moments: precision("moments")?,
        gradients: precision("gradients")?,
    };
    unsafe { Engine::start(call.env, build, options, call.args[2]) }
}

const DRAIN_MS: usize = 30_000;
/// Longer than what is between two pieces of work of a training that computes its rewards fast.
const REST: Duration = Duration::from_secs(10);

fn close(call: &Call) -> Answer {
    unsafe { call.engine()?.close(call.env) }
}

/// More would only be a slip of the hand, and each takes memory that cannot be refused.
const MOST_THREADS: usize = 4096;

fn threads_of(threads: &Arg<'_>) -> Result<usize, EngineError> {
    match threads.size()? {
        many if many > MOST_THREADS => Err(EngineError::input(format!("threads is {many}; at most {MOST_THREADS} are supported."))),
        threads => Ok(threads.max(1)),
    }
}

fn set_threads(call: &Call) -> Answer {
    let threads = threads_of(&call.arg(1, "threads"))?;
    call.read(move |state| {
        state.model.set_threads(threads);
        Ok(Reply::None)
    })
}

fn memory(call: &Call) -> Answer {
    call.read(|state| {
        let (retained, versions) = state.beside();
        let passes: usize = state.passes.values().map(|pass| pass.bytes()).sum();
        Ok(Reply::Object(vec![
            ("model", Reply::Number(state.model.memory_bytes() as f64)),
            ("passes", Reply::Number(passes as f64)),
            ("retained", Reply::Number(retained as f64)),
            ("versions", Reply::Number(versions as f64)),
            ("cache", Reply::Number(state.scheduler.cache_bytes() as f64)),
            ("activations", Reply::Number(state.model.activation_bytes() as f64)),
        ]))
    })
}

/// Answered at once, also while the engine is at work.
fn stats(call: &Call) -> Answer {
    let (stats, waiting) = call.engine()?.stats();
    let numbers = [
        ("running", stats.running as u64),
        ("waiting", waiting as u64),
        ("slots", stats.slots as u64),
        ("cacheBytes", stats.cache_bytes as u64),
        ("steps", stats.counts.steps),
        ("promptTokens", stats.counts.prompt_tokens),
        ("cachedTokens", stats.counts.cached_tokens),
        ("sampledTokens", stats.counts.sampled_tokens),
        ("activationBytes", stats.activation_bytes as u64),
        ("trainedTokens", stats.reuse.tokens),
        ("reusedTokens", stats.reuse.reused),
        ("version", stats.version),
        ("versions", stats.versions as u64),
        ("drains", stats.drains),
    ];
    let mut reply: Vec<_> = numbers.map(|(name, number)| (name, Reply::Number(number as f64))).into();
    reply.push(("failed", Reply::Flag(call.engine()?.failed())));
    call.answer(Reply::Object(reply))
}
