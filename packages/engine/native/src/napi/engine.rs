//! One thread per model. It owns the model and works off a queue; JavaScript's main thread only puts jobs in and gets results
//! back as settled promises. Work that changes weights waits until all earlier sampling is done; work that only reads them runs
//! between two decoding steps.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::api::{self, Deferred, Env, ThreadsafeFunction, Value, api};
use super::value::{Reply, error_to_js, string, to_js};
use crate::config::Config;
use crate::decode::{Finish, Limits, Outcome, Request, Sampled, Scheduler};
use crate::error::EngineError;
use crate::model::{Model, Pass};

/// What the engine thread works on.
pub struct State {
    pub model: Model,
    /// The frozen copy that a fully trained model is compared with.
    pub reference: Option<Model>,
    pub scheduler: Scheduler,
    /// Forward passes that wait for backward, by the id JavaScript holds.
    pub passes: HashMap<u64, Pass>,
    pub next_pass: u64,
}

type Work = Box<dyn FnOnce(&mut State) -> Result<Reply, EngineError> + Send>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Reads,
    /// Changes what sampling would give: waits for running requests and empties the prefix cache.
    Changes,
}

enum Job {
    Work(Access, Work, Ticket),
    Sample(Request, Ticket),
    /// The handle was collected; nobody waits.
    Drop,
}

/// A promise to settle. Node requires that this happens on its main thread, which is where the pointer goes back to.
struct Ticket(Deferred);
unsafe impl Send for Ticket {}

enum Event {
    Settle(Ticket, Result<Reply, EngineError>),
    Sampled(Vec<Sampled>),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    cancelled: Vec<u64>,
    closed: bool,
    exited: bool,
    on_exit: Vec<Ticket>,
}

pub struct Engine {
    queue: Mutex<Queue>,
    wake: Condvar,
    left: Condvar,
    function: ThreadsafeFunction,
    /// Promises out; touched by the main thread only. While above 0 the process stays alive.
    pending: AtomicUsize,
    /// The cleanup hook holds a count on the engine.
    hooked: AtomicBool,
    /// Node is shutting down: the threadsafe function must not be touched again.
    gone: AtomicBool,
}
// Safety: the threadsafe function may be called from any thread; the rest is behind locks.
unsafe impl Send for Engine {}
unsafe impl Sync for Engine {}

fn closed() -> EngineError {
    EngineError::new("CLOSED", "The model was closed.")
}

