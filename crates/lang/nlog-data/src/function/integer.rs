//! Integer arithmetic: 64 bits, signed, checked.

use super::define::entry;
use super::{Failure, Function};

fn overflow(sum: impl std::fmt::Display) -> Failure {
    Failure::overflow(format!("{sum} overflows int"))
}

/// The failure of an aggregate `sum`. It concerns the total of the group, so it does not depend on
/// the order of addition.
pub fn sum_overflow(total: i128) -> Failure {
    overflow(format_args!("sum: {total}"))
}

/// The sum of integers, in any order.
pub(super) fn sum(integers: &[i64]) -> Result<i64, Failure> {
    // A sequence in memory is too short to overflow 128 bits.
    let total: i128 = integers.iter().copied().map(i128::from).sum();
    i64::try_from(total).map_err(|_| overflow(format_args!("sum_of: {total}")))
}

/// The maximum number of integers that `range` returns, so that a wrong bound does not exhaust memory.
const LONGEST_RANGE: u64 = 1 << 24;

fn range(from: i64, to: i64) -> Result<Vec<i64>, Failure> {
    if from < to && from.abs_diff(to) > LONGEST_RANGE {
        return Err(Failure::range(format!("range({from}, {to}): more than {LONGEST_RANGE} integers")));
    }
    Ok((from..to).collect())
}

fn clamp(n: i64, low: i64, high: i64) -> Result<i64, Failure> {
    if low > high {
        return Err(Failure::range(format!("clamp: low {low} is greater than high {high}")));
    }
    Ok(n.clamp(low, high))
}

fn bit(n: i64, position: i64) -> Result<bool, Failure> {
    let place = u32::try_from(position).ok().filter(|place| *place < 64);
    place
        .map(|place| n >> place & 1 == 1)
        .ok_or_else(|| Failure::range(format!("bit: {position} is not a bit position; use 0 to 63")))
}

/// A shift amount.
fn amount(sign: &str, a: i64, n: i64) -> Result<u32, Failure> {
    let bits = u32::try_from(n).ok().filter(|n| *n < 64);
    bits.ok_or_else(|| Failure::range(format!("{a} {sign} {n}: the shift must be 0 to 63 bits")))
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = arithmetic();
    functions.extend(bits());
    functions.extend(others());
    functions
}

fn arithmetic() -> Vec<Function> {
    vec![
        entry("+(a, b) -> sum", "The sum of two integers.")
            .example("1, 2", "3")
            .example("-9223372036854775808, 9223372036854775807", "-1")
            .example("9223372036854775807, 1", "error overflow")
            .example("-9223372036854775808, -1", "error overflow")
            .binary(|a: i64, b: i64| a.checked_add(b).ok_or_else(|| overflow(format_args!("{a} + {b}")))),
        entry("-(a, b) -> difference", "The difference of two integers.")
            .example("1, 2", "-1")
            .example("0, -9223372036854775808", "error overflow")
            .example("-1, -9223372036854775808", "9223372036854775807")
            .binary(|a: i64, b: i64| a.checked_sub(b).ok_or_else(|| overflow(format_args!("{a} - {b}")))),
        entry("-(a) -> negative", "The integer with the opposite sign.")
            .example("5", "-5")
            .example("-9223372036854775807", "9223372036854775807")
            .example("-9223372036854775808", "error overflow")
            .unary(|a: i64| a.checked_neg().ok_or_else(|| overflow(format_args!("-({a})")))),
        entry("*(a, b) -> product", "The product of two integers.")
            .example("6, -7", "-42")
            .example("3037000500, 3037000500", "error overflow")
            .example("-9223372036854775808, -1", "error overflow")
            .binary(|a: i64, b: i64| a.checked_mul(b).ok_or_else(|| overflow(format_args!("{a} * {b}")))),
        entry("/(a, b) -> quotient", "The quotient of two integers, rounded towards zero.")
            .example("7, 2", "3")
            .example("-7, 2", "-3")
            .example("7, 0", "error range")
            .example("-9223372036854775808, -1", "error overflow")
            .binary(|a: i64, b: i64| match b {
                0 => Err(Failure::range(format!("{a} / 0: division by zero"))),
                b => a.checked_div(b).ok_or_else(|| overflow(format_args!("{a} / {b}"))),
            }),
        entry("%(a, b) -> remainder", "The remainder of the division: a - (a / b) * b, with the sign of a.")
            .example("7, 2", "1")
            .example("-7, 2", "-1")
            .example("7, -2", "1")
            .example("-9223372036854775808, -1", "0")
            .example("7, 0", "error range")
            .binary(|a: i64, b: i64| match b {
                0 => Err(Failure::range(format!("{a} % 0: division by zero"))),
                // The remainder by -1 is 0 even where the quotient overflows.
                b => Ok(a.wrapping_rem(b)),
            }),
        entry("abs(n) -> size", "The absolute value of the integer.")
            .example("-5", "5")
            .example("5", "5")
            .example("-9223372036854775808", "error overflow")
            .unary(|n: i64| n.checked_abs().ok_or_else(|| overflow(format_args!("abs({n})")))),
    ]
}

