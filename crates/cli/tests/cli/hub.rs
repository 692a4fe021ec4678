//! Models by name: against a server that speaks the hub's interface, with a cache of each test's own.

#[path = "../../../hub/tests/hub/common/server.rs"]
#[allow(dead_code, reason = "the tests of the hub itself use the rest")]
mod server;
#[path = "../../../hub/tests/hub/common/site.rs"]
#[allow(dead_code, reason = "the tests of the hub itself use the rest")]
mod site;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Ran, command, finish, folder, run};
use server::{Reply, Server};
use site::{COMMIT, Site};

/// A hub, and a cache.
struct World {
    server: Server,
    cache: PathBuf,
}

impl World {
    /// A hub that has `files` of the folder `from` as `org/name`.
    fn new(test: &str, from: &Path, files: &[&'static str]) -> Self {
        let read = |file: &&'static str| (*file, fs::read(from.join(file)).unwrap());
        let site = Site::with(files.iter().map(read).collect());
        Self { server: Server::new(move |request| site.answer(request)), cache: folder(test) }
    }

    fn command(&self, args: &[&str], variables: &[(&str, &str)]) -> std::process::Command {
        let mut command = command(args);
        for name in [
            "HF_HUB_CACHE",
            "HF_TOKEN",
            "HF_TOKEN_PATH",
            "HF_HUB_OFFLINE",
            "http_proxy",
            "HTTP_PROXY",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
            .env("HF_HOME", &self.cache)
            .env("HF_ENDPOINT", &self.server.url)
            .envs(variables.iter().copied());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        finish(&mut self.command(args, &[]))
    }

    fn offline(&self, args: &[&str]) -> Ran {
        finish(&mut self.command(args, &[("HF_HUB_OFFLINE", "1")]))
    }
}

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(path)
}

/// A hub with a model that fills blanks.
fn fill(test: &str) -> World {
    let files =
        ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "expected.json"];
    World::new(test, &fixture("tasks/fill"), &files)
}

#[test]
fn a_name_does_what_its_folder_does() {
    let world = fill("hub_name");
    let from = fixture("tasks/fill");
    let by_path = run(&["fill", "--model", from.to_str().unwrap(), "the [MASK] sat"]).ok();
    let first = world.run(&["fill", "--model", "org/name", "the [MASK] sat"]);
    assert!(first.err.starts_with("fetching org/name: 4 files, "), "{}", first.err);
    assert_eq!(first.ok(), by_path);
    assert_eq!(world.server.count("expected.json"), 0);
    let asked = world.server.log().len();
    for ran in [
        world.run(&["fill", "--model", "org/name", "the [MASK] sat"]),
        world.offline(&["fill", "--model", "org/name", "the [MASK] sat"]),
        world.offline(&["fill", "--model", &format!("org/name@{COMMIT}"), "the [MASK] sat"]),
    ] {
        assert_eq!(ran.err, "");
        assert_eq!(ran.ok(), by_path);
    }
    assert_eq!(world.server.log().len(), asked, "what is in the cache is not asked for");
    // Verbs whose first argument is the model, and those that need a tokenizer alone.
    assert!(world.offline(&["show", "org/name"]).ok().starts_with("kind "));
    assert!(world.offline(&["tokenize", "--model", "org/name", "the cat"]).ok().contains("cat"));
    assert!(world.offline(&["formula", "org/name"]).ok().starts_with("Y = "));
}

#[test]
fn a_gguf_file_is_named_behind_a_colon() {
    let files = ["llama-q8_0.gguf", "llama.gguf"];
    let world = World::new("hub_gguf", &fixture("gguf"), &files);
    let from = fixture("gguf/llama-q8_0.gguf");
    let by_path = run(&["show", from.to_str().unwrap()]).ok();
    assert_eq!(world.run(&["show", "org/name:llama-q8_0.gguf", "-q"]).ok(), by_path);
    assert_eq!(world.offline(&["show", "org/name:Q8_0"]).ok(), by_path);
    world
        .run(&["show", "org/name"])
        .refused_with("org/name holds 2 GGUF files", "org/name:llama-q8_0.gguf, org/name:llama.gguf");
    world.run(&["show", "org/name:q4"]).refused_with("org/name has no file q4", "org/name:llama.gguf");
}

