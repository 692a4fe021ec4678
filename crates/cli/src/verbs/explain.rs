//! `glassformer explain`: document 2, replayed.

use glassformer::explain::{Terminal, document2, json};

use crate::args::Explain;
use crate::console::{Console, language, result, width};
use crate::failure::Failure;

pub fn run(args: &Explain, console: &Console) -> Result<(), Failure> {
    let walkthrough = document2::walkthrough(&console.exact_backend())?;
    let terminal = Terminal { lang: language(args.lang), paint: console.result_paint(), width: width() };
    let text = match (args.json, args.errata) {
        (true, _) => {
            let faulty = |error| Failure::new(format!("cannot write JSON: {error}"), "please report this");
            json::render(&walkthrough).map_err(faulty)? + "\n"
        }
        (false, true) => terminal.errata(&walkthrough),
        (false, false) => terminal.render(&walkthrough),
    };
    result(&text)
}
