//! How fast a tokenizer is: `cargo run --release -p glassformer-tokens --example speed MODEL-FOLDER TEXT-FILE`.

use std::error::Error;
use std::time::Instant;

use glassformer_tokens::{Special, SpecialText, Tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("usage: speed MODEL-FOLDER TEXT-FILE".into());
    };
    let text = std::fs::read_to_string(file)?;
    let megabytes = text.len() as f64 / 1e6;
    let begin = Instant::now();
    let tokenizer = Tokenizer::open(folder)?;
    println!("opened in {:.3} s", begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    let encoding = tokenizer.encode(&text, Special::Add)?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("whole: {} tokens, {seconds:.3} s, {:.3} s/MB", encoding.len(), seconds / megabytes);
    let begin = Instant::now();
    let mut tokens = 0;
    for line in text.lines() {
        tokens += tokenizer.encode(line, Special::Add)?.len();
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("by lines: {tokens} tokens, {seconds:.3} s, {:.3} s/MB", seconds / megabytes);
    let begin = Instant::now();
    let text = tokenizer.decode(&encoding.ids, SpecialText::Skip)?;
    println!("decoded: {} bytes, {:.3} s", text.len(), begin.elapsed().as_secs_f64());
    Ok(())
}