#[test]
fn a_folder_that_exists_wins_over_a_name() {
    let world = fill("hub_folder");
    let here = folder("hub_here");
    let model = here.join("org/name");
    fs::create_dir_all(&model).unwrap();
    for entry in
        fs::read_dir(fixture("gguf")).unwrap().flatten().filter(|entry| entry.file_name() == "llama.gguf")
    {
        fs::copy(entry.path(), model.join("llama.gguf")).unwrap();
    }
    let shown = finish(world.command(&["show", "org/name"], &[]).current_dir(&here)).ok();
    assert!(shown.starts_with("kind        llama"), "{shown}");
    assert!(world.server.log().is_empty());
}

#[test]
fn what_is_neither_says_that_both_were_looked_for() {
    let world = fill("hub_neither");
    world.run(&["show", "org/nane"]).refused_with(
        &format!("there is no folder or file org/nane, and {} has no model org/nane", world.server.url),
        "check the spelling",
    );
    world
        .run(&["show", "org/name@v7"])
        .refused_with("org/name has no revision v7", "for its branches and tags");
    world.offline(&["show", "org/name"]).refused_with("HF_HUB_OFFLINE is set", "glassformer pull org/name");
    let asked = world.server.log().len();
    // None of these leaves the machine: paths, files, and single words, which are mistyped folders.
    for given in
        ["/no/such", "./no", "../no", "no/such/folder", "no/such.gguf", "no/such.safetensors", "a b/c", "no/"]
    {
        world
            .run(&["show", given])
            .refused_with(&format!("there is no folder or file {given}"), "a name of a hub such as org/name");
    }
    world
        .run(&["show", "minilm"])
        .refused_with("there is no folder or file minilm", "a name of a hub such as org/name");
    assert_eq!(world.server.log().len(), asked);
    world.run(&["pull", "org/name"]).ok();
    world.run(&["show", "name"]).refused_with("there is no folder or file name", "did you mean org/name?");
    world.run(&["show", "org/nam"]).refused_with("has no model org/nam", "did you mean org/name?");
    finish(&mut world.command(&["show", "a/b"], &[("HF_ENDPOINT", "hub")]))
        .refused_with("HF_ENDPOINT is \"hub\"", "https://huggingface.co");
    finish(&mut world.command(&["show", "a/b"], &[("HF_ENDPOINT", "http://127.0.0.1:1")])).refused_with(
        "there is no folder or file a/b, and cannot reach http://127.0.0.1:1",
        "HF_HUB_OFFLINE=1",
    );
}

#[test]
fn a_gated_model_says_what_to_do() {
    let server = Server::new(|_| Reply::new(401).with("X-Error-Code", "GatedRepo"));
    let world = World { server, cache: folder("hub_gated") };
    let ran = world.run(&["chat", "org/name", "hello"]);
    ran.refused_with(
        "org/name is gated",
        &format!("accept it at {}/org/name, then set HF_TOKEN", world.server.url),
    );
}

