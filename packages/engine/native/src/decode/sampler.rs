//! Chooses one token from a row of logits. Order as in `transformers`: repetition penalty, temperature, top-k, top-p, min-p.
//! Arithmetic is plain f32 without fused operations, so every machine draws the same token from the same logits and uniform.

use crate::error::EngineError;

#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// 0: greedy.
    pub temperature: f32,
    pub top_p: f32,
    /// 0: off.
    pub top_k: usize,
    pub min_p: f32,
    /// 1: off.
    pub repetition_penalty: f32,
}

/// Buffers reused from token to token.
#[derive(Default)]
pub struct Scratch {
    logits: Vec<f32>,
    weights: Vec<f32>,
    sums: Vec<f64>,
    kept: Vec<(f32, u32)>,
}

/// How many weights one partial sum covers.
const CHUNK: usize = 64;

/// `seen`: the distinct tokens of the prompt and the reply so far (read when the repetition penalty is on). `u` is uniform in [0, 1).
pub fn choose(row: &[f32], o: &Sampling, seen: &[u32], u: f64, s: &mut Scratch) -> Result<u32, EngineError> {
    let logits: &[f32] = if o.repetition_penalty == 1.0 {
        row
    } else {
        s.logits.clear();
        s.logits.extend_from_slice(row);
        for &token in seen {
            if let Some(l) = s.logits.get_mut(token as usize) {
                *l = if *l < 0.0 { *l * o.repetition_penalty } else { *l / o.repetition_penalty };
            }
        }
        &s.logits
    };
    let (best, max) = wide(Argmax { logits });
    if !max.is_finite() {
        return Err(EngineError::new(
            "NOT_FINITE",
            "The model's logits are not finite. Its weights hold NaN or infinity, or have diverged.",
        ));
    }
    if o.temperature == 0.0 {
        return Ok(best);
    }
    let inverse = 1.0 / o.temperature;
    s.weights.resize(logits.len(), 0.0);
    wide(Exponentials { logits, max, inverse, out: &mut s.weights });
    if o.top_k == 0 && o.top_p >= 1.0 && o.min_p <= 0.0 {
        return Ok(draw_all(&s.weights, &mut s.sums, u).unwrap_or(best));
    }
    keep(o, &s.weights, &mut s.kept);
    Ok(draw_kept(&s.kept, u).unwrap_or(best))
}

/// A loop over a row that is compiled once for the machine at hand and once for any. Without fused operations both give the same bits.
trait Wide {
    type Output;
    fn run(self) -> Self::Output;
}

fn wide<W: Wide>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        unsafe fn avx2<W: Wide>(work: W) -> W::Output {
            work.run()
        }
        if std::is_x86_feature_detected!("avx2") {
            return unsafe { avx2(work) };
        }
    }
    work.run()
}

/// First index of the maximum. NaN makes the maximum NaN.
struct Argmax<'a> {
    logits: &'a [f32],
}

impl Wide for Argmax<'_> {
    type Output = (u32, f32);
    #[inline(always)]
    fn run(self) -> (u32, f32) {
        let mut lanes = [f32::NEG_INFINITY; 16];
        // A sum is NaN when any of its terms is (or when infinities of both signs meet, which is as bad).
        let mut sums = [0.0f32; 16];
        let chunks = self.logits.chunks_exact(16);
        for (i, &l) in chunks.remainder().iter().enumerate() {
            sums[i] += l;
            lanes[i] = if l > lanes[i] { l } else { lanes[i] };
        }
        for chunk in chunks {
            for ((lane, sum), &l) in lanes.iter_mut().zip(&mut sums).zip(chunk) {
                *sum += l;
                *lane = if l > *lane { l } else { *lane };
            }
        }
        let max = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
        let best = self.logits.iter().position(|&l| l == max).unwrap_or(0);
        (best as u32, if sums.iter().any(|sum| sum.is_nan()) { f32::NAN } else { max })
    }
}

struct Exponentials<'a> {
    logits: &'a [f32],
    max: f32,
    inverse: f32,
    out: &'a mut [f32],
}

impl Wide for Exponentials<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (out, &l) in self.out.iter_mut().zip(self.logits) {
            *out = exp((l - self.max) * self.inverse);
        }
    }
}

/// Running sums of chunks of weights.
struct ChunkSums<'a> {
    weights: &'a [f32],
    sums: &'a mut Vec<f64>,
}

