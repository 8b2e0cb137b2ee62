//! A counter-based generator: the n-th number of a seed is a pure function of both, so a request's draws do not depend on what
//! else is in the batch or on how its decoding was cut into steps. Two rounds of SplitMix64's finaliser (Steele et al. 2014).

/// Uniform in [0, 1) with 53 bits.
pub fn uniform(seed: u64, counter: u64) -> f64 {
    let bits = mix(mix(seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(counter.wrapping_mul(0xd1b5_4a32_d192_ed03)));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::uniform;

    #[test]
    fn is_uniform_over_counters_and_over_seeds() {
        for by_seed in [false, true] {
            let mut counts = [0u32; 16];
            for i in 0..160_000 {
                let u = if by_seed { uniform(i, 3) } else { uniform(7, i) };
                counts[(u * 16.0) as usize] += 1;
            }
            let chi2: f64 = counts.iter().map(|&c| (c as f64 - 10_000.0).powi(2) / 10_000.0).sum();
            // 15 degrees of freedom: P(chi2 > 44) < 1e-4.
            assert!(chi2 < 44.0, "chi2 {chi2}");
        }
    }

    #[test]
    fn neighbouring_seeds_are_not_correlated() {
        let n = 50_000;
        let (mut xy, mut xx) = (0.0, 0.0);
        for i in 0..n {
            let (x, y) = (uniform(i, 0) - 0.5, uniform(i + 1, 0) - 0.5);
            xy += x * y;
            xx += x * x;
        }
        assert!((xy / xx).abs() < 0.03);
    }
}