impl Engine {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Starts the thread and builds the model on it. The promise resolves to the handle.
    pub unsafe fn start(env: Env, config: Config, threads: usize, limits: Limits, on_tokens: Value) -> Result<Value, EngineError> {
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
            queue: Mutex::default(),
            wake: Condvar::new(),
            left: Condvar::new(),
            function,
            pending: AtomicUsize::new(0),
            hooked: AtomicBool::new(true),
            gone: AtomicBool::new(false),
        });
        let (ticket, promise) = unsafe { engine.promise(env)? };
        let hook = Arc::into_raw(engine.clone()) as *mut c_void;
        unsafe { (api().napi_add_env_cleanup_hook)(env, on_teardown, hook) };
        let worker = engine.clone();
        let spawned =
            std::thread::Builder::new().name("stateset-engine".into()).spawn(move || worker.main(config, threads, limits, ticket));
        match spawned {
            Ok(_) => Ok(promise),
            Err(error) => Err(EngineError::new("ENGINE_FAILED", format!("The engine's thread could not start: {error}."))),
        }
    }

    unsafe fn promise(&self, env: Env) -> Result<(Ticket, Value), EngineError> {
        let (mut deferred, mut promise): (Deferred, Value) = (null_mut(), null_mut());
        if unsafe { (api().napi_create_promise)(env, &mut deferred, &mut promise) } != api::OK {
            return Err(EngineError::new("ENGINE_FAILED", "Node could not create a promise."));
        }
        if self.pending.fetch_add(1, Ordering::Relaxed) == 0 {
            unsafe { (api().napi_ref_threadsafe_function)(env, self.function) };
        }
        Ok((Ticket(deferred), promise))
    }

    pub unsafe fn submit(&self, env: Env, access: Access, work: Work) -> Result<Value, EngineError> {
        let (ticket, promise) = unsafe { self.promise(env)? };
        self.put(Job::Work(access, work, ticket));
        Ok(promise)
    }

    pub unsafe fn sample(&self, env: Env, request: Request) -> Result<Value, EngineError> {
        let (ticket, promise) = unsafe { self.promise(env)? };
        self.put(Job::Sample(request, ticket));
        Ok(promise)
    }

    fn put(&self, job: Job) {
        let mut queue = self.lock();
        if queue.closed {
            drop(queue);
            self.refuse(job);
            return;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.wake.notify_one();
    }

    fn refuse(&self, job: Job) {
        match job {
            Job::Work(_, _, ticket) | Job::Sample(_, ticket) => self.send(Event::Settle(ticket, Err(closed()))),
            Job::Drop => {}
        }
    }

    pub fn cancel(&self, id: u64) {
        self.lock().cancelled.push(id);
        self.wake.notify_one();
    }

    /// Ends running requests, refuses waiting ones and frees the model. The promise resolves when that is done.
    pub unsafe fn close(&self, env: Env) -> Result<Value, EngineError> {
        let (ticket, promise) = unsafe { self.promise(env)? };
        let mut queue = self.lock();
        queue.closed = true;
        if queue.exited {
            drop(queue);
            self.send(Event::Settle(ticket, Ok(Reply::None)));
        } else {
            queue.on_exit.push(ticket);
            drop(queue);
            self.wake.notify_one();
        }
        Ok(promise)
    }

    fn send(&self, event: Event) {
        if self.gone.load(Ordering::Acquire) {
            return;
        }
        let data = Box::into_raw(Box::new((self as *const Engine, event)));
        // Safety: every engine lives in an Arc; the event takes a count on it, which `deliver` gives back.
        unsafe {
            Arc::increment_strong_count(self as *const Engine);
            if (api().napi_call_threadsafe_function)(self.function, data.cast(), api::CALL_NONBLOCKING) != api::OK {
                self.gone.store(true, Ordering::Release);
                drop(Box::from_raw(data));
                Arc::decrement_strong_count(self as *const Engine);
            }
        }
    }

    fn main(self: Arc<Self>, config: Config, threads: usize, limits: Limits, ready: Ticket) {
        let model = guarded(|| Model::new(config, threads));
        match model {
            Ok(model) => {
                let simd = model.simd_name();
                let mut state = State { model, reference: None, scheduler: Scheduler::new(limits), passes: HashMap::new(), next_pass: 1 };
                let handle = Arc::into_raw(self.clone()) as *mut c_void;
                let reply = vec![("handle", Reply::External(handle, on_collected)), ("simd", Reply::Text(simd.into()))];
                self.send(Event::Settle(ready, Ok(Reply::Object(reply))));
                self.work(&mut state);
            }
            Err(error) => {
                self.lock().closed = true;
                self.send(Event::Settle(ready, Err(error)));
            }
        }
        // The model (and its memory) is gone; tell those who wait for that.
        let mut queue = self.lock();
        queue.exited = true;
        let waiting = std::mem::take(&mut queue.on_exit);
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        jobs.into_iter().for_each(|job| self.refuse(job));
        for ticket in waiting {
            self.send(Event::Settle(ticket, Ok(Reply::None)));
        }
        self.left.notify_all();
    }

    fn work(&self, state: &mut State) {
        let mut tickets: HashMap<u64, Ticket> = HashMap::new();
        loop {
            let (job, cancelled) = {
                let mut queue = self.lock();
                while !queue.closed && queue.jobs.is_empty() && queue.cancelled.is_empty() && state.scheduler.idle() {
                    queue = self.wake.wait(queue).unwrap_or_else(|poisoned| poisoned.into_inner());
                }
                if queue.closed {
                    break;
                }
                let cancelled = std::mem::take(&mut queue.cancelled);
                for id in &cancelled {
                    let at = queue.jobs.iter().position(|job| matches!(job, Job::Sample(request, _) if request.id == *id));
                    if let Some(Job::Sample(request, ticket)) = at.and_then(|at| queue.jobs.remove(at)) {
                        let outcome = Outcome { id: request.id, tokens: vec![], logprobs: vec![], finish: Finish::Cancelled, cached: 0 };
                        self.send(Event::Settle(ticket, Ok(outcome_reply(outcome))));
                    }
                }
                let blocked = matches!(queue.jobs.front(), Some(Job::Work(Access::Changes, ..) | Job::Drop)) && !state.scheduler.idle();
                (if blocked { None } else { queue.jobs.pop_front() }, cancelled)
            };
            for id in cancelled {
                if let (Some(outcome), Some(ticket)) = (state.scheduler.cancel(id), tickets.remove(&id)) {
                    self.send(Event::Settle(ticket, Ok(outcome_reply(outcome))));
                }
            }
            match job {
                Some(Job::Work(access, work, ticket)) => {
                    if access == Access::Changes {
                        state.scheduler.forget();
                    }
                    let outcome = guarded(|| work(state));
                    let fatal = matches!(&outcome, Err(error) if error.code == PANIC);
                    self.send(Event::Settle(ticket, outcome));
                    if fatal {
                        self.lock().closed = true;
                    }
                    // Take what else is queued before the next decoding step, so that requests made together start together.
                    continue;
                }
                Some(Job::Sample(request, ticket)) => {
                    let id = request.id;
                    match state.scheduler.submit(&state.model, request) {
                        Ok(()) => {
                            tickets.insert(id, ticket);
                        }
                        Err(error) => self.send(Event::Settle(ticket, Err(error))),
                    }
                    continue;
                }
                Some(Job::Drop) => {
                    self.lock().closed = true;
                    continue;
                }
                None => {}
            }
            if state.scheduler.idle() {
                continue;
            }
            match guarded(|| Ok(state.scheduler.step(&mut state.model))) {
                Ok(produced) => {
                    if !produced.sampled.is_empty() {
                        self.send(Event::Sampled(produced.sampled));
                    }
                    for finished in produced.finished {
                        let (id, outcome) = match finished {
                            Ok(outcome) => (outcome.id, Ok(outcome_reply(outcome))),
                            Err((id, error)) => (id, Err(error)),
                        };
                        if let Some(ticket) = tickets.remove(&id) {
                            self.send(Event::Settle(ticket, outcome));
                        }
                    }
                }
                Err(error) => {
                    for (_, ticket) in tickets.drain() {
                        self.send(Event::Settle(ticket, Err(error.clone())));
                    }
                    self.lock().closed = true;
                }
            }
        }
        for (_, ticket) in tickets.drain() {
            self.send(Event::Settle(ticket, Err(closed())));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.gone.load(Ordering::Acquire) {
            unsafe { (api().napi_release_threadsafe_function)(self.function, api::RELEASE) };
        }
    }
}

const PANIC: &str = "ENGINE_FAILED";

/// A panic becomes an error; the engine stops after it, since the model may be half changed.
fn guarded<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
        Err(EngineError::new(PANIC, format!("The engine failed and was stopped: {what}. Please report this.")))
    })
}

