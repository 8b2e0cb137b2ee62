//! Numbers of two bytes.

pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest, ties to even; finite numbers stay finite.
pub fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    if rounded & 0x7fff == 0x7f80 && x.is_finite() { rounded - 1 } else { rounded }
}

pub fn from_f16(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(bits >> 15) << 31, u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    match exponent {
        // A multiple of 2⁻²⁴.
        0 => f32::from_bits(sign | (fraction as f32 / 16_777_216.0).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// The nearest, ties to even; what is too large becomes the largest.
pub fn to_f16(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let size = x.abs();
    if size >= 65504.0 {
        return sign | 0x7bff;
    }
    if size < 6.103_515_6e-5 {
        // Below the normal numbers: multiples of 2⁻²⁴. Adding 1.5·2²³ of them rounds to even.
        return sign | ((size * 16_777_216.0 + 12_582_912.0).to_bits() & 0x7ff) as u16;
    }
    let bits = size.to_bits();
    let rounded = bits + 0xfff + (bits >> 13 & 1);
    sign | ((rounded >> 13) - (112 << 10)) as u16
}

pub fn is_finite_f16(bits: u16) -> bool {
    bits & 0x7c00 != 0x7c00
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_comes_back() {
        for bits in (0..=u16::MAX).filter(|&bits| is_finite_f16(bits)) {
            assert_eq!(to_f16(from_f16(bits)), bits, "{bits:04x}");
        }
        assert!(from_f16(0x7c00).is_infinite() && from_f16(0x7e00).is_nan());
    }

    #[test]
    fn every_bf16_comes_back() {
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7f80 != 0x7f80) {
            assert_eq!(to_bf16(from_bf16(bits)), bits, "{bits:04x}");
        }
    }

    #[test]
    fn the_nearest_is_taken_and_ties_go_to_even() {
        // Between neighbours of either kind: a quarter, a half and three quarters of the way.
        for bits in (0x0001..0x7bff).step_by(7) {
            let (low, high) = (f64::from(from_f16(bits)), f64::from(from_f16(bits + 1)));
            let at = |part: f64| (low + part * (high - low)) as f32;
            assert_eq!(to_f16(at(0.25)), bits);
            assert_eq!(to_f16(at(0.75)), bits + 1);
            assert_eq!(to_f16(at(0.5)), bits + (bits & 1));
        }
        for bits in (0x0100..0x7f00).step_by(7) {
            let (low, high) = (f64::from(from_bf16(bits)), f64::from(from_bf16(bits + 1)));
            let at = |part: f64| (low + part * (high - low)) as f32;
            assert_eq!(to_bf16(at(0.25)), bits);
            assert_eq!(to_bf16(at(0.75)), bits + 1);
            assert_eq!(to_bf16(at(0.5)), bits + (bits & 1));
        }
        assert_eq!(to_bf16(f32::MAX), 0x7f7f);
        assert_eq!(to_f16(1e9), 0x7bff);
    }
}
