//! The Node side of a model's thread: calls become jobs at its desk, and its answers come back to the main thread as settled promises.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::api::{self, Deferred, Env, ThreadsafeFunction, Value, api};
use super::desk::{Desk, Event, Job, Work, guarded};
use super::sample::tokens_to_js;
use super::state::{Options, State, Stats};
use super::value::{Reply, error_to_js, string, to_js};
use crate::config::{Config, Precision};
use crate::decode::{Automaton, Constraint, Request, Vocabulary};
use crate::error::EngineError;
use crate::model::{Forms, Model};

/// A promise to settle. Node requires that this happens on its main thread, which is where the pointer goes back to.
#[derive(Clone, Copy)]
pub struct Ticket(Deferred);
unsafe impl Send for Ticket {}

/// The way to the main thread. Cut when Node shuts down, after which it must not be touched again.
struct Line<F> {
    function: F,
    cut: Mutex<bool>,
}

impl<F: Copy> Line<F> {
    fn new(function: F) -> Line<F> {
        Line { function, cut: Mutex::new(false) }
    }

    /// `call` says whether it went through; when it did not, the line is cut. It is not cut while somebody uses it.
    fn with(&self, call: impl FnOnce(F) -> bool) -> bool {
        let mut cut = self.cut.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *cut = *cut || !call(self.function);
        !*cut
    }

    fn cut(&self) {
        *self.cut.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
    }
}

pub struct Engine {
    desk: Desk<Ticket>,
    line: Line<ThreadsafeFunction>,
    /// Promises out; touched by the main thread only. While above 0 the process stays alive.
    pending: AtomicUsize,
    /// The cleanup hook holds a count on the engine.
    hooked: AtomicBool,
    /// What replies may be, by the number that requests name it by.
    constraints: Mutex<Constraints>,
}

#[derive(Default)]
struct Constraints {
    vocabulary: Option<Arc<Vocabulary>>,
    by_id: HashMap<u64, Arc<Constraint>>,
}

// Safety: the threadsafe function may be called from any thread; the rest is behind locks.
unsafe impl Send for Engine {}
unsafe impl Sync for Engine {}

/// What a model is made by.
pub struct Build {
    pub config: Config,
    pub threads: usize,
    pub forms: Forms,
    pub moments: Precision,
    pub gradients: Precision,
}

impl Build {
    fn model(self) -> Result<Model, EngineError> {
        let mut model = Model::with_forms(self.config, self.threads, &self.forms)?;
        model.set_moment_precision(self.moments)?;
        model.set_gradient_precision(self.gradients);
        Ok(model)
    }
}

/// What JavaScript holds: the model itself (id 0), or a thing of its (a pass, weights, a load).
pub struct Held {
    pub engine: Arc<Engine>,
    pub id: u64,
}

impl Engine {
    /// Starts the thread and builds the model on it. The promise resolves to the handle.
    pub unsafe fn start(env: Env, build: Build, options: Options, on_tokens: Value) -> Result<Value, EngineError> {
        let mut function: ThreadsafeFunction = null_mut();
        let status = unsafe {
            let name = string(env, "stateset-engine");
            (api().napi_create_threadsafe_function)(
                env,
                on_tokens,
                null_mut(),
                name,
                0,
                1,
                null_mut(),
                None,
                null_mut(),
                Some(deliver),
                &mut function,
            )
        };
        if status != api::OK {
            return Err(EngineError::new("ENGINE_FAILED", "Node could not create the function that results come back through."));
        }
        unsafe { (api().napi_unref_threadsafe_function)(env, function) };
        let engine = Arc::new(Engine {
            desk: Desk::new(options.limits.slots, options.max_waiting),
            line: Line::new(function),
            pending: AtomicUsize::new(0),
            hooked: AtomicBool::new(true),
            constraints: Mutex::default(),
        });
        let (ticket, promise) = unsafe { engine.promise(env)? };
        let hook = Arc::into_raw(engine.clone()) as *mut c_void;
        unsafe { (api().napi_add_env_cleanup_hook)(env, on_teardown, hook) };
        let worker = engine.clone();
        let spawned = std::thread::Builder::new().name("stateset-engine".into()).spawn(move || worker.main(build, options, ticket));
        if let Err(error) = spawned {
            let error = EngineError::new("ENGINE_FAILED", format!("The engine's thread could not start: {error}."));
            unsafe { engine.unhook(env) };
            engine.leave(ticket, Err(error));
        }
        Ok(promise)
    }

