//! `glassformer config`, `completions` and `man`: the program itself.

use std::fs;

use clap::CommandFactory;
use serde_json::{Map, Value, json};

use crate::args::{Args, Completions, Config, Man};
use crate::console::{Console, result};
use crate::failure::Failure;
use crate::settings::{EXAMPLE, Origin, Settings};

pub fn config(args: &Config, console: &Console) -> Result<(), Failure> {
    if args.example {
        return result(EXAMPLE);
    }
    let file = Settings::file();
    let list = console.settings().list();
    if args.json {
        let setting = |(name, value, origin): &(&str, Option<String>, &Origin)| {
            ((*name).to_owned(), json!({ "value": value, "origin": origin.to_string() }))
        };
        let settings: Map<String, Value> = list.iter().map(setting).collect();
        return result(&format!("{}\n", json!({ "schema": 1, "file": file, "settings": settings })));
    }
    let place = match &file {
        None => "none".to_owned(),
        Some(path) if path.exists() => path.display().to_string(),
        Some(path) => format!("{} (not there)", path.display()),
    };
    let line = |(name, value, origin): &(&str, Option<String>, &Origin)| {
        format!("{name:<9}{:<24} {origin}\n", value.as_deref().unwrap_or("–"))
    };
    let lines: String = list.iter().map(line).collect();
    result(&format!("{:<9}{place}\n{lines}", "file"))
}

pub fn completions(args: &Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "glassformer", &mut text);
    result(&String::from_utf8_lossy(&text))
}

pub fn man(args: &Man, console: &Console) -> Result<(), Failure> {
    let folder = args.folder.display();
    let hint = "give a folder that can be written";
    let cannot = |error| Failure::new(format!("cannot write man pages to {folder}: {error}"), hint);
    fs::create_dir_all(&args.folder).map_err(cannot)?;
    // A page has its examples at the end.
    let moved = |verb: clap::Command| match verb.get_before_help().cloned() {
        Some(examples) => verb.after_help(examples),
        None => verb,
    };
    let command = moved(Args::command()).mut_subcommands(moved);
    clap_mangen::generate_to(command, &args.folder).map_err(cannot)?;
    console.note(&format!("wrote man pages to {folder}; `man -l {folder}/glassformer.1` shows one"));
    Ok(())
}
