//! Threads that claim chunks of a job from one atomic word. The caller works too, and waits only for chunks
//! somebody claimed: a thread that wakes late finds nothing to claim and is never waited for.

#[cfg(feature = "division")]
pub mod division;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};

/// The claim word: epoch (24 bits) | chunks (20 bits) | next chunk (20 bits).
const FIELD: u32 = 20;
const MASK: u64 = (1 << FIELD) - 1;
/// Most chunks of one round.
const MAX_CHUNKS: usize = MASK as usize;
/// Polls before parking: some tens of microseconds, the gap between two jobs of one pass.
const SPINS: u32 = 800;

struct State {
    word: AtomicU64,
    /// The job as two words of a `&dyn Fn(chunk, thread)`; only used after a claim of its epoch succeeded, and the caller
    /// stays in `run` until every claimed chunk is done, so it never dangles.
    job: [AtomicUsize; 2],
    done: AtomicUsize,
    panicked: AtomicBool,
    stop: AtomicBool,
    parked: Vec<AtomicBool>,
    caller_parked: AtomicBool,
    caller: std::sync::Mutex<Option<Thread>>,
}

pub struct Pool {
    state: Arc<State>,
    workers: Vec<JoinHandle<()>>,
}

type Job<'a> = &'a (dyn Fn(usize, usize) + Sync);

impl State {
    /// Claims one chunk of the current job.
    fn claim(&self) -> Option<(usize, usize, [usize; 2])> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let (count, next) = ((word >> FIELD) & MASK, word & MASK);
            if next >= count {
                return None;
            }
            let job = [self.job[0].load(Ordering::Relaxed), self.job[1].load(Ordering::Relaxed)];
            match self.word.compare_exchange_weak(word, word + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((next as usize, count as usize, job)),
                Err(now) => word = now,
            }
        }
    }

    /// Works until nothing is left to claim.
    fn work(&self, thread: usize) {
        while let Some((chunk, count, words)) = self.claim() {
            let job: Job<'_> = unsafe { std::mem::transmute(words) };
            if catch_unwind(AssertUnwindSafe(|| job(chunk, thread))).is_err() {
                self.panicked.store(true, Ordering::Release);
            }
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == count && self.caller_parked.swap(false, Ordering::AcqRel) {
                let caller = self.caller.lock().unwrap_or_else(|e| e.into_inner()).clone();
                if let Some(caller) = caller {
                    caller.unpark();
                }
            }
        }
    }

    fn has_work(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word & MASK < (word >> FIELD) & MASK
    }
}

fn worker(state: Arc<State>, index: usize) {
    let mut spins = 0;
    while !state.stop.load(Ordering::Acquire) {
        if state.has_work() {
            state.work(index + 1);
            spins = 0;
        } else if spins < SPINS {
            spins += 1;
            std::hint::spin_loop();
        } else {
            state.parked[index].store(true, Ordering::SeqCst);
            if !state.has_work() && !state.stop.load(Ordering::SeqCst) {
                std::thread::park();
            }
            state.parked[index].store(false, Ordering::SeqCst);
            spins = 0;
        }
    }
}

impl Pool {
    /// `threads` counts the caller.
    pub fn new(threads: usize) -> Pool {
        Pool::with(threads, |index, work| std::thread::Builder::new().name(format!("engine-{index}")).spawn(work).ok())
    }

    /// `spawn` starts a thread, or cannot.
    fn with(threads: usize, mut spawn: impl FnMut(usize, Box<dyn FnOnce() + Send>) -> Option<JoinHandle<()>>) -> Pool {
        let extra = threads.max(1) - 1;
        let state = Arc::new(State {
            word: AtomicU64::new(0),
            job: [AtomicUsize::new(0), AtomicUsize::new(0)],
            done: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            parked: (0..extra).map(|_| AtomicBool::new(false)).collect(),
            caller_parked: AtomicBool::new(false),
            caller: std::sync::Mutex::new(None),
        });
        let workers = (0..extra)
            // None after one that cannot start, since a thread's number is below their count. With fewer it is slower, never wrong.
            .map_while(|index| {
                let state = state.clone();
                spawn(index, Box::new(move || worker(state, index)))
            })
            .collect();
        Pool { state, workers }
    }