#[test]
fn pull_list_and_remove_go_through_a_model_s_life() {
    let world = fill("hub_life");
    let none = world.run(&["list"]);
    assert!(
        none.err.starts_with("there are no models in") && none.err.contains("glassformer pull org/name"),
        "{}",
        none.err
    );
    assert_eq!(none.ok(), "");
    let path = world.run(&["pull", "org/name"]).ok();
    assert!(path.trim_end().ends_with(&format!("hub/models--org--name/snapshots/{COMMIT}")), "{path}");
    let again = world.run(&["pull", "org/name", "--json"]);
    assert_eq!(again.err, "org/name is up to date\n");
    let again: Value = serde_json::from_str(&again.ok()).unwrap();
    assert_eq!(
        (&again["schema"], &again["fetched"]["bytes"], &again["commit"]),
        (&1.into(), &0.into(), &COMMIT.into())
    );
    assert_eq!(again["path"].as_str().unwrap(), path.trim_end());

    let size = |file: &str| fs::metadata(fixture("tasks/fill").join(file)).unwrap().len();
    let whole: u64 = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
        .map(size)
        .iter()
        .sum();
    let text = world.run(&["list", "--files"]).ok();
    assert!(text.starts_with("org/name  main (01234567)") && text.contains("4 files\n"), "{text}");
    assert!(text.contains("  tokenizer.json\n"), "{text}");
    let listed: Value = serde_json::from_str(&world.offline(&["list", "--json"]).ok()).unwrap();
    let model = &listed["models"][0];
    assert_eq!((&model["name"], &model["bytes"]), (&"org/name".into(), &whole.into()));
    assert_eq!(model["revisions"][0]["refs"][0], "main");
    assert_eq!(model["revisions"][0]["files"].as_array().unwrap().len(), 4);

    // It was said not to be in the cache, in which it was.
    world.offline(&["pull", "org/name"]).refused_with("org/name is in ", "use the model as it is");

    world.run(&["remove", "org/name"]).refused_with("nobody is there to be asked", "--yes");
    world.run(&["remove", "org/nam", "--yes"]).refused_with("org/nam is not in", "did you mean org/name?");
    world.run(&["remove", "../..", "--yes"]).refused_with("is not the name of a model", "write org/name");
    assert!(Path::new(path.trim_end()).exists());
    let removed = world.offline(&["remove", "org/name", "--yes"]);
    assert!(removed.err.starts_with("deleted org/name ("), "{}", removed.err);
    assert_eq!(removed.ok(), "");
    assert!(!Path::new(path.trim_end()).exists());
}

#[test]
fn names_that_are_no_names_are_refused_by_pull() {
    let world = fill("hub_names");
    for given in ["../x", "/etc/passwd", "a/b/c", "a/b@../x", "a/b:../x.gguf", ""] {
        world.run(&["pull", given]).refused_with("is not the name of a model", "write org/name");
    }
    assert!(world.server.log().is_empty());
}

#[test]
fn what_breaks_on_the_way_is_said_and_gone_on_with() {
    let bytes = fs::read(fixture("tasks/fill/model.safetensors")).unwrap();
    let files = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    let read = |file: &&'static str| (*file, fs::read(fixture("tasks/fill").join(file)).unwrap());
    let site = Site::with(files.iter().map(read).collect());
    let server = Server::new(move |request| {
        let cut = (request.path == "/cache/model.safetensors" && request.from().is_none()).then_some(5000);
        Reply { cut, ..site.answer(request) }
    });
    let world = World { server, cache: folder("hub_breaks_on") };
    let ran = world.run(&["pull", "org/name"]);
    assert!(ran.err.contains("the connection ") && ran.err.contains("; trying again in 1s\n"), "{}", ran.err);
    let path = ran.ok();
    assert_eq!(fs::read(Path::new(path.trim_end()).join("model.safetensors")).unwrap(), bytes);
    let quiet = World { cache: folder("hub_breaks_quiet"), server: world.server };
    let ran = quiet.run(&["pull", "org/name", "-q"]);
    assert_eq!(ran.err, "");
    ran.ok();
}

#[test]
fn a_training_begins_with_a_model_of_a_hub() {
    let world = World::new(
        "hub_train",
        &fixture("tasks/story"),
        &["config.json", "model.safetensors", "tokenizer.json"],
    );
    let here = folder("hub_train_here");
    fs::write(here.join("data.txt"), "the cat sat\nthe dog ran\n".repeat(20)).unwrap();
    let config = r"
        out = 'run'
        objective = 'generate'
        model.checkpoint = 'org/name'
        data = { train = [{ path = 'data.txt' }], length = 16 }
        batch = { tokens = 64 }
        schedule = { steps = 1, rate = 1e-3 }
    ";
    fs::write(here.join("train.toml"), config).unwrap();
    let ran = world.run(&["train", here.join("train.toml").to_str().unwrap()]);
    assert!(ran.err.contains("fetching org/name: 3 files"), "{}", ran.err);
    ran.ok();
    assert!(here.join("run/model").exists());
}
