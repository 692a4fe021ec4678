//! Lists of numbers on the command line: `"5 17 9"`, with spaces or commas between.

use std::io::Read;

use crate::failure::Failure;

/// The numbers of `text`, which `flag` was given; `-` reads them from standard input.
pub fn parse<T: std::str::FromStr>(flag: &str, text: &str) -> Result<Vec<T>, Failure> {
    if text == "-" { numbers(flag, &read_input(flag)?) } else { numbers(flag, text) }
}

/// The numbers of `text`, which `flag` was given.
pub fn numbers<T: std::str::FromStr>(flag: &str, text: &str) -> Result<Vec<T>, Failure> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let numbers = words
        .map(|word| {
            let bad = |_| {
                let word: String = word.chars().take(40).collect();
                Failure::new(
                    format!("{flag}: {word:?} is not a whole number from 0 on"),
                    format!("write for example {flag} \"5 17 9\""),
                )
            };
            word.parse::<T>().map_err(bad)
        })
        .collect::<Result<Vec<T>, _>>()?;
    if numbers.is_empty() {
        return Err(Failure::new(
            format!("{flag} lists no numbers"),
            format!("write for example {flag} \"5 17 9\""),
        ));
    }
    Ok(numbers)
}

fn read_input(flag: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let bad = |error| {
        Failure::new(format!("{flag} -: cannot read standard input: {error}"), "give it numbers as text")
    };
    std::io::stdin().read_to_string(&mut text).map_err(bad)?;
    Ok(text)
}
