//! How evenly jobs divide among more threads than the machine has: one thread does all chunks, and their processor time is dealt out
//! as the pool would deal them. It says nothing of what threads share: memory, caches, an AMX unit, the processor's clock.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Mutex;

#[derive(Debug, Clone, Default)]
pub struct Division {
    /// Processor nanoseconds between jobs, where one thread alone works.
    pub between: u64,
    /// By the place that started them: of all chunks, and of the thread that had most of each job.
    pub jobs: BTreeMap<String, (u64, u64)>,
}

struct Dealer {
    threads: usize,
    /// When the last job ended.
    ended: u64,
    found: Division,
}

static DEALER: Mutex<Option<Dealer>> = Mutex::new(None);

/// From now on, on so many threads.
pub fn start(threads: usize) {
    *DEALER.lock().unwrap() = Some(Dealer { threads, ended: processor_time(), found: Division::default() });
}

/// What was found; ends it.
pub fn finish() -> Division {
    DEALER.lock().unwrap().take().map(|dealer| dealer.found).unwrap_or_default()
}

pub(super) fn threads() -> Option<usize> {
    DEALER.lock().unwrap().as_ref().map(|dealer| dealer.threads)
}

#[track_caller]
pub(super) fn deal(chunks: usize, job: impl Fn(usize, usize)) {
    let place = Location::caller();
    let begun = processor_time();
    let times: Vec<u64> = (0..chunks)
        .map(|chunk| {
            let begun = processor_time();
            job(chunk, 0);
            processor_time() - begun
        })
        .collect();
    let mut dealer = DEALER.lock().unwrap();
    let Some(dealer) = dealer.as_mut() else { return };
    dealer.found.between += begun - dealer.ended;
    let mut loads = vec![0; dealer.threads];
    // Whoever is done first takes the next one.
    for time in &times {
        *loads.iter_mut().min().expect("there is a thread") += time;
    }
    let sums = dealer.found.jobs.entry(format!("{}:{}", place.file(), place.line())).or_default();
    sums.0 += times.iter().sum::<u64>();
    sums.1 += loads.iter().max().expect("there is a thread");
    dealer.ended = processor_time();
}

/// Of this thread, so that others at work on the machine are not counted.
fn processor_time() -> u64 {
    unsafe extern "C" {
        fn clock_gettime(clock: i32, to: *mut [i64; 2]) -> i32;
    }
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = [0i64; 2];
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}