    pub fn threads(&self) -> usize {
        #[cfg(feature = "division")]
        if let Some(threads) = division::threads() {
            return threads;
        }
        self.workers.len() + 1
    }

    /// Runs `job(chunk, thread)` for every chunk below `chunks`; `thread` is below `threads()` and is never in two chunks at once.
    #[cfg_attr(feature = "division", track_caller)]
    pub fn run(&self, chunks: usize, job: impl Fn(usize, usize) + Sync) {
        #[cfg(feature = "division")]
        if division::threads().is_some() {
            return division::deal(chunks, job);
        }
        // More than the counter can hold are run in several rounds.
        for first in (0..chunks).step_by(MAX_CHUNKS) {
            self.run_round((chunks - first).min(MAX_CHUNKS), |chunk, thread| job(first + chunk, thread));
        }
    }

    fn run_round(&self, chunks: usize, job: impl Fn(usize, usize) + Sync) {
        if chunks <= 1 || self.workers.is_empty() {
            for chunk in 0..chunks {
                job(chunk, 0);
            }
            return;
        }
        let state = &*self.state;
        let job: Job<'_> = &job;
        let words: [usize; 2] = unsafe { std::mem::transmute(job) };
        state.done.store(0, Ordering::Relaxed);
        state.job[0].store(words[0], Ordering::Relaxed);
        state.job[1].store(words[1], Ordering::Relaxed);
        let epoch = (state.word.load(Ordering::Relaxed) >> (2 * FIELD)).wrapping_add(1) & ((1 << 24) - 1);
        state.word.store(epoch << (2 * FIELD) | (chunks as u64) << FIELD, Ordering::SeqCst);
        for (parked, worker) in state.parked.iter().zip(&self.workers) {
            if parked.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        state.work(0);
        let mut spins = 0;
        while state.done.load(Ordering::Acquire) < chunks {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            *state.caller.lock().unwrap_or_else(|e| e.into_inner()) = Some(std::thread::current());
            state.caller_parked.store(true, Ordering::SeqCst);
            if state.done.load(Ordering::SeqCst) < chunks {
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
            state.caller_parked.store(false, Ordering::SeqCst);
        }
        if state.panicked.swap(false, Ordering::AcqRel) {
            resume_unwind(Box::new("a chunk of a parallel job panicked"));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        for worker in &self.workers {
            worker.thread().unpark();
        }
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_runs_once_and_the_caller_waits_for_all() {
        let pool = Pool::new(3);
        for round in 0..2_000 {
            let chunks = round % 37;
            let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(chunks, |chunk, thread| {
                assert!(thread < 3);
                counts[chunk].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn threads_are_numbered_below_their_count_also_where_one_cannot_start() {
        let pool = Pool::with(4, |index, work| (index != 1).then(|| std::thread::spawn(work)));
        assert_eq!(pool.threads(), 2);
        for _ in 0..200 {
            pool.run(64, |_, thread| {
                assert!(thread < 2);
                std::thread::sleep(std::time::Duration::from_micros(1));
            });
        }
    }

    #[test]
    fn more_chunks_than_the_counter_holds_are_run_in_rounds() {
        let (pool, chunks) = (Pool::new(3), MAX_CHUNKS + 7);
        let seen: Vec<AtomicBool> = (0..chunks).map(|_| AtomicBool::new(false)).collect();
        pool.run(chunks, |chunk, _| assert!(!seen[chunk].swap(true, Ordering::Relaxed)));
        assert!(seen.iter().all(|s| s.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_panic_in_a_chunk_reaches_the_caller_and_the_pool_survives() {
        let pool = Pool::new(2);
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(8, |chunk, _| assert!(chunk != 3))));
        assert!(result.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(8, |chunk, _| {
            sum.fetch_add(chunk, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 28);
    }
}