    unsafe fn promise(&self, env: Env) -> Result<(Ticket, Value), EngineError> {
        let (mut deferred, mut promise): (Deferred, Value) = (null_mut(), null_mut());
        if unsafe { (api().napi_create_promise)(env, &mut deferred, &mut promise) } != api::OK {
            return Err(EngineError::new("ENGINE_FAILED", "Node could not create a promise."));
        }
        if self.pending.fetch_add(1, Ordering::Relaxed) == 0 {
            unsafe { (api().napi_ref_threadsafe_function)(env, self.line.function) };
        }
        Ok((Ticket(deferred), promise))
    }

    pub unsafe fn submit(&self, env: Env, work: Work) -> Result<Value, EngineError> {
        let (ticket, promise) = unsafe { self.promise(env)? };
        self.put(Job::Work(work, ticket));
        Ok(promise)
    }

    pub unsafe fn sample(&self, env: Env, request: Request) -> Result<Value, EngineError> {
        let (ticket, promise) = unsafe { self.promise(env)? };
        self.put(Job::Sample(request, ticket));
        Ok(promise)
    }

    fn put(&self, job: Job<Ticket>) {
        if let Err((Some(ticket), error)) = self.desk.put(job) {
            self.send(Event::Settle(ticket, Err(error)));
        }
    }

    pub fn cancel(&self, id: u64) {
        self.desk.cancel(id);
    }

    fn constraints(&self) -> MutexGuard<'_, Constraints> {
        self.constraints.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn set_vocabulary(&self, vocabulary: Vocabulary) {
        self.constraints().vocabulary = Some(Arc::new(vocabulary));
    }

    /// Requests that run keep theirs.
    pub fn set_constraint(&self, id: u64, automaton: Option<Automaton>) -> Result<(), EngineError> {
        let mut constraints = self.constraints();
        let Some(automaton) = automaton else {
            constraints.by_id.remove(&id);
            return Ok(());
        };
        let vocabulary = constraints.vocabulary.clone();
        let vocabulary = vocabulary.ok_or_else(|| EngineError::input("A constraint needs the vocabulary, which was not given."))?;
        constraints.by_id.insert(id, Arc::new(Constraint::new(vocabulary, automaton)));
        Ok(())
    }

    pub fn constraint(&self, id: u64) -> Result<Arc<Constraint>, EngineError> {
        self.constraints().by_id.get(&id).cloned().ok_or_else(|| EngineError::input("There is no such constraint."))
    }

    pub fn stats(&self) -> (Stats, usize) {
        self.desk.stats()
    }

    pub fn failed(&self) -> bool {
        self.desk.failed()
    }

    /// Ends running requests, refuses waiting ones and frees the model. The promise resolves when that is done.
    pub unsafe fn close(&self, env: Env) -> Result<Value, EngineError> {
        let (ticket, promise) = unsafe { self.promise(env)? };
        if let Some(ticket) = self.desk.close(Some(ticket)) {
            self.send(Event::Settle(ticket, Ok(Reply::None)));
        }
        Ok(promise)
    }

    fn send(&self, event: Event<Ticket>) {
        let data = Box::into_raw(Box::new((self as *const Engine, event)));
        // Safety: every engine lives in an Arc; the event takes a count on it, which `deliver` gives back.
        unsafe {
            Arc::increment_strong_count(self as *const Engine);
            if !self.line.with(|function| (api().napi_call_threadsafe_function)(function, data.cast(), api::CALL_NONBLOCKING) == api::OK) {
                drop(Box::from_raw(data));
                Arc::decrement_strong_count(self as *const Engine);
            }
        }
    }

    fn main(self: Arc<Self>, build: Build, options: Options, ready: Ticket) {
        match guarded(|| build.model()) {
            Ok(model) => {
                let simd = Reply::Text(model.simd_name().into());
                let reply = vec![("handle", Reply::Held(0)), ("simd", simd), ("gainsByBf16", Reply::Flag(model.gains_by_bf16()))];
                let mut state = State::new(model, options);
                self.send(Event::Settle(ready, Ok(Reply::Object(reply))));
                self.desk.serve(&mut state, &|event| self.send(event));
                drop(state);
                self.dismiss();
            }
            Err(error) => self.leave(ready, Err(error)),
        }
    }

    /// There will be no thread.
    fn leave(&self, ready: Ticket, outcome: Result<Reply, EngineError>) {
        self.send(Event::Settle(ready, outcome));
        self.dismiss();
    }

    /// The model (and its memory) is gone; tells those who wait for that, and those who will wait in vain.
    fn dismiss(&self) {
        let (waiting, in_vain, why) = self.desk.exit();
        in_vain.into_iter().for_each(|ticket| self.send(Event::Settle(ticket, Err(why.clone()))));
        waiting.into_iter().for_each(|ticket| self.send(Event::Settle(ticket, Ok(Reply::None))));
    }

