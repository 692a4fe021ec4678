//! The `glassformer` command: parse, call, print. Whatever is worth a test of its own lives in a library.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 a negative result, 2 wrong usage or input. An
//! interrupt ends the process by its signal, which shells report as 130.
#![forbid(unsafe_code)]

mod args;
mod console;
mod failure;
mod feed;
mod folders;
mod ids;
mod load;
mod models;
mod outputs;
mod pager;
mod progress;
mod prompt;
mod settings;
mod staging;
mod texts;
mod values;
mod verbs;
mod version;
mod wrap;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use args::{Args, Verb};
use console::Console;
use failure::Failure;
use settings::Settings;

/// How a verb that did its work ends.
enum Done {
    /// As hoped.
    Well,
    /// With a negative result: `verify` found a difference.
    Negative,
    /// By Ctrl-C, in good order.
    Interrupted,
}

fn main() -> ExitCode {
    let (args, verb) = match typed() {
        Ok(typed) => typed,
        Err(stop) if stop.kind() == ErrorKind::DisplayVersion && version::is_detailed(std::env::args()) => {
            return tell(console::result(&version::details()));
        }
        Err(stop) => {
            if let Some(failure) = values::wrong(&stop) {
                return tell(Err(failure));
            }
            // Help and version go to stdout and are no failure. A closed pipe is nobody's mistake.
            let _ = stop.print();
            return if stop.use_stderr() { ExitCode::from(failure::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    // What a shell reads when it starts does not depend on a configuration that may be wrong.
    if let Verb::Completions(completions) = &args.verb {
        return tell(verbs::program::completions(completions));
    }
    let console = match Settings::read(&args.globals) {
        Ok(settings) => Console::new(&args.globals, settings),
        Err(failure) => return tell(Err(failure)),
    };
    let code = match run(&args, &console) {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Negative) => ExitCode::from(failure::NEGATIVE),
        Ok(Done::Interrupted) => ExitCode::from(failure::INTERRUPTED),
        Err(failure) => {
            console.fail(&failure.of_verb(&verb));
            ExitCode::from(failure::USAGE)
        }
    };
    console.end();
    code
}

/// How a run ends that has no console.
fn tell(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console::fail_plainly(&failure);
            ExitCode::from(failure::USAGE)
        }
    }
}

/// What was typed, and the verb in it.
fn typed() -> Result<(Args, String), clap::Error> {
    let matches = Args::command().try_get_matches()?;
    let verb = matches.subcommand_name().unwrap_or_default().to_owned();
    Ok((Args::from_arg_matches(&matches)?, verb))
}

fn run(args: &Args, console: &Console) -> Result<Done, Failure> {
    match &args.verb {
        Verb::Translate(translate) => verbs::write::translate(translate, console)?,
        Verb::Generate(generate) => verbs::generate::run(generate, console)?,
        Verb::Chat(chat) => verbs::chat::run(chat, console)?,
        Verb::Summarize(summarize) => verbs::write::summarize(summarize, console)?,
        Verb::Answer(answer) => verbs::tasks::answer(answer, console)?,
        Verb::Classify(classify) => verbs::tasks::classify(classify, console)?,
        Verb::Tag(tag) => verbs::tasks::tag(tag, console)?,
        Verb::Fill(fill) => verbs::tasks::fill(fill, console)?,
        Verb::Embed(embed) => verbs::tasks::embed(embed, console)?,
        Verb::Score(score) => verbs::write::score(score, console)?,
        Verb::Tokenize(tokenize) => verbs::tokens::tokenize(tokenize, console)?,
        Verb::Detokenize(detokenize) => verbs::tokens::detokenize(detokenize, console)?,
        Verb::Train(train) => return verbs::train::run(train, console),
        Verb::Evaluate(evaluate) => verbs::evaluate::run(evaluate, console)?,
        Verb::Formula(formula) => verbs::formula::run(formula, console)?,
        Verb::Show(show) => verbs::show::run(show, console)?,
        Verb::Forward(forward) => verbs::forward::run(forward, console)?,
        Verb::Verify(verify) => return verbs::verify::run(verify, console),
        Verb::Bench(bench) => verbs::bench::run(bench, console)?,
        Verb::Quantize(quantize) => verbs::quantize::run(quantize, console)?,
        Verb::Serve(serve) => return verbs::serve::run(serve, console),
        Verb::Pull(pull) => verbs::hub::pull(pull, console)?,
        Verb::List(list) => verbs::hub::list(list, console)?,
        Verb::Remove(remove) => return verbs::hub::remove(remove, console),
        Verb::Config(config) => verbs::program::config(config, console)?,
        Verb::Completions(completions) => verbs::program::completions(completions)?,
        Verb::Man(man) => verbs::program::man(man, console)?,
        Verb::Explain(explain) => verbs::explain::run(explain, console)?,
    }
    Ok(Done::Well)
}
