//! How evenly a step of GRPO divides among threads, also among more than the machine has (`src/pool/division.rs`):
//! `cargo run --release --features division --example division [-- shape]`.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "parts/shapes.rs"]
mod shapes;

use common::{STEP, WANT};
use stateset_engine::kernel::{counter_random, counter_uniform};
use stateset_engine::pool::division;
use stateset_engine::*;

/// A system prompt, four questions, eight replies to each.
const PROMPT: usize = 14 + 4 * 17;
const LENGTHS: [usize; 37] = {
    let mut lengths = [48; 37];
    lengths[0] = 14;
    let mut question = 1;
    while question < 5 {
        lengths[question] = 17;
        question += 1;
    }
    lengths
};

fn main() {
    let shape = std::env::args().nth(1).unwrap_or("starter".into());
    let mut m = Model::new(shapes::config(&shape), 1).unwrap();
    for (stream, spec) in m.tensors().iter().enumerate().filter(|(_, spec)| !spec.name.contains("norm")) {
        let data: Vec<f32> = (0..spec.rows * spec.cols).map(|i| 0.07 * (counter_uniform(9, stream as u64, i as u64) - 0.5)).collect();
        m.set_tensor(&spec.name, &data).unwrap();
    }
    m.set_trainable(Trainable::Full).unwrap();
    let start: Vec<u32> = (0..=LENGTHS.len()).map(|node| LENGTHS[..node].iter().sum::<usize>() as u32).collect();
    let parent: Vec<i32> = (0..37)
        .map(|node| {
            if node == 0 {
                -1
            } else if node < 5 {
                0
            } else {
                1 + (node - 5) / 8
            }
        })
        .collect();
    let n = start[LENGTHS.len()] as usize;
    let vocab = m.config().vocab as u64;
    let tokens: Vec<u32> = (0..n).map(|i| (counter_random(5, 5, i as u64) % vocab) as u32).collect();
    let wanted: Vec<u8> = (0..n).map(|i| u8::from(i >= PROMPT)).collect();
    let batch = TreeBatch { tokens: &tokens, node_start: &start, node_parent: &parent, wanted: &wanted, temperature: 1.0 };
    let slopes = vec![1.0 / n as f32; n];
    println!("{shape}, {n} tokens, {}: processor time of one thread, dealt out", m.simd_name());
    // The first step reserves memory.
    for threads in [1, 1, 2, 4, 8, 16, 32] {
        division::start(threads);
        let pass = m.forward(&batch, Want { grad: true, ..WANT }).unwrap();
        m.backward(pass, &Derivatives { logprobs: &slopes, entropy: None, values: None, value_into_trunk: false }).unwrap();
        m.step(&StepOptions { learning_rate: 1e-5, ..STEP }).unwrap();
        let found = division::finish();
        let sum = |of: fn(&(u64, u64)) -> u64| found.jobs.values().map(of).sum::<u64>();
        let (all, longest) = (sum(|job| job.0), sum(|job| job.1));
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let times = (found.between + all) as f64 / (found.between + longest) as f64;
        println!(
            "{threads:2} threads: {:.1} ms in jobs, {:.2} ms between them; {times:.2} times as fast",
            milliseconds(all),
            milliseconds(found.between)
        );
        let mut jobs: Vec<_> = found.jobs.iter().collect();
        let lost = |(all, longest): &(u64, u64)| longest.saturating_sub(all / threads as u64);
        jobs.sort_by_key(|(_, times)| std::cmp::Reverse(lost(times)));
        for (place, times) in jobs.iter().take(if threads > 1 { 3 } else { 0 }) {
            println!("   {:.2} ms longer than an even share: {place}", milliseconds(lost(times)));
        }
    }
}
