//! What lies beside the weights of a model, for folders made of other folders.

use std::fs;
use std::io;
use std::path::Path;

use crate::{Error, embedding};

/// Files beside the weights by what their names end in: configurations, tokenizers, templates.
const KEPT: [&str; 8] = ["json", "txt", "model", "spm", "jinja", "toml", "vocab", "bpe"];

/// Copies what lies beside the weights of the model in `from`: small files of the kinds that a model needs, and the folders of
/// its modules with all that is in them.
///
/// # Errors
/// If a file cannot be read or written, or the list of modules is not understood.
pub fn copy_beside(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), Error> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| Error::File { path, why: error.to_string() }
    };
    let copy = |from: &Path, to: &Path, which: &dyn Fn(&Path) -> bool| -> Result<(), Error> {
        fs::create_dir_all(to).map_err(Error::write(to))?;
        for entry in fs::read_dir(from).map_err(failed(from))? {
            let path = entry.map_err(failed(from))?.path();
            if let Some(name) = path.file_name().filter(|_| path.is_file() && which(&path)) {
                // What cannot be read is the source's fault, and anything later the destination's.
                fs::File::open(&path).map_err(failed(&path))?;
                let target = to.join(name);
                fs::copy(&path, &target).map_err(Error::write(&target))?;
            }
        }
        Ok(())
    };
    let kept = |path: &Path| {
        let index = path.to_string_lossy().ends_with(".index.json");
        !index && path.extension().is_some_and(|end| KEPT.iter().any(|kept| end == *kept))
    };
    copy(from, to, &kept)?;
    for module in embedding::modules(from)? {
        if let Ok(inside) = module.folder.strip_prefix(from)
            && inside != Path::new("")
            && module.folder.is_dir()
        {
            copy(&module.folder, &to.join(inside), &|_| true)?;
        }
    }
    Ok(())
}