impl Wide for ChunkSums<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        self.sums.clear();
        let mut total = 0.0f64;
        for chunk in self.weights.chunks(CHUNK) {
            let mut lanes = [0.0f32; 16];
            for part in chunk.chunks(16) {
                for (lane, &w) in lanes.iter_mut().zip(part) {
                    *lane += w;
                }
            }
            total += lanes.iter().map(|&l| l as f64).sum::<f64>();
            self.sums.push(total);
        }
        total
    }
}

/// Inverse of the cumulative distribution over all weights, in two levels.
fn draw_all(weights: &[f32], sums: &mut Vec<f64>, u: f64) -> Option<u32> {
    let total = wide(ChunkSums { weights, sums });
    let target = u * total;
    let chunk = sums.partition_point(|&sum| sum <= target).min(sums.len().checked_sub(1)?);
    let mut sum = if chunk == 0 { 0.0 } else { sums[chunk - 1] };
    let start = chunk * CHUNK;
    let mut last = None;
    for (i, &w) in weights[start..(start + CHUNK).min(weights.len())].iter().enumerate() {
        if w > 0.0 {
            last = Some((start + i) as u32);
            sum += w as f64;
            if sum > target {
                break;
            }
        }
    }
    last
}

/// Larger weight first; ties in order of token id.
fn by_weight(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// The candidates that top-k, top-p and min-p leave, in order of token id.
fn keep(o: &Sampling, weights: &[f32], kept: &mut Vec<(f32, u32)>) {
    kept.clear();
    kept.extend(weights.iter().enumerate().map(|(i, &w)| (w, i as u32)));
    if o.top_k > 0 && o.top_k < kept.len() {
        kept.select_nth_unstable_by(o.top_k - 1, by_weight);
        kept.truncate(o.top_k);
        kept.sort_unstable_by_key(|&(_, token)| token);
    }
    if o.top_p < 1.0 {
        let last = nucleus_end(kept, o.top_p as f64);
        kept.retain(|candidate| by_weight(candidate, &last).is_le());
    }
    if o.min_p > 0.0 {
        // The largest weight is 1.
        kept.retain(|&(w, _)| w >= o.min_p.min(1.0));
    }
}

/// The last candidate, in falling order, of the smallest set whose mass reaches `top_p`. Sorts only the bucket in which it lies:
/// positive floats order as their bits do, so the upper bits (exponent and 3 of the mantissa) are the bucket.
fn nucleus_end(candidates: &[(f32, u32)], top_p: f64) -> (f32, u32) {
    let bucket = |w: f32| (w.to_bits() >> 20) as usize & 0x7ff;
    let mut mass = [0.0f64; 0x800];
    for &(w, _) in candidates {
        mass[bucket(w)] += w as f64;
    }
    let target = top_p * mass.iter().sum::<f64>();
    let mut sum = 0.0;
    let mut at = mass.len() - 1;
    while at > 0 && sum + mass[at] < target {
        sum += mass[at];
        at -= 1;
    }
    let mut inside: Vec<(f32, u32)> = candidates.iter().copied().filter(|&(w, _)| bucket(w) == at).collect();
    inside.sort_unstable_by(by_weight);
    for &candidate in &inside {
        sum += candidate.0 as f64;
        if sum >= target {
            return candidate;
        }
    }
    // Rounding left the sum a little short: all of it.
    inside.last().copied().unwrap_or((0.0, u32::MAX))
}

fn draw_kept(kept: &[(f32, u32)], u: f64) -> Option<u32> {
    let total: f64 = kept.iter().map(|&(w, _)| w as f64).sum();
    let mut sum = 0.0;
    for &(w, token) in kept {
        sum += w as f64;
        if sum > u * total {
            return Some(token);
        }
    }
    kept.last().map(|&(_, token)| token)
}

/// e^x for x ≤ 0 (relative error < 3e-7), written so that the compiler vectorises it: Cody–Waite reduction and a polynomial.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    let clamped = if x > -87.0 { x } else { -87.0 };
    let shifted = clamped * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = clamped - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    if x > -87.0 { p * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::random::uniform;
    use super::*;

    const PLAIN: Sampling = Sampling { temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0, repetition_penalty: 1.0 };

    fn row(n: usize) -> Vec<f32> {
        (0..n).map(|i| (uniform(11, i as u64) * 8.0 - 4.0) as f32).collect()
    }

    fn frequencies(row: &[f32], o: &Sampling, draws: u64) -> Vec<f64> {
        let mut counts = vec![0.0; row.len()];
        let mut scratch = Scratch::default();
        for i in 0..draws {
            counts[choose(row, o, &[], uniform(5, i), &mut scratch).unwrap() as usize] += 1.0 / draws as f64;
        }
        counts
    }

    fn exact(row: &[f32], temperature: f64) -> Vec<f64> {
        let weights: Vec<f64> = row.iter().map(|&l| (l as f64 / temperature).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|w| w / total).collect()
    }

    #[test]
    fn exp_is_accurate() {
        for i in 0..200_000 {
            let x = -(i as f32) * 4.3e-4;
            let relative = (exp(x) as f64 / (x as f64).exp() - 1.0).abs();
            assert!(relative < 3e-7, "{x}: {relative}");
        }
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn draws_follow_the_distribution() {
        let row = row(200);
        for temperature in [0.7, 1.0, 1.5] {
            let draws = 200_000;
            let got = frequencies(&row, &Sampling { temperature: temperature as f32, ..PLAIN }, draws);
            let want = exact(&row, temperature);
            let chi2: f64 = got.iter().zip(&want).map(|(g, w)| (g - w).powi(2) / w * draws as f64).sum();
            // 199 degrees of freedom: mean 199, standard deviation 20.
            assert!(chi2 < 290.0, "chi2 {chi2} at temperature {temperature}");
        }
    }

    #[test]
    fn greedy_takes_the_first_maximum() {
        let greedy = Sampling { temperature: 0.0, ..PLAIN };
        assert_eq!(choose(&[0.0, 3.0, 3.0, 1.0], &greedy, &[], 0.9, &mut Scratch::default()), Ok(1));
    }

    #[test]
    fn truncation_keeps_exactly_what_it_should() {
        // probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625
        let row: Vec<f32> = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].iter().map(|p| p.ln()).collect();
        let support = |o: Sampling| -> Vec<usize> {
            frequencies(&row, &o, 4000).iter().enumerate().filter(|(_, f)| **f > 0.0).map(|(i, _)| i).collect()
        };
        assert_eq!(support(Sampling { top_k: 2, ..PLAIN }), [0, 1]);
        assert_eq!(support(Sampling { top_p: 0.7, ..PLAIN }), [0, 1]);
        assert_eq!(support(Sampling { top_p: 0.8, ..PLAIN }), [0, 1, 2]);
        assert_eq!(support(Sampling { min_p: 0.2, ..PLAIN }), [0, 1, 2]);
        assert_eq!(support(Sampling { top_p: 1e-6, ..PLAIN }), [0]);
        // top-p is a share of what top-k left: of 0.5, 0.25 and 0.125, 0.55 / 0.875 is reached by the first two.
        assert_eq!(support(Sampling { top_k: 3, top_p: 0.63, ..PLAIN }), [0, 1]);
        let kept = frequencies(&row, &Sampling { top_k: 2, ..PLAIN }, 50_000);
        assert!((kept[0] - 2.0 / 3.0).abs() < 0.01);
    }

    #[test]
    fn top_p_agrees_with_sorting_everything() {
        let row = row(5000);
        let weights: Vec<f32> = {
            let max = row.iter().copied().fold(f32::MIN, f32::max);
            row.iter().map(|l| exp(l - max)).collect()
        };
        let mut order: Vec<(f32, u32)> = weights.iter().enumerate().map(|(i, &w)| (w, i as u32)).collect();
        order.sort_by(by_weight);
        let total: f64 = weights.iter().map(|&w| w as f64).sum();
        for top_p in [0.1f32, 0.5, 0.9, 0.99, 0.9999] {
            let mut sum = 0.0;
            let want = 1 + order
                .iter()
                .position(|&(w, _)| {
                    sum += w as f64;
                    sum >= top_p as f64 * total
                })
                .unwrap();
            let mut kept = Vec::new();
            keep(&Sampling { top_p, ..PLAIN }, &weights, &mut kept);
            kept.sort_by(by_weight);
            assert_eq!(kept, order[..want], "top_p {top_p}");
        }
    }

    #[test]
    fn repetition_penalty_lowers_seen_tokens() {
        let o = Sampling { temperature: 0.0, repetition_penalty: 2.0, ..PLAIN };
        assert_eq!(choose(&[3.0, 2.0, -1.0], &o, &[0], 0.0, &mut Scratch::default()), Ok(1));
        assert_eq!(choose(&[-1.0, -1.5], &o, &[0], 0.0, &mut Scratch::default()), Ok(1));
    }

    #[test]
    fn broken_logits_are_an_error() {
        for bad in [f32::NAN, f32::INFINITY] {
            for at in [0, 7, 19] {
                let mut row = row(20);
                row[at] = bad;
                assert_eq!(choose(&row, &PLAIN, &[], 0.5, &mut Scratch::default()).unwrap_err().code, "NOT_FINITE");
            }
        }
    }
}
