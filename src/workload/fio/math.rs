//! Logarithm and power from additions, multiplications and divisions alone: IEEE 754 fixes the result of
//! those, while the functions of a C library differ in the last bit from platform to platform.

const LN_2: f64 = std::f64::consts::LN_2;

/// 1, 1/3, 1/5 and so on: the series of artanh.
const ODD_RECIPROCALS: [f64; 11] = {
    let mut reciprocals = [1.0; 11];
    let mut odd = 1.0;
    let mut index = 0;
    while index < 11 {
        reciprocals[index] = 1.0 / odd;
        odd += 2.0;
        index += 1;
    }
    reciprocals
};

/// 1, 1/1!, 1/2! and so on: the series of the exponential.
const FACTORIAL_RECIPROCALS: [f64; 15] = {
    let mut reciprocals = [1.0; 15];
    let mut count = 1.0;
    let mut index = 1;
    while index < 15 {
        reciprocals[index] = reciprocals[index - 1] / count;
        count += 1.0;
        index += 1;
    }
    reciprocals
};

/// Natural logarithm of a normal positive number; −∞ at 0 and below.
pub(super) fn ln(x: f64) -> f64 {
    if x < f64::MIN_POSITIVE {
        return f64::NEG_INFINITY;
    }
    // x = m * 2^e with m near 1, from the bits.
    let bits = x.to_bits();
    let mut exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0) - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), whose argument is 0.172 at most: 11 terms reach the last bit.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut series = 0.0;
    for coefficient in ODD_RECIPROCALS.into_iter().rev() {
        series = series * square + coefficient;
    }
    2.0 * s * series + f64::from(exponent) * LN_2
}

/// e to the power of x; 0 below −700, and no more than e^700.
pub(super) fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let x = x.min(700.0);
    let power = (x / LN_2).round();
    let rest = x - power * LN_2;
    let mut series = 0.0;
    for coefficient in FACTORIAL_RECIPROCALS.into_iter().rev() {
        series = series * rest + coefficient;
    }
    let scale = u64::try_from(to_i64(power) + 1023).unwrap_or(0);
    series * f64::from_bits(scale << 52)
}

/// x to the power of y, for x from 0 up.
pub(super) fn pow(x: f64, y: f64) -> f64 {
    if x <= 0.0 { if y == 0.0 { 1.0 } else { 0.0 } } else { exp(y * ln(x)) }
}

/// The whole part of a number from 0 up.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is what is meant")]
pub(super) fn to_u64(x: f64) -> u64 {
    x as u64
}

#[allow(clippy::cast_possible_truncation, reason = "`as` saturates, which is what is meant")]
pub(super) fn to_i64(x: f64) -> i64 {
    x as i64
}

/// A count as a double; exact up to 2^53.
#[allow(clippy::cast_precision_loss, reason = "counts of blocks are far below 2^53")]
pub(super) fn to_f64(x: u64) -> f64 {
    x as f64
}

/// A draw as a number from 0, less than 1, in steps of 2^-53.
pub(super) fn unit(draw: u64) -> f64 {
    to_f64(draw >> 11) / to_f64(1 << 53)
}

/// A draw as a number from 0, less than `count`.
pub(super) fn below(draw: u64, count: u64) -> u64 {
    u64::try_from((u128::from(draw) * u128::from(count)) >> 64).unwrap_or(0)
}