fn outcome_reply(outcome: Outcome) -> Reply {
    let finish = match outcome.finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Cancelled => "aborted",
    };
    Reply::Object(vec![
        ("tokens", Reply::Ints(outcome.tokens)),
        ("logprobs", Reply::Floats(outcome.logprobs)),
        ("finish", Reply::Text(finish.into())),
        ("cached", Reply::Number(outcome.cached as f64)),
    ])
}

/// Runs on the main thread for each event. `env` is null when Node is shutting down.
unsafe extern "C" fn deliver(env: Env, on_tokens: Value, _context: *mut c_void, data: *mut c_void) {
    // Safety: made by `send`, delivered once; `send` took a count on the engine for us.
    let (engine, event) = unsafe { *Box::from_raw(data.cast::<(*const Engine, Event)>()) };
    let engine = unsafe { Arc::from_raw(engine) };
    if env.is_null() {
        return;
    }
    unsafe {
        match event {
            Event::Settle(ticket, outcome) => {
                match outcome {
                    Ok(reply) => (api().napi_resolve_deferred)(env, ticket.0, to_js(env, reply)),
                    Err(error) => (api().napi_reject_deferred)(env, ticket.0, error_to_js(env, &error)),
                };
                if engine.pending.fetch_sub(1, Ordering::Relaxed) == 1 {
                    (api().napi_unref_threadsafe_function)(env, engine.function);
                }
            }
            Event::Sampled(sampled) => {
                let ids = Reply::List(sampled.iter().map(|s| Reply::Number(s.id as f64)).collect());
                let tokens = Reply::Ints(sampled.iter().map(|s| s.token).collect());
                let logprobs = Reply::Floats(sampled.iter().map(|s| s.logprob).collect());
                let args = [to_js(env, ids), to_js(env, tokens), to_js(env, logprobs)];
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

/// JavaScript dropped the handle: finish what is queued, then leave.
unsafe extern "C" fn on_collected(env: Env, data: *mut c_void, _hint: *mut c_void) {
    let engine = unsafe { Arc::from_raw(data.cast::<Engine>()) };
    if engine.hooked.swap(false, Ordering::AcqRel) {
        unsafe {
            (api().napi_remove_env_cleanup_hook)(env, on_teardown, data);
            Arc::decrement_strong_count(data.cast::<Engine>());
        }
    }
    engine.put(Job::Drop);
}

/// The environment (process or worker) ends: the thread must not outlive it, since the library may be unloaded.
unsafe extern "C" fn on_teardown(data: *mut c_void) {
    let engine = unsafe { Arc::from_raw(data.cast::<Engine>()) };
    engine.hooked.store(false, Ordering::Release);
    let mut queue = engine.lock();
    queue.closed = true;
    engine.wake.notify_one();
    // A decoding step is short; a training pass may be long, and a process that exits need not wait for it.
    let _ = engine.left.wait_timeout_while(queue, Duration::from_secs(3), |queue| !queue.exited);
    // The threadsafe function goes with the environment and must not be released after it: keep the engine's last count.
    std::mem::forget(engine);
}
