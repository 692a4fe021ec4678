//! What people type for a model of a hub: `org/name`, `@revision` and `:file.gguf`.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The longest name that a hub gives, and the longest revision or file that is believed.
const LONGEST_NAME: usize = 96;
const LONGEST_PATH: usize = 255;

/// The revision where none is named.
const MAIN: &str = "main";

/// A model of a hub. Nothing in it leads out of a folder: it is safe in paths and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    id: String,
    revision: Option<String>,
    file: Option<String>,
}

impl Name {
    /// `org/name`, or `name` alone for the oldest models.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// Whether the user named a revision.
    pub fn has_revision(&self) -> bool {
        self.revision.is_some()
    }

    /// The GGUF file, or a part of its name that no other has.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Whether an organisation or user stands before the name.
    pub fn has_owner(&self) -> bool {
        self.id.contains('/')
    }

    /// The same model at another revision.
    #[must_use]
    pub fn at(&self, revision: &str) -> Self {
        Self { revision: Some(revision.to_owned()), ..self.clone() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
        self.file.iter().try_for_each(|file| write!(f, ":{file}"))
    }
}

impl FromStr for Name {
    type Err = Error;

    /// Reads `id`, `id@revision`, `id:file`, `id@revision:file` or `id:file@revision`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Name { text: text.to_owned(), why: why.to_owned() };
        let end = text.find(['@', ':']).unwrap_or(text.len());
        let (id, rest) = text.split_at(end);
        // A revision has no colon, and a file of a model no at sign: whichever comes second ends the first.
        let (revision, file) = match rest.split_at_checked(1) {
            Some(("@", rest)) => match rest.split_once(':') {
                Some((revision, file)) => (Some(revision), Some(file)),
                None => (Some(rest), None),
            },
            Some((_, rest)) => match rest.rsplit_once('@') {
                Some((file, revision)) => (Some(revision), Some(file)),
                None => (None, Some(rest)),
            },
            None => (None, None),
        };
        check_id(id).map_err(|why| wrong(&why))?;
        if let Some(revision) = revision {
            check_path(revision).map_err(|why| wrong(&format!("the revision {why}")))?;
        }
        if let Some(file) = file {
            check_path(file).map_err(|why| wrong(&format!("the file {why}")))?;
        }
        let own = |part: Option<&str>| part.map(str::to_owned);
        Ok(Self { id: id.to_owned(), revision: own(revision), file: own(file) })
    }
}

/// The rules of the hub itself, which also keep a name one folder of the cache.
fn check_id(id: &str) -> Result<(), String> {
    let parts: Vec<&str> = id.split('/').collect();
    if parts.len() > 2 {
        return Err(format!("a name has one slash at most, and there are {}", parts.len() - 1));
    }
    if id.len() > LONGEST_NAME {
        return Err(format!("a name has {LONGEST_NAME} characters at most, and there are {}", id.len()));
    }
    for part in parts {
        if part.is_empty() {
            return Err("a part of the name is empty".to_owned());
        }
        if let Some(other) = part.chars().find(|c| !c.is_ascii_alphanumeric() && !"-_.".contains(*c)) {
            return Err(format!("a name has letters, digits, - _ and . only, and there is {other:?}"));
        }
        if part.starts_with(['-', '.'])
            || part.ends_with(['-', '.'])
            || part.contains("--")
            || part.contains("..")
        {
            return Err(format!("{part:?} begins or ends with - or ., or has two of them in a row"));
        }
    }
    Ok(())
}

/// Demands that `path` stays within the folder that it is put in, on every system.
pub fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("is empty".to_owned());
    }
    if path.len() > LONGEST_PATH {
        return Err(format!("is longer than {LONGEST_PATH} bytes"));
    }
    if let Some(c) = path.chars().find(|c| c.is_control() || "\\:*?\"<>|".contains(*c)) {
        return Err(format!("{path:?} contains {c:?}"));
    }
    if leads_out(path) {
        return Err(format!("{path:?} leads out of its folder"));
    }
    Ok(())
}

/// Whether `path` is absolute, or goes up, or is spelled as no path of a hub is.
pub fn leads_out(path: &str) -> bool {
    path.split('/').any(|part| part.is_empty() || part == "." || part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String, Option<String>) {
        let name: Name = text.parse().unwrap();
        (name.id().to_owned(), name.revision().to_owned(), name.file().map(str::to_owned))
    }

    #[test]
    fn names_revisions_and_files_are_told_apart() {
        let file = Some("q4/x.gguf".to_owned());
        let id = || "org/Name-1.5B".to_owned();
        assert_eq!(parts("org/Name-1.5B"), (id(), "main".into(), None));
        assert_eq!(parts("org/Name-1.5B@v1.0"), (id(), "v1.0".into(), None));
        assert_eq!(parts("org/Name-1.5B@refs/pr/3"), (id(), "refs/pr/3".into(), None));
        assert_eq!(parts("org/Name-1.5B:q4/x.gguf"), (id(), "main".into(), file.clone()));
        assert_eq!(parts("org/Name-1.5B@v1:q4/x.gguf"), (id(), "v1".into(), file.clone()));
        assert_eq!(parts("org/Name-1.5B:q4/x.gguf@v1"), (id(), "v1".into(), file));
        assert_eq!(parts("gpt2"), ("gpt2".into(), "main".into(), None));
    }

    #[test]
    fn a_name_is_printed_as_it_is_read() {
        for text in ["gpt2", "a/b", "a/b@v1", "a/b:x.gguf", "a/b@v1:x.gguf"] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_that_lead_out_of_the_cache_are_refused() {
        let long = "a".repeat(300);
        let texts = [
            "",
            "/",
            "/etc/passwd",
            "../x",
            "a/..",
            "a/../b",
            "./x",
            "a//b",
            "a/b/c",
            "a/b/",
            "~/x",
            "C:\\x",
            "a\\b",
            "a/b--c",
            "a/b@",
            "a/b@../../x",
            "a/b@/x",
            "a/b:",
            "a/b:../x.gguf",
            "a/b:/x.gguf",
            "a/b:x\\y.gguf",
            "a/b@v1:..",
            "a/b:x\0.gguf",
            "a/b c",
            "名/字",
            "-a/b",
            "a/b@x?y",
            &long,
        ];
        for text in texts {
            let error = text.parse::<Name>().unwrap_err().to_string();
            assert!(error.contains("is not the name of a model"), "{text:?}: {error}");
        }
    }
}
