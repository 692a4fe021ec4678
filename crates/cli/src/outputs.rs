//! Results, one for each text, as they come: lines for people, or one JSON document.

use std::io::{self, ErrorKind, Write};

use glassformer::Finish;
use serde_json::{Value, json};

use crate::failure::Failure;

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Lines for people.
    Lines,
    /// `{"schema":1,"outputs":[…]}`, one output a text.
    Json,
}

impl Form {
    pub fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Lines }
    }
}

/// A number with the digits that it has: 0.1, not 0.10000000149011612, which is the same in twice the bits.
pub fn number(x: f32) -> Value {
    x.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// What a model wrote.
pub struct Wrote<'w> {
    pub ids: &'w [u32],
    pub text: Option<&'w str>,
    pub score: Option<f32>,
    pub finish: Finish,
    pub logprobs: &'w [f32],
}

impl Wrote<'_> {
    /// As the design's raw door promises it; log-probabilities where they were asked for.
    pub fn json(&self) -> Value {
        let finish = match self.finish {
            Finish::Eos => "eos",
            Finish::Length => "length",
            Finish::Stop => "stop",
        };
        let score = self.score.map(number);
        let mut value = json!({ "ids": self.ids, "text": self.text, "score": score, "finish": finish });
        if !self.logprobs.is_empty() {
            value["logprobs"] = self.logprobs.iter().map(|&log| number(log)).collect();
        }
        value
    }
}

/// Writes results one by one.
pub struct Outputs {
    form: Form,
    count: usize,
    closed: bool,
}

impl Outputs {
    pub fn new(form: Form) -> Self {
        Self { form, count: 0, closed: false }
    }

    /// How many there are so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether nobody reads any more: work can stop.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Writes one result: `lines` ends with a line's end.
    pub fn push(
        &mut self,
        lines: impl FnOnce() -> String,
        json: impl FnOnce() -> Value,
    ) -> Result<(), Failure> {
        let text = match (self.form, self.count) {
            (Form::Lines, _) => lines(),
            (Form::Json, 0) => format!("{{\"schema\":1,\"outputs\":[\n{}", json()),
            (Form::Json, _) => format!(",\n{}", json()),
        };
        self.count += 1;
        self.write(&text)
    }

    /// Ends the document.
    pub fn finish(mut self) -> Result<(), Failure> {
        match (self.form, self.count) {
            (Form::Lines, _) => Ok(()),
            (Form::Json, 0) => self.write("{\"schema\":1,\"outputs\":[]}\n"),
            (Form::Json, _) => self.write("\n]}\n"),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => {
                Err(Failure::new(format!("cannot write the result: {error}"), "check where stdout leads to"))
            }
        }
    }
}
