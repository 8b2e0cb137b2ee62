//! Chooses one token from a row of logits. Order as in `transformers`: penalties, added logits and what may be drawn at all (`history.rs`), temperature, top-k,
//! top-p, min-p. Arithmetic is plain f32 without fused operations, so every machine draws the same token from the same logits and
//! uniform.

use super::history::{History, Left};
use super::loops::{CHUNK, Exponentials, FirstOf, Largest, RunningSums, exp, wide};
use crate::error::EngineError;

#[derive(Debug, Clone)]
pub struct Sampling {
    /// 0: greedy.
    pub temperature: f32,
    pub top_p: f32,
    /// 0: off.
    pub top_k: usize,
    pub min_p: f32,
    /// 1: off.
    pub repetition_penalty: f32,
    /// Taken off the logit of every token that the reply holds; 0: off.
    pub presence_penalty: f32,
    /// Taken off the logit of a token for each time the reply holds it; 0: off.
    pub frequency_penalty: f32,
    /// Added to the logits of these tokens.
    pub bias: Vec<(u32, f32)>,
}

/// The model's own distribution at temperature 1.
pub const PLAIN: Sampling = Sampling {
    temperature: 1.0,
    top_p: 1.0,
    top_k: 0,
    min_p: 0.0,
    repetition_penalty: 1.0,
    presence_penalty: 0.0,
    frequency_penalty: 0.0,
    bias: Vec::new(),
};

impl Sampling {
    /// Of the distribution that log-probs are recorded of. Greedy has none of its own: theirs are at temperature 1.
    pub fn recorded_temperature(&self) -> f32 {
        if self.temperature == 0.0 { 1.0 } else { self.temperature }
    }

    fn truncates(&self) -> bool {
        self.top_k != 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Whether tokens are drawn from the very distribution whose log-probs are recorded.
    pub fn is_plain(&self) -> bool {
        let shaped = self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0;
        self.temperature != 0.0 && !self.truncates() && !shaped && self.bias.is_empty()
    }
}

/// Buffers reused from token to token.
#[derive(Default)]
pub struct Scratch {
    logits: Vec<f32>,
    weights: Vec<f32>,
    sums: Vec<f64>,
    kept: Vec<(f32, u32)>,
}

/// A token, and its probability among what could be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    pub token: u32,
    pub share: f64,
}

/// One of the tokens that are `left` is chosen from a row of logits, of which the largest is known (NaN: one of them is). `u` is uniform in [0, 1).
pub fn choose(
    (row, largest): (&[f32], f32),
    o: &Sampling,
    history: &History,
    left: Left<'_>,
    u: f64,
    s: &mut Scratch,
) -> Result<Choice, EngineError> {
    let logits = history.shape(row, o, left, &mut s.logits);
    let max = if std::ptr::eq(logits, row) { largest } else { wide(Largest { logits }) };
    if !max.is_finite() {
        return Err(not_finite());
    }
    let inverse = 1.0 / o.temperature;
    let drawn = if o.temperature == 0.0 {
        None
    } else if o.truncates() {
        s.weights.resize(logits.len(), 0.0);
        wide(Exponentials { logits, max, inverse, out: &mut s.weights });
        keep(o, &s.weights, &mut s.kept);
        draw_kept(&s.kept, u)
    } else {
        draw_all(logits, (max, inverse), &mut s.sums, u)
    };
    Ok(drawn.unwrap_or_else(|| Choice { token: wide(FirstOf { logits, value: max }), share: 1.0 }))
}

pub fn not_finite() -> EngineError {
    EngineError::new("NOT_FINITE", "The model's logits are not finite. Its weights hold NaN or infinity, or have diverged.")
}

/// The `count` tokens of the largest logits, largest first; ties in order of token id.
pub fn likeliest(row: &[f32], count: usize) -> Vec<u32> {
    let count = count.min(row.len());
    if count == 0 {
        return Vec::new();
    }
    let mut best: Vec<u32> = Vec::with_capacity(count + 1);
    for (token, &logit) in row.iter().enumerate() {
        if best.len() == count && best.last().is_none_or(|&last| logit <= row[last as usize]) {
            continue;
        }
        let at = best.partition_point(|&other| row[other as usize] >= logit);
        best.insert(at, token as u32);
        best.truncate(count);
    }
    best
}

