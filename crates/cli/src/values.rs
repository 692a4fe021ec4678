//! What is said of a number that a flag does not take, in the words of [`crate::settings`].

use std::error::Error as _;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// What is wrong with the number that was typed, if that is what stopped the command line: alone it would tell how this program reads
/// numbers ("invalid digit found in string", "0 is not in 1..=1024").
pub fn wrong(stop: &clap::Error) -> Option<Failure> {
    if stop.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let told = |kind| match stop.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (flag, value) = (told(ContextKind::InvalidArg)?, told(ContextKind::InvalidValue)?);
    let flag = flag.split_once(" <").map_or(flag, |(flag, _)| flag);
    Some(Failure::new(format!("{flag} is {value}"), wanted(stop)?))
}

/// What the flag takes instead.
fn wanted(stop: &clap::Error) -> Option<String> {
    let source = stop.source()?;
    if let Some(number) = source.downcast_ref::<ParseIntError>() {
        let hint = match number.kind() {
            IntErrorKind::Zero => "it takes a whole number from 1 on",
            IntErrorKind::PosOverflow => "it takes no number so large",
            _ => "it takes a whole number",
        };
        return Some(hint.to_owned());
    }
    if source.is::<ParseFloatError>() {
        return Some("it takes a number".to_owned());
    }
    let text = source.to_string();
    let (least, most) = text.split_once(" is not in ")?.1.split_once("..=")?;
    Some(format!("it takes a whole number from {least} to {most}"))
}
