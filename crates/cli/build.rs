//! Which commit the program is built from, for `glassformer --version -v`. Without git, or outside of a repository of its own, it is not
//! known, and nothing is wrong with that.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    // Said first: without it, every change of any file of the package would run this again.
    println!("cargo::rerun-if-changed=build.rs");
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let commit = commit(&here).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=GLASSFORMER_COMMIT={commit}");
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=GLASSFORMER_TARGET={target}");
    let features = std::env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-")));
    let features: Vec<String> = features.filter(|feature| feature != "default").collect();
    println!("cargo::rustc-env=GLASSFORMER_FEATURES={}", features.join(", "));
}

fn commit(here: &Path) -> Option<String> {
    // A source tree that lies in somebody else's repository has none of its commits.
    let top = git(here, &["rev-parse", "--show-toplevel"])?;
    let own = here.join("../..").canonicalize().ok()?;
    if Path::new(&top).canonicalize().ok()? != own {
        return None;
    }
    // A commit changes the file of its branch, and a checkout changes HEAD. A file that is not there would run this each time.
    let branch = git(here, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in [Some("HEAD".to_owned()), branch, Some("packed-refs".to_owned())].into_iter().flatten() {
        let path = here.join(git(here, &["rev-parse", "--git-path", &name])?);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(here, &["show", "--no-patch", "--format=%h of %cs", "HEAD"])
}

/// What git says, in one line.
fn git(here: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(here).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
