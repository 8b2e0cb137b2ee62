//! Where calls come in and are worked off, by one thread that owns the model. Work is done in the order of the calls, between two
//! decoding steps. A change of the weights goes ahead beside running replies, which keep the weights they began with; only
//! where there is no room for a second version does it wait for them, for a bounded time. Knows nothing of Node: `T` is
//! whatever an answer is given to.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::sample::outcome_reply;
use super::state::{State, Stats};
use super::value::Reply;
use crate::decode::{Outcome, Request, Sampled};
use crate::error::EngineError;

/// Bytes that work would reserve now, because others hold what it changes.
pub type Cost = Box<dyn Fn(&State) -> usize + Send>;

type Run = Box<dyn FnOnce(&mut State) -> Result<Reply, EngineError> + Send>;

pub struct Work {
    /// None for work that leaves the weights as they are.
    pub cost: Option<Cost>,
    /// What JavaScript holds that this is done to. A load that works in place lets only its own work through.
    pub held: Option<u64>,
    pub run: Run,
}

pub enum Job<T> {
    Work(Work, T),
    Sample(Request, T),
    /// JavaScript forgot something it held; nobody waits.
    Forget(u64),
    /// JavaScript forgot the model; nobody waits.
    Leave,
}

impl<T> Job<T> {
    /// Who waits for its outcome.
    fn ticket(self) -> Option<T> {
        match self {
            Job::Work(_, ticket) | Job::Sample(_, ticket) => Some(ticket),
            Job::Forget(_) | Job::Leave => None,
        }
    }
}

pub enum Event<T> {
    Settle(T, Result<Reply, EngineError>),
    Sampled(Vec<Sampled>),
}

struct Queue<T> {
    jobs: VecDeque<Job<T>>,
    cancelled: Vec<u64>,
    /// Requests without an outcome, wherever they are.
    unfinished: usize,
    stats: Stats,
    /// Why nothing more is taken: it was closed, or the engine failed.
    closed: Option<EngineError>,
    exited: bool,
    on_exit: Vec<T>,
}

pub struct Desk<T> {
    queue: Mutex<Queue<T>>,
    wake: Condvar,
    left: Condvar,
    /// Requests taken at a time.
    capacity: usize,
}

pub fn closed() -> EngineError {
    EngineError::new("CLOSED", "The model was closed.")
}

fn waited_in_vain(limit: Duration) -> EngineError {
    EngineError::new(
        "DRAIN_TIMEOUT",
        format!(
            "The weights could not be changed: there is no memory for a second version beside the one that running replies use, and they were not done within {} s.",
            limit.as_secs_f64()
        ),
    )
}

/// What to do in a turn.
struct Turn<T> {
    job: Option<Job<T>>,
    /// The job is a change that has waited for replies too long.
    overdue: bool,
    cancelled: Vec<u64>,
    /// Requests that were cancelled before they reached the scheduler.
    unheard: Vec<(Request, T)>,
}