/// Inverse of the cumulative distribution over all weights `e^((l − max)·inverse)`, in two levels: only those of one chunk are made again.
fn draw_all(logits: &[f32], (max, inverse): (f32, f32), sums: &mut Vec<f64>, u: f64) -> Option<Choice> {
    let total = wide(RunningSums { logits, max, inverse, sums });
    let target = u * total;
    let chunk = sums.partition_point(|&sum| sum <= target).min(sums.len().checked_sub(1)?);
    let mut sum = if chunk == 0 { 0.0 } else { sums[chunk - 1] };
    let start = chunk * CHUNK;
    let mut last = None;
    for (i, &l) in logits[start..(start + CHUNK).min(logits.len())].iter().enumerate() {
        let weight = f64::from(exp((l - max) * inverse));
        if weight > 0.0 {
            last = Some((start + i, weight));
            sum += weight;
            if sum > target {
                break;
            }
        }
    }
    last.map(|(token, weight)| Choice { token: token as u32, share: weight / total })
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

fn draw_kept(kept: &[(f32, u32)], u: f64) -> Option<Choice> {
    let total: f64 = kept.iter().map(|&(w, _)| w as f64).sum();
    let mut sum = 0.0;
    let drawn = kept.iter().find(|&&(w, _)| {
        sum += w as f64;
        sum > u * total
    });
    drawn.or(kept.last()).map(|&(w, token)| Choice { token, share: w as f64 / total })
}

#[cfg(test)]
mod tests {
    use super::super::loops::exp;
    use super::super::random::uniform;
    use super::*;

    fn choose(row: &[f32], o: &Sampling, prompt: &[u32], u: f64, s: &mut Scratch) -> Result<u32, EngineError> {
        super::choose((row, wide(Largest { logits: row })), o, &History::of_prompt(o, prompt), Left::default(), u, s)
            .map(|choice| choice.token)
    }

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
    fn draws_are_those_of_weights_that_are_all_kept() {
        for n in [1, 15, 63, 64, 65, 200, 5003] {
            let (row, mut scratch) = (row(n), Scratch::default());
            for (i, temperature) in [0.3f32, 1.0, 1.7].into_iter().enumerate() {
                let (max, inverse) = (row.iter().copied().fold(f32::MIN, f32::max), 1.0 / temperature);
                let weights: Vec<f32> = row.iter().map(|l| exp((l - max) * inverse)).collect();
                // Sixteen sums a chunk in f32, and over chunks in f64: the order that seeds have always drawn by.
                let chunk_sum = |chunk: &[f32]| {
                    let lanes = (0..16).map(|lane| chunk.iter().skip(lane).step_by(16).fold(0f32, |sum, w| sum + w));
                    lanes.map(f64::from).sum::<f64>()
                };
                let sums: Vec<f64> = weights.chunks(64).map(chunk_sum).collect();
                let total = sums.iter().fold(0.0, |sum, chunk| sum + chunk);
                for draw in 0..300 {
                    let u = uniform(40 + i as u64, draw);
                    let (mut sum, mut chunk) = (0.0, 0);
                    while chunk + 1 < sums.len() && sum + sums[chunk] <= u * total {
                        sum += sums[chunk];
                        chunk += 1;
                    }
                    let within = weights[64 * chunk..].iter().take(64).position(|&w| {
                        sum += f64::from(w);
                        sum > u * total
                    });
                    let want = 64 * chunk + within.unwrap_or(63.min(n - 64 * chunk - 1));
                    let got = choose(&row, &Sampling { temperature, ..PLAIN }, &[], u, &mut scratch).unwrap();
                    assert_eq!(got as usize, want, "{n} tokens at {temperature}");
                }
            }
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
    fn the_share_of_a_choice_is_its_probability_among_what_was_left() {
        let row: Vec<f32> = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].iter().map(|p| p.ln()).collect();
        let share = |o: Sampling, forbidden: &[u32]| {
            let history = History::of_prompt(&o, &[]);
            let left = Left { forbidden, allowed: None };
            super::choose((&row, wide(Largest { logits: &row })), &o, &history, left, 0.0, &mut Scratch::default()).unwrap()
        };
        let near =
            |choice: Choice, token: u32, want: f64| assert!(choice.token == token && (choice.share - want).abs() < 1e-6, "{choice:?}");
        near(share(PLAIN, &[]), 0, 0.5);
        near(share(PLAIN, &[0]), 1, 0.5);
        near(share(Sampling { top_k: 2, ..PLAIN }, &[]), 0, 2.0 / 3.0);
        near(share(Sampling { top_p: 0.8, ..PLAIN }, &[1]), 0, 0.8);
        near(share(Sampling { bias: vec![(1, 2f32.ln())], ..PLAIN }, &[]), 0, 0.4);
        near(share(Sampling { temperature: 0.0, ..PLAIN }, &[0]), 1, 1.0);
    }

    #[test]
    fn the_likeliest_are_those_of_a_full_sort() {
        let mut row = row(300);
        row[17] = row[250];
        row[40] = row[250];
        let mut order: Vec<u32> = (0..300).collect();
        order.sort_by(|&a, &b| row[b as usize].total_cmp(&row[a as usize]).then(a.cmp(&b)));
        for count in [0, 1, 5, 20, 299, 300, 400, usize::MAX] {
            assert_eq!(likeliest(&row, count), order[..count.min(300)]);
        }
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
