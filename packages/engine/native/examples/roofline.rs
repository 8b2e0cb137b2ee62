//! `cargo run --release --example roofline`: what this machine can do at this moment, as one line of JSON. Benchmarks print it beside their
//! results (benchmarks/machine.ts): the same engine on another machine, or beside busy neighbours, gives other numbers.
//! Multiply-adds are those of the vector unit in f32, with everything in registers; where products run on the AMX unit they may be more.

use stateset_engine::buffer::Buffer;
use stateset_engine::pool::Pool;
use stateset_engine::simd::{Instructions, LANES, Level, Simd};
use stateset_engine::simd_dispatch;
use std::hint::black_box;
use std::time::Instant;

/// Multiply-adds into `N` sums that do not wait for each other; returns how many were made.
#[inline(always)]
unsafe fn chains<S: Simd, const N: usize>(rounds: usize) -> usize {
    unsafe {
        let (a, b) = (S::splat(black_box(0.5)), S::splat(black_box(0.25)));
        let mut sums = [S::zero(); N];
        for _ in 0..rounds {
            for x in &mut sums {
                *x = S::fma(a, *x, b);
            }
        }
        for x in sums {
            black_box(S::reduce_add(x));
        }
    }
    rounds * N * LANES
}

/// As many sums as the registers hold beside the operands: fewer would wait for each other.
#[inline(always)]
unsafe fn multiply_add<S: Simd>(rounds: usize) -> usize {
    unsafe { if S::MR * S::NP >= 16 { chains::<S, 16>(rounds) } else { chains::<S, 6>(rounds) } }
}

#[inline(always)]
unsafe fn read<S: Simd>(from: *const f32, floats: usize) {
    unsafe {
        let mut sums = [S::zero(); 4];
        for at in (0..floats).step_by(4 * LANES) {
            for (i, x) in sums.iter_mut().enumerate() {
                *x = S::add(*x, S::load(from.add(at + i * LANES)));
            }
        }
        for x in sums {
            black_box(S::reduce_add(x));
        }
    }
}

simd_dispatch! {
    unsafe fn multiply_add_on = multiply_add(rounds: usize) -> usize;
    unsafe fn read_on = read(from: *const f32, floats: usize);
}

/// Rounds of under a millisecond: on a busy machine some of them fall between two interruptions, and the fastest counts.
const ROUNDS: usize = 2000;
/// Floats that one thread reads in a round: 8 MiB.
const SLICE: usize = 1 << 21;

/// Seconds of the fastest round, in which every thread of the pool does the job.
fn fastest(pool: &Pool, job: impl Fn(usize, usize) + Sync) -> f64 {
    (0..ROUNDS)
        .map(|round| {
            let started = Instant::now();
            pool.run(pool.threads(), |chunk, _| job(round, chunk));
            started.elapsed().as_secs_f64()
        })
        .fold(f64::MAX, f64::min)
}

/// Billions of multiply-adds a second.
fn multiply_adds(level: Level, pool: &Pool) -> f64 {
    let steps = if level == Level::Scalar { 2_000 } else { 100_000 };
    let made = unsafe { multiply_add_on(level, steps) };
    let seconds = fastest(pool, |_, _| {
        unsafe { multiply_add_on(level, steps) };
    });
    (made * pool.threads()) as f64 / seconds / 1e9
}

/// Billions of bytes read a second. Every round reads other slices of what no cache holds, so that each comes from memory.
fn bytes_read(level: Level, pool: &Pool, memory: &[f32]) -> f64 {
    let slices = memory.len() / SLICE;
    let seconds = fastest(pool, |round, chunk| {
        let slice = (round * pool.threads() + chunk) % slices;
        unsafe { read_on(level, memory[slice * SLICE..].as_ptr(), SLICE) }
    });
    (4 * SLICE * pool.threads()) as f64 / seconds / 1e9
}

fn main() {
    let Instructions { level, amx, .. } = Instructions::choose().unwrap_or_else(|error| panic!("{error}"));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (one, all) = (Pool::new(1), Pool::new(threads));
    // 512 MiB: more than the caches of a processor hold. Written, or every page would be the same one of zeros.
    let mut memory = Buffer::zeroed(1 << 27, "memory to read").unwrap_or_else(|error| panic!("{error}"));
    memory.iter_mut().for_each(|x| *x = 1.0);
    println!(
        r#"{{"simd":"{}","vector":"{}","threads":{threads},"gigaMultiplyAdds":{{"one":{:.1},"all":{:.1}}},"gigabytesRead":{{"one":{:.1},"all":{:.1}}}}}"#,
        if amx { "amx" } else { level.name() },
        level.name(),
        multiply_adds(level, &one),
        multiply_adds(level, &all),
        bytes_read(level, &one, &memory),
        bytes_read(level, &all, &memory),
    );
}