    unsafe fn unhook(self: &Arc<Self>, env: Env) {
        if self.hooked.swap(false, Ordering::AcqRel) {
            let hook = Arc::as_ptr(self);
            unsafe {
                (api().napi_remove_env_cleanup_hook)(env, on_teardown, hook.cast_mut().cast());
                Arc::decrement_strong_count(hook);
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.line.with(|function| unsafe { (api().napi_release_threadsafe_function)(function, api::RELEASE) == api::OK });
    }
}

/// Runs on the main thread for each event. `env` is null when Node is shutting down.
unsafe extern "C" fn deliver(env: Env, on_tokens: Value, _context: *mut c_void, data: *mut c_void) {
    // Safety: made by `send`, delivered once; `send` took a count on the engine for us.
    let (engine, event) = unsafe { *Box::from_raw(data.cast::<(*const Engine, Event<Ticket>)>()) };
    let engine = unsafe { Arc::from_raw(engine) };
    if env.is_null() {
        return;
    }
    let held = |id: u64| unsafe { held_to_js(env, Held { engine: engine.clone(), id }) };
    unsafe {
        match event {
            Event::Settle(ticket, outcome) => {
                let made = outcome.and_then(|reply| {
                    // What JavaScript never gets it cannot give back.
                    let forget = |_: &EngineError| reply.held().into_iter().for_each(|id| engine.put(Job::Forget(id)));
                    to_js(env, &reply, &held).inspect_err(forget)
                });
                match made {
                    Ok(value) => (api().napi_resolve_deferred)(env, ticket.0, value),
                    Err(error) => (api().napi_reject_deferred)(env, ticket.0, error_to_js(env, &error)),
                };
                if engine.pending.fetch_sub(1, Ordering::Relaxed) == 1 {
                    (api().napi_unref_threadsafe_function)(env, engine.line.function);
                }
            }
            Event::Sampled(sampled) => {
                let args: Result<Vec<Value>, EngineError> = tokens_to_js(sampled).iter().map(|reply| to_js(env, reply, &held)).collect();
                let args = match args {
                    Ok(args) => args,
                    Err(error) => {
                        (api().napi_fatal_exception)(env, error_to_js(env, &error));
                        return;
                    }
                };
                let (mut undefined, mut result, mut thrown): (Value, Value, Value) = (null_mut(), null_mut(), null_mut());
                (api().napi_get_undefined)(env, &mut undefined);
                if (api().napi_call_function)(env, undefined, on_tokens, args.len(), args.as_ptr(), &mut result) != api::OK {
                    (api().napi_get_and_clear_last_exception)(env, &mut thrown);
                    (api().napi_fatal_exception)(env, thrown);
                }
            }
        }
    }
}

unsafe fn held_to_js(env: Env, held: Held) -> Value {
    let mut value: Value = null_mut();
    let data = Box::into_raw(Box::new(held));
    unsafe {
        if (api().napi_create_external)(env, data.cast(), Some(on_forgotten), null_mut(), &mut value) != api::OK {
            on_forgotten(env, data.cast(), null_mut());
        }
    }
    value
}

/// JavaScript dropped what it held: a thing of the model's is freed; with the model, what is queued is finished first.
unsafe extern "C" fn on_forgotten(env: Env, data: *mut c_void, _hint: *mut c_void) {
    let Held { engine, id } = *unsafe { Box::from_raw(data.cast::<Held>()) };
    if id != 0 {
        engine.put(Job::Forget(id));
        return;
    }
    unsafe { engine.unhook(env) };
    engine.put(Job::Leave);
}

/// The environment (process or worker) ends: the thread must not outlive it, since the library may be unloaded.
unsafe extern "C" fn on_teardown(data: *mut c_void) {
    let engine = unsafe { Arc::from_raw(data.cast::<Engine>()) };
    engine.hooked.store(false, Ordering::Release);
    // The threadsafe function goes with the environment.
    engine.line.cut();
    engine.desk.close(None);
    // A decoding step is short; a training pass may be long, and a process that exits need not wait for it.
    engine.desk.wait_for_exit(Duration::from_secs(3));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_not_cut_while_it_is_used_and_not_used_once_it_is_cut() {
        let line = Line::new(());
        let (inside, uses) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                while line.with(|()| {
                    inside.store(true, Ordering::SeqCst);
                    uses.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(1));
                    inside.store(false, Ordering::SeqCst);
                    true
                }) {}
            });
            std::thread::sleep(Duration::from_millis(10));
            line.cut();
            assert!(!inside.load(Ordering::SeqCst));
            let before = uses.load(Ordering::SeqCst);
            user.join().unwrap();
            assert_eq!(uses.load(Ordering::SeqCst), before);
        });
        assert!(!line.with(|()| true));
    }
}