impl<T> Desk<T> {
    pub fn new(slots: usize, max_waiting: Option<usize>) -> Desk<T> {
        let queue = Queue {
            jobs: VecDeque::new(),
            cancelled: Vec::new(),
            unfinished: 0,
            stats: Stats { slots, ..Stats::default() },
            closed: None,
            exited: false,
            on_exit: Vec::new(),
        };
        let capacity = max_waiting.map_or(usize::MAX, |waiting| slots.max(1).saturating_add(waiting));
        Desk { queue: Mutex::new(queue), wake: Condvar::new(), left: Condvar::new(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// When it is refused: who waits for it, and why.
    pub fn put(&self, job: Job<T>) -> Result<(), (Option<T>, EngineError)> {
        let mut queue = self.lock();
        if let Some(why) = &queue.closed {
            return Err((job.ticket(), why.clone()));
        }
        if matches!(job, Job::Sample(..)) {
            if queue.unfinished >= self.capacity {
                let message = format!("{} requests are running or waiting, which is all this model takes at a time.", queue.unfinished);
                return Err((job.ticket(), EngineError::new("BUSY", message)));
            }
            queue.unfinished += 1;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    pub fn cancel(&self, id: u64) {
        self.lock().cancelled.push(id);
        self.wake.notify_one();
    }

    /// Ends the work; `T` is told when the thread has left. Gives it back when it has already.
    pub fn close(&self, ticket: Option<T>) -> Option<T> {
        let mut queue = self.lock();
        queue.closed.get_or_insert_with(closed);
        if queue.exited {
            return ticket;
        }
        queue.on_exit.extend(ticket);
        drop(queue);
        self.wake.notify_one();
        None
    }

    /// Until the thread has left, or that time has passed.
    pub fn wait_for_exit(&self, limit: Duration) {
        let _ = self.left.wait_timeout_while(self.lock(), limit, |queue| !queue.exited);
    }

    /// The thread is about to leave: those who wait for that, those who wait for what nobody will do, and why.
    pub fn exit(&self) -> (Vec<T>, Vec<T>, EngineError) {
        let mut queue = self.lock();
        let why = queue.closed.get_or_insert_with(closed).clone();
        queue.exited = true;
        let left = (std::mem::take(&mut queue.on_exit), queue.jobs.drain(..).filter_map(Job::ticket).collect(), why);
        drop(queue);
        self.left.notify_all();
        left
    }

    /// With the number of requests that wait for a slot.
    pub fn stats(&self) -> (Stats, usize) {
        let queue = self.lock();
        (queue.stats, queue.unfinished.saturating_sub(queue.stats.running))
    }

    /// Whether it stopped by itself.
    pub fn failed(&self) -> bool {
        self.lock().closed.as_ref().is_some_and(|why| why.code == PANIC)
    }

    /// Nothing more is done: the model may be half changed.
    fn fail(&self, why: &EngineError) {
        self.lock().closed = Some(why.clone());
    }

    /// Works until it is closed.
    pub fn serve(&self, state: &mut State, send: &dyn Fn(Event<T>)) {
        let mut tickets: HashMap<u64, T> = HashMap::new();
        let mut draining: Option<Instant> = None;
        self.publish(state, 0);
        while let Some(turn) = self.next(state, &mut draining) {
            let mut settled: Vec<(T, Result<Reply, EngineError>)> = Vec::new();
            let mut sampled = Vec::new();
            let version = state.model.version();
            settled
                .extend(turn.unheard.into_iter().map(|(request, ticket)| (ticket, Ok(outcome_reply(Outcome::unheard(&request, version))))));
            for id in turn.cancelled {
                if let (Some(outcome), Some(ticket)) = (state.scheduler.cancel(id), tickets.remove(&id)) {
                    settled.push((ticket, Ok(outcome_reply(outcome))));
                }
            }
            let mut requests = settled.len();
            // What else is queued is taken before the next decoding step, so that requests made together start together.
            match turn.job {
                Some(Job::Work(work, ticket)) => {
                    state.drained = draining.take().is_some();
                    let outcome = if turn.overdue { Err(waited_in_vain(state.options.drain)) } else { guarded(|| (work.run)(state)) };
                    if let Err(error) = &outcome
                        && error.code == PANIC
                    {
                        self.fail(error);
                    }
                    settled.push((ticket, outcome));
                }
                Some(Job::Sample(request, ticket)) => {
                    let id = request.id;
                    match state.scheduler.submit(&state.model, request) {
                        Ok(()) => {
                            tickets.insert(id, ticket);
                            // Many come at once: nothing more is done about one of them, unless somebody else is to be answered.
                            if settled.is_empty() {
                                continue;
                            }
                        }
                        Err(error) => {
                            requests += 1;
                            settled.push((ticket, Err(error)));
                        }
                    }
                }
                Some(Job::Forget(id)) => state.forget(id),
                Some(Job::Leave) => self.lock().closed = Some(closed()),
                // Nobody knows when more will be kept.
                None if state.scheduler.idle() => state.model.trim_activations(),
                None => match guarded(|| Ok(state.step())) {
                    Ok(produced) => {
                        sampled = produced.sampled;
                        for finished in produced.finished {
                            let (id, outcome) = match finished {
                                Ok(outcome) => (outcome.id, Ok(outcome_reply(outcome))),
                                Err((id, error)) => (id, Err(error)),
                            };
                            if let Some(ticket) = tickets.remove(&id) {
                                requests += 1;
                                settled.push((ticket, outcome));
                            }
                        }
                    }
                    Err(error) => {
                        settled.extend(tickets.drain().map(|(_, ticket)| (ticket, Err(error.clone()))));
                        self.fail(&error);
                    }
                },
            }
            state.scheduler.sweep(Some(state.model.version()));
            // Before anybody hears of it, so that who has an answer finds it counted.
            self.publish(state, requests);
            if !sampled.is_empty() {
                send(Event::Sampled(sampled));
            }
            settled.into_iter().for_each(|(ticket, outcome)| send(Event::Settle(ticket, outcome)));
        }
        let why = self.lock().closed.clone().unwrap_or_else(closed);
        tickets.into_values().for_each(|ticket| send(Event::Settle(ticket, Err(why.clone()))));
    }

    fn publish(&self, state: &State, requests: usize) {
        let stats = state.stats();
        let mut queue = self.lock();
        queue.unfinished = queue.unfinished.saturating_sub(requests);
        queue.stats = stats;
        // Whoever still had something to wait for is about to be told.
        if queue.closed.is_some() {
            (queue.unfinished, queue.stats.running) = (0, 0);
        }
    }

    /// Waits for something to do. None: closed.
    fn next(&self, state: &State, draining: &mut Option<Instant>) -> Option<Turn<T>> {
        let mut queue = self.lock();
        loop {
            if queue.closed.is_some() {
                return None;
            }
            let cancelled = std::mem::take(&mut queue.cancelled);
            let mut unheard = Vec::new();
            for id in &cancelled {
                let at = queue.jobs.iter().position(|job| matches!(job, Job::Sample(request, _) if request.id == *id));
                if let Some(Job::Sample(request, ticket)) = at.and_then(|at| queue.jobs.remove(at)) {
                    unheard.push((request, ticket));
                }
            }
            let ready = ready(&queue.jobs, state, draining);
            let overdue = matches!(ready, Ready::Overdue(_));
            let job = match ready {
                Ready::Run(at) | Ready::Overdue(at) => queue.jobs.remove(at),
                Ready::Nothing => None,
            };
            if job.is_some() || !cancelled.is_empty() || !state.scheduler.idle() {
                return Some(Turn { job, overdue, cancelled, unheard });
            }
            let (woken, waited) = self.wake.wait_timeout(queue, state.options.rest).unwrap_or_else(|poisoned| poisoned.into_inner());
            if waited.timed_out() && state.model.activation_bytes() > 0 {
                return Some(Turn { job: None, overdue: false, cancelled, unheard });
            }
            queue = woken;
        }
    }
}

/// The place of the job whose turn it is.
enum Ready {
    Run(usize),
    Overdue(usize),
    Nothing,
}

fn ready<T>(jobs: &VecDeque<Job<T>>, state: &State, draining: &mut Option<Instant>) -> Ready {
    if let Some(load) = state.loading {
        let own = jobs.iter().position(|job| match job {
            Job::Work(work, _) => work.held == Some(load),
            Job::Forget(id) => *id == load,
            Job::Sample(..) | Job::Leave => false,
        });
        return own.map_or(Ready::Nothing, Ready::Run);
    }
    match jobs.front() {
        None => Ready::Nothing,
        Some(Job::Leave) if !state.scheduler.idle() => Ready::Nothing,
        Some(Job::Work(Work { cost: Some(cost), .. }, _)) if !state.scheduler.idle() && !state.has_room(cost(state)) => {
            let since = draining.get_or_insert_with(Instant::now);
            if since.elapsed() < state.options.drain { Ready::Nothing } else { Ready::Overdue(0) }
        }
        Some(_) => Ready::Run(0),
    }
}

pub const PANIC: &str = "ENGINE_FAILED";

/// A panic becomes an error; the engine stops after it, since the model may be half changed.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
        Err(EngineError::new(PANIC, format!("The engine failed and was stopped: {what}. Please report this.")))
    })
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