fn bits() -> Vec<Function> {
    vec![
        entry("&(a, b) -> bits", "The bitwise AND of the integers, in two's complement.")
            .example("12, 10", "8")
            .example("-1, 255", "255")
            .binary(|a: i64, b: i64| a & b),
        entry("|(a, b) -> bits", "The bitwise OR of the integers, in two's complement.")
            .example("12, 10", "14")
            .example("-256, 255", "-1")
            .binary(|a: i64, b: i64| a | b),
        entry("^(a, b) -> bits", "The bitwise XOR of the integers, in two's complement.")
            .example("12, 10", "6")
            .example("-1, 0", "-1")
            .binary(|a: i64, b: i64| a ^ b),
        entry("<<(a, n) -> bits", "The integer multiplied by 2 to the power of n, with n from 0 to 63.")
            .example("1, 12", "4096")
            .example("-1, 63", "-9223372036854775808")
            .example("1, 63", "error overflow")
            .example("3, 62", "error overflow")
            .example("0, 63", "0")
            .example("1, 64", "error range")
            .example("1, -1", "error range")
            .binary(|a: i64, n: i64| {
                let bits = amount("<<", a, n)?;
                let shifted = a << bits;
                if shifted >> bits == a { Ok(shifted) } else { Err(overflow(format_args!("{a} << {n}"))) }
            }),
        entry(
            ">>(a, n) -> bits",
            "The integer divided by 2 to the power of n, rounded down, with n from 0 \
        to 63.",
        )
        .example("4096, 12", "1")
        .example("-5, 1", "-3")
        .example("-1, 63", "-1")
        .example("1, 64", "error range")
        .binary(|a: i64, n: i64| amount(">>", a, n).map(|bits| a >> bits)),
        entry(
            "bit_length(n) -> bits",
            "The number of bits that the integer takes without leading zeros: 2 to the power of it is the least power \
            of two above the integer. No result if it is negative.",
        )
        .example("0", "0")
        .example("1", "1")
        .example("255", "8")
        .example("256", "9")
        .example("-1", "none")
        .unary(|n: i64| u64::try_from(n).ok().map(|n| i64::from(u64::BITS - n.leading_zeros()))),
        entry(
            "bit(n, position) -> holds",
            "True if the bit at a position is 1. Position 0 is the least significant bit, 63 the sign bit \
            in two's complement.",
        )
        .example("10, 1", "true")
        .example("10, 0", "false")
        .example("-1, 63", "true")
        .example("1, 64", "error range")
        .example("1, -1", "error range")
        .binary(bit),
    ]
}

fn others() -> Vec<Function> {
    vec![
        entry("clamp(n, low, high) -> clamped", "The integer limited to the range from `low` to `high`.")
            .example("5, 1, 9", "5")
            .example("0, 1, 9", "1")
            .example("10, 1, 9", "9")
            .example("5, 9, 1", "error range")
            .ternary(clamp),
        entry(
            "sqrt(n) -> root",
            "The square root of the integer, rounded down. No result if it is negative.",
        )
        .example("16", "4")
        .example("15", "3")
        .example("0", "0")
        .example("9223372036854775807", "3037000499")
        .example("-1", "none")
        .unary(|n: i64| n.checked_isqrt()),
        entry(
            "range(from, to) -> i",
            "Every integer from `from` (inclusive) to `to` (exclusive); at most 2^24 integers.",
        )
        .example("1, 4", "(1) (2) (3)")
        .example("-1, 1", "(-1) (0)")
        .example("4, 4", "none")
        .example("4, 1", "none")
        .example("0, 16777217", "error range")
        .example("-9223372036854775808, 9223372036854775807", "error range")
        .binary(range),
        entry("to_string(n) -> text", "The integer as a decimal string.")
            .example("-12", r#""-12""#)
            .example("0", r#""0""#)
            .unary(|n: i64| n.to_string()),
        entry(
            "to_hex(n) -> text",
            "The integer as a hexadecimal string in lower case with the prefix 0x. No result if it is \
            negative.",
        )
        .example("26", r#""0x1a""#)
        .example("0", r#""0x0""#)
        .example("-1", "none")
        .unary(|n: i64| (n >= 0).then(|| format!("{n:#x}"))),
    ]
}
