//! Rounding by chance: a number between two that can be kept becomes the nearer one more often, in proportion, so that the mean is the
//! number itself. What is rounded again and again then loses nothing, while rounding to the nearest would hold small changes back for good.

/// 32 bits for a lane of 16; the same key gives the same ones. (The mixing is Wellons' `lowbias32`.)
#[inline(always)]
pub fn lane_chance(key: u32, lane: usize) -> u32 {
    let mut x = key.wrapping_add((lane as u32).wrapping_mul(LANE_STEP));
    x = (x ^ (x >> 16)).wrapping_mul(FACTORS[0]);
    x = (x ^ (x >> 15)).wrapping_mul(FACTORS[1]);
    x ^ (x >> 16)
}

pub const LANE_STEP: u32 = 0x9e37_79b9;
pub const FACTORS: [u32; 2] = [0x7feb_352d, 0x846c_a68b];

/// Of 16 bits of chance, as many carry into what is kept as the rest of the number says.
#[inline(always)]
pub fn bf16_by_chance(x: f32, chance: u32) -> u16 {
    (x.to_bits().wrapping_add(chance) >> 16) as u16
}
