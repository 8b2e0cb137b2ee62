//! What threads cost and bring: `cargo run --release --example threads [-- threads]`. First a fork and join with nothing to do; then the
//! products of a decoding step of the 12M shape, by rows, on one thread and on several. Microseconds: the fastest, and the middle one.

use stateset_engine::buffer::Buffer;
use stateset_engine::gemm::{Exec, Job, forward};
use stateset_engine::kernel::counter_uniform;
use stateset_engine::simd::{Instructions, pad16};

/// As many matrices of a kind as the model has layers: one alone would stay in the second-level cache.
const LAYERS: usize = 8;
const ROUNDS: usize = 800;

fn noise(n: usize) -> Buffer {
    let mut buffer = Buffer::zeroed(n, "noise").unwrap();
    for (i, x) in buffer.iter_mut().enumerate() {
        *x = counter_uniform(1, 2, i as u64) - 0.5;
    }
    buffer
}

fn times(rounds: usize, mut run: impl FnMut(usize)) -> (f64, f64) {
    let mut all: Vec<f64> = (0..rounds)
        .map(|round| {
            let start = std::time::Instant::now();
            run(round);
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all[0], all[rounds / 2])
}

fn main() {
    let threads: usize = std::env::args().nth(1).map_or(2, |count| count.parse().unwrap());
    let level = Instructions::choose().unwrap().level;
    let mut execs = [Exec::new(level, 1), Exec::new(level, threads)];
    for chunks in [2, 8, 32] {
        let (least, middle) = times(20_000, |_| {
            execs[1].pool.run(chunks, |chunk, _| {
                std::hint::black_box(chunk);
            })
        });
        println!("fork and join of {chunks} empty chunks on {threads} threads: {least:.2} ({middle:.2})");
    }
    println!("one thread / {threads} threads");
    let products = [
        ("qkv", 320, &[320, 160, 160][..]),
        ("o", 320, &[320]),
        ("gate up", 320, &[864, 864]),
        ("down", 864, &[320]),
        ("head", 320, &[8192]),
    ];
    for rows in [1, 2, 3, 4, 8, 16, 24, 32, 64] {
        let mut line = format!("{rows:3} rows:");
        for (name, k, widths) in products {
            let x = noise(rows * k);
            let weights: Vec<Vec<Buffer>> = (0..LAYERS).map(|_| widths.iter().map(|&n| noise(pad16(n) * k)).collect()).collect();
            let outs: Vec<Buffer> = widths.iter().map(|&n| noise(rows * pad16(n))).collect();
            let jobs: Vec<Vec<Job>> = weights
                .iter()
                .map(|of| (0..widths.len()).map(|i| Job::of(of[i].as_ptr(), widths[i], outs[i].pointer(), pad16(widths[i]))).collect())
                .collect();
            let measure = |exec: &mut Exec| {
                let (least, middle) =
                    times(ROUNDS, |round| unsafe { forward(exec, x.as_ptr(), k, rows, k, &jobs[round % LAYERS]).unwrap() });
                format!("{least:.1} ({middle:.1})")
            };
            let [one, several] = &mut execs;
            line += &format!("  {name} {} / {}", measure(one), measure(several));
        }
        println!("{line}");
    }
}
