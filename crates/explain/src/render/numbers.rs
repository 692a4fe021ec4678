//! Numbers as text. Digits are chosen for people; JSON has them all.

/// The most digits after the point.
const DECIMALS: usize = 4;

/// `numbers` with the same number of decimals: as few as show each of them to four.
pub(super) fn format(numbers: &[f32]) -> Vec<String> {
    format_to(numbers, 0)
}

/// `numbers` with the same number of decimals: at least `least`, else as few as show each of them to four.
pub(super) fn format_to(numbers: &[f32], least: usize) -> Vec<String> {
    let needed = numbers.iter().filter(|x| x.is_finite()).map(|&x| needed(x)).max().unwrap_or(0);
    let decimals = needed.max(least);
    numbers.iter().map(|&x| one(x, decimals)).collect()
}

/// `x` with `decimals` digits after the point.
fn one(x: f32, decimals: usize) -> String {
    if x == f32::NEG_INFINITY {
        return "−∞".to_owned();
    }
    let text = format!("{x:.decimals$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| c == '0' || c == '.') => zero.to_owned(),
        _ => text,
    }
}

/// How many decimals remain once zeros at the end are dropped.
fn needed(x: f32) -> usize {
    let text = format!("{x:.DECIMALS$}");
    text.trim_end_matches('0').split_once('.').map_or(0, |(_, digits)| digits.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_stand_together_have_the_same_decimals() {
        assert_eq!(format(&[3.76, 4.24, 5.2]), ["3.76", "4.24", "5.20"]);
        assert_eq!(format(&[0.1, 0.2]), ["0.1", "0.2"]);
        assert_eq!(format(&[1.0, 0.333_33]), ["1.0000", "0.3333"]);
        assert_eq!(format(&[2.0, 4.0]), ["2", "4"]);
        assert_eq!(format_to(&[0.0, 1.0], 4), ["0.0000", "1.0000"]);
    }

    #[test]
    fn nothing_is_ever_minus_zero() {
        assert_eq!(format(&[-0.000_001, 0.123_4]), ["0.0000", "0.1234"]);
        assert_eq!(format(&[f32::NEG_INFINITY, -0.5]), ["−∞", "-0.5"]);
    }
}
