//! Folders that are no model, or a broken one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use glassformer::{Tensor, weights};

use super::{Ran, decoder, folder, run, saved};

fn generate(model: &str) -> Ran {
    run(&["generate", "--model", model, "--ids", "5", "--max-new-tokens", "1"])
}

/// Saves a model whose weights went through `change`.
fn changed(test: &str, change: impl FnOnce(&mut BTreeMap<String, Tensor>)) -> String {
    let (model, folder) = saved(test, decoder());
    let mut tensors: BTreeMap<String, Tensor> =
        model.names().into_iter().map(|name| (name.clone(), model.tensor(&name).unwrap())).collect();
    change(&mut tensors);
    let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    weights::save(Path::new(&folder).join("model.safetensors"), named, &BTreeMap::new()).unwrap();
    folder
}

const NAME: &str = "target.0.attend.query.weight";

#[test]
fn a_folder_that_is_not_there_is_said_so() {
    generate("/no/such/folder")
        .refused_with("there is no folder or file /no/such/folder", "formula.toml and model.safetensors");
}

#[test]
fn a_file_that_is_no_model_is_named() {
    let file = folder("bad_file").join("model.gguf");
    fs::write(&file, "GGUF").unwrap();
    generate(file.to_str().unwrap()).refused("model.gguf");
}

#[test]
fn a_hugging_face_folder_is_recognised() {
    let folder = folder("bad_hugging_face");
    fs::write(folder.join("config.json"), r#"{"model_type": "whale"}"#).unwrap();
    generate(folder.to_str().unwrap()).refused_with("is not known", "known: albert");
    fs::write(folder.join("config.json"), "{}").unwrap();
    generate(folder.to_str().unwrap()).refused("model_type is missing");
}

#[test]
fn an_empty_folder_lacks_a_formula() {
    generate(folder("bad_empty").to_str().unwrap())
        .refused_with("neither formula.toml nor config.json", "a folder with formula.toml");
}

#[test]
fn a_formula_without_weights_is_refused() {
    let (_, model) = saved("bad_no_weights", decoder());
    fs::remove_file(Path::new(&model).join("model.safetensors")).unwrap();
    generate(&model).refused("no weights in");
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let (_, model) = saved("bad_key", decoder());
    let path = Path::new(&model).join("formula.toml");
    let text = fs::read_to_string(&path).unwrap() + "\n[surprise]\n";
    fs::write(&path, text).unwrap();
    generate(&model).refused_with("surprise", "--notation toml");
}

#[test]
fn a_missing_weight_is_named() {
    let model = changed("bad_missing", |tensors| drop(tensors.remove(NAME)));
    generate(&model).refused_with(&format!("{NAME} is missing"), "same model");
}

#[test]
fn of_many_misfits_only_some_are_listed() {
    let model = changed("bad_many", |tensors| tensors.retain(|name, _| name == NAME));
    let ran = generate(&model);
    ran.refused_with("more", "same model");
    assert!(ran.err.lines().count() < 12, "{}", ran.err);
}

#[test]
fn an_extra_weight_is_named() {
    let model = changed("bad_extra", |tensors| drop(tensors.insert("surprise".into(), Tensor::zeros(&[2]))));
    generate(&model).refused_with("surprise is used by nothing", "same model");
}

#[test]
fn a_weight_of_another_shape_is_named_with_both_shapes() {
    let model = changed("bad_shape", |tensors| drop(tensors.insert(NAME.into(), Tensor::zeros(&[8, 7]))));
    generate(&model).refused_with(&format!("{NAME} is [8, 7] where [8, 8] is needed"), "same model");
}

#[test]
fn weights_that_are_not_numbers_are_found() {
    for bad in [f32::NAN, f32::INFINITY] {
        let poison =
            |tensors: &mut BTreeMap<String, Tensor>| tensors.get_mut(NAME).unwrap().data_mut()[3] = bad;
        let model = changed("bad_nan", poison);
        generate(&model).refused_with(&format!("{NAME} is not finite: element 3 is"), "fetch it again");
    }
}

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let (_, model) = saved("bad_damaged", decoder());
    let path = Path::new(&model).join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for bytes in [&whole[..whole.len() / 2], &whole[..4], b"", &[255; 64], b"not a safetensors file at all"] {
        fs::write(&path, bytes).unwrap();
        let ran = generate(&model);
        assert_eq!((ran.code, ran.err.contains("panicked")), (Some(2), false), "{}", ran.err);
    }
}
