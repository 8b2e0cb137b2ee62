//! The loops over a whole row of logits that choosing a token takes.

/// How many weights one partial sum covers.
pub const CHUNK: usize = 64;

/// A loop over a row that is compiled once for the machine at hand and once for any. Without fused operations both give the same bits.
pub trait Wide {
    type Output;
    fn run(self) -> Self::Output;
}

pub fn wide<W: Wide>(work: W) -> W::Output {
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

/// The largest logit. NaN when one is.
pub struct Largest<'a> {
    pub logits: &'a [f32],
}

impl Wide for Largest<'_> {
    type Output = f32;
    #[inline(always)]
    fn run(self) -> f32 {
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
        if sums.iter().any(|sum| sum.is_nan()) { f32::NAN } else { lanes.into_iter().fold(f32::NEG_INFINITY, f32::max) }
    }
}

/// The first token with this logit.
pub struct FirstOf<'a> {
    pub logits: &'a [f32],
    pub value: f32,
}

impl Wide for FirstOf<'_> {
    type Output = u32;
    #[inline(always)]
    fn run(self) -> u32 {
        let holds = |chunk: &[f32]| chunk.iter().fold(false, |found, &l| found | (l == self.value));
        let chunk = self.logits.chunks(CHUNK).position(holds).unwrap_or(0);
        let within = self.logits[chunk * CHUNK..].iter().position(|&l| l == self.value).unwrap_or(0);
        (chunk * CHUNK + within) as u32
    }
}

pub struct Exponentials<'a> {
    pub logits: &'a [f32],
    pub max: f32,
    pub inverse: f32,
    pub out: &'a mut [f32],
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

/// Running sums of chunks of the weights `e^((l − max)·inverse)`, which nobody keeps.
pub struct RunningSums<'a> {
    pub logits: &'a [f32],
    pub max: f32,
    pub inverse: f32,
    pub sums: &'a mut Vec<f64>,
}

impl Wide for RunningSums<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        self.sums.clear();
        let mut total = 0.0f64;
        for chunk in self.logits.chunks(CHUNK) {
            let mut lanes = [0.0f32; 16];
            let parts = chunk.chunks_exact(16);
            let rest = parts.remainder();
            for part in parts {
                for (lane, &l) in lanes.iter_mut().zip(part) {
                    *lane += exp((l - self.max) * self.inverse);
                }
            }
            for (lane, &l) in lanes.iter_mut().zip(rest) {
                *lane += exp((l - self.max) * self.inverse);
            }
            total += lanes.iter().map(|&l| l as f64).sum::<f64>();
            self.sums.push(total);
        }
        total
    }
}

/// e^x for x ≤ 0 (relative error < 3e-7), written so that the compiler vectorises it: Cody–Waite reduction and a polynomial.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
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
    use super::exp;

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
}
