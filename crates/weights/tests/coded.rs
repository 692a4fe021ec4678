//! Safetensors in few bits: what is written comes back, and what is damaged is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use glassformer_tensor::{Coded, CodedRow, Coding, Random};
use glassformer_weights::{Dtype, Quant, Weights, put_together, save_streamed, scheme};

const ROWS: usize = 5;
const WIDTH: usize = 256;
const CODINGS: [(&str, Coding); 2] = [("a", Coding::INT8), ("b", Coding::INT4)];

fn place(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("model.safetensors")
}

fn rows(coding: Coding, seed: u64) -> Vec<CodedRow> {
    let mut random = Random::new(seed);
    let row = |_: usize| {
        let numbers: Vec<f32> = (0..WIDTH).map(|_| random.normal()).collect();
        let mut row = CodedRow::default();
        coding.encode(&numbers, &mut row);
        row
    };
    (0..ROWS).map(row).collect()
}

/// A file with one tensor of each coding, and these entries in its list of types.
fn write(path: &Path, change: impl Fn(&mut BTreeMap<&str, &str>)) {
    let mut types = BTreeMap::from([("a", scheme::INT8), ("b", scheme::INT4)]);
    change(&mut types);
    let metadata = BTreeMap::from([(scheme::CODING.to_owned(), serde_json::to_string(&types).unwrap())]);
    let blocks = WIDTH / Quant::Int4.numbers() * Quant::Int4.bytes();
    let shapes = BTreeMap::from([
        ("a", (Dtype::I8, vec![ROWS, WIDTH])),
        ("a.scale", (Dtype::F32, vec![ROWS])),
        ("b", (Dtype::U8, vec![ROWS, blocks])),
        ("b.scale", (Dtype::F32, vec![ROWS])),
    ]);
    let claims = shapes.iter().map(|(name, (dtype, shape))| (*name, (*dtype, shape.as_slice()))).collect();
    save_streamed(path, &claims, &metadata, |name, file| {
        let coding = CODINGS.iter().find(|(own, _)| name.starts_with(own)).unwrap().1;
        if name.len() > 1 {
            return rows(coding, 1).iter().try_for_each(|row| file.write_all(&row.scales[0].to_le_bytes()));
        }
        for row in rows(coding, 1) {
            let mut bytes = Vec::new();
            if coding == Coding::INT4 {
                put_together(&row, &mut bytes);
            } else {
                bytes.extend(row.codes.iter().map(|code| code ^ 128));
            }
            file.write_all(&bytes)?;
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn codes_and_numbers_come_back_as_they_were() {
    let path = place("coded");
    write(&path, |_| ());
    let weights = Weights::open(&path).unwrap();
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a", "b"]);
    for (name, coding) in CODINGS {
        let view = weights.get(name).unwrap();
        assert_eq!(view.shape(), [ROWS, WIDTH]);
        let expected = rows(coding, 1);
        let coded = view.coded(1..4).unwrap();
        assert_eq!(coded.coding(), coding);
        let mut row = CodedRow::default();
        for index in 0..3 {
            coded.row(index, &mut row);
            assert_eq!(row, expected[index + 1], "{name}");
        }
        coded.row(3, &mut row);
        assert_eq!(row, CodedRow::default(), "there is no such row");
        let numbers: Vec<f32> = expected.iter().flat_map(|row| row.decode(&coding)).collect();
        assert_eq!(*view.values(), numbers[..], "{name}");
    }
    assert!(weights.get("b").unwrap().coded(0..6).is_none());
}

#[test]
fn a_file_in_memory_is_as_good_as_one_on_a_disk() {
    let path = place("coded_in_memory");
    write(&path, |_| ());
    let opened = Weights::open(&path).unwrap();
    // Part of a program, a file may begin anywhere.
    let bytes: &'static [u8] = [vec![0], std::fs::read(&path).unwrap()].concat().leak();
    let given = Weights::from_bytes("built in", &bytes[1..]).unwrap();
    assert_eq!(opened.names().collect::<Vec<_>>(), given.names().collect::<Vec<_>>());
    for (name, _) in CODINGS {
        let views = [&opened, &given].map(|weights| weights.get(name).unwrap());
        assert_eq!(views[0].values(), views[1].values());
        assert_eq!(views[0].bytes(), views[1].bytes());
    }
    let integers = given.get("a").unwrap().coded(1..3).unwrap();
    let expected = rows(Coding::INT8, 1);
    let found = integers.integers().unwrap();
    assert_eq!(found.scales, [expected[1].scales[0], expected[2].scales[0]]);
    let codes = |row: &CodedRow| row.codes.iter().map(|code| code ^ 128).collect::<Vec<u8>>();
    assert_eq!(found.bytes, [codes(&expected[1]), codes(&expected[2])].concat());
    assert!(given.get("b").unwrap().coded(1..3).unwrap().integers().is_none());
    let error = Weights::from_bytes("built in", bytes[1..100].to_vec()).unwrap_err().to_string();
    assert!(error.contains("built in"), "{error}");
}

#[test]
fn types_that_cannot_be_are_refused() {
    let path = place("coded_wrong");
    let says = |change: fn(&mut BTreeMap<&str, &str>), words: &str| {
        write(&path, change);
        let error = Weights::open(&path).unwrap_err().to_string();
        assert!(error.contains(words), "{words:?} is not in: {error}");
    };
    says(|types| _ = types.insert("b", "Q9_9"), "unknown type \"Q9_9\"");
    says(|types| _ = types.insert("e", "Q4_0"), "\"e\" is not there");
    says(|types| _ = types.insert("b", "Q5_0"), "no rows of Q5_0");
    says(|types| _ = types.insert("a", "Q4_0"), "is I8 [5, 256]");
    says(|types| _ = types.insert("b", "int8"), "\"b\" is not there as I8");
    says(|types| _ = types.insert("a.scale", "int8"), "\"a.scale\" has no scales");
    says(|types| _ = types.insert("a", "int4"), "is I8 [5, 256]");
    says(|types| _ = types.insert("a.scale", "Q4_0"), "is F32 [5]");
}

/// `quantize` once wrote its four bits so, and others may.
#[test]
fn blocks_of_gguf_in_a_file_of_ours_are_what_they_are_there() {
    let path = place("coded_blocks");
    let metadata = BTreeMap::from([(scheme::CODING.to_owned(), r#"{"a":"Q4_0"}"#.to_owned())]);
    let width = WIDTH / Quant::Q4_0.numbers() * Quant::Q4_0.bytes();
    let mut random = Random::new(3);
    // Halves with small exponents, so that no number is beyond counting.
    let bytes: Vec<u8> = (0..ROWS * width).map(|_| random.below(256) as u8 & 0x3f).collect();
    let shape = [ROWS, width];
    let claims = BTreeMap::from([("a", (Dtype::U8, &shape[..]))]);
    save_streamed(&path, &claims, &metadata, |_, file| file.write_all(&bytes)).unwrap();
    let weights = Weights::open(&path).unwrap();
    let view = weights.get("a").unwrap();
    assert_eq!(*view.values(), Quant::Q4_0.widen(&bytes)[..]);
    let coded = view.coded(0..ROWS).unwrap();
    assert_eq!(coded.coding(), Quant::Q4_0.coding());
    let mut row = CodedRow::default();
    coded.row(2, &mut row);
    assert_eq!(row.decode(&coded.coding()), view.values()[2 * WIDTH..3 * WIDTH]);
}

/// Each was looked for among all: 80,000 names of nothing took minutes.
#[test]
fn many_tensors_in_blocks_are_found_at_once() {
    let path = place("coded_many");
    let names: Vec<String> = (0..40_000).map(|at| format!("t{at}")).collect();
    let types: BTreeMap<&str, &str> = names.iter().map(|name| (name.as_str(), "Q4_0")).collect();
    let metadata = BTreeMap::from([(scheme::CODING.to_owned(), serde_json::to_string(&types).unwrap())]);
    let claims = names.iter().map(|name| (name.as_str(), (Dtype::U8, &[0, 18][..]))).collect();
    save_streamed(&path, &claims, &metadata, |_, _| Ok(())).unwrap();
    assert_eq!(Weights::open(&path).unwrap().len(), names.len());
}

#[test]
fn rows_of_more_numbers_than_can_be_counted_are_refused() {
    let path = place("coded_wide");
    let metadata = BTreeMap::from([(scheme::CODING.to_owned(), r#"{"a":"Q4_0"}"#.to_owned())]);
    let shape = [0, usize::MAX / 18 * 18];
    let claims = BTreeMap::from([("a", (Dtype::U8, &shape[..]))]);
    save_streamed(&path, &claims, &metadata, |_, _| Ok(())).unwrap();
    let error = Weights::open(&path).unwrap_err().to_string();
    assert!(error.contains("no rows of Q4_0"), "{error}");
}

#[test]
fn integers_need_a_scale_for_each_row() {
    let path = place("coded_scales");
    let metadata = BTreeMap::from([(scheme::CODING.to_owned(), r#"{"a":"int8"}"#.to_owned())]);
    let opened = |shape: &[usize], scales: &[usize]| {
        let tensors = BTreeMap::from([("a", (Dtype::I8, shape)), ("a.scale", (Dtype::F32, scales))]);
        save_streamed(&path, &tensors, &metadata, |name, file| {
            let (dtype, shape) = tensors[name];
            file.write_all(&vec![0; shape.iter().product::<usize>() * if dtype == Dtype::I8 { 1 } else { 4 }])
        })
        .unwrap();
        Weights::open(&path).map(|weights| weights.len()).map_err(|error| error.to_string())
    };
    assert_eq!(opened(&[5, 8], &[5]), Ok(1));
    for (shape, scales) in
        [(&[5, 8][..], &[4][..]), (&[5, 8], &[5, 1]), (&[5, 8], &[40]), (&[5], &[5]), (&[5, 8], &[])]
    {
        let error = opened(shape, scales).unwrap_err();
        assert!(error.contains("has not a scale for each row"), "{shape:?} by {scales:?}: {error}");
    }
    let short =
        save_streamed(&path, &BTreeMap::from([("a", (Dtype::I8, &[5, 8][..]))]), &metadata, |_, file| {
            file.write_all(&[0; 39])
        });
    assert!(short.unwrap_err().to_string().contains("was not filled"));
}

#[test]
fn a_damaged_file_is_an_error_or_other_numbers_and_nothing_worse() {
    let path = place("coded_damaged");
    write(&path, |_| ());
    let good = std::fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let mut random = Random::new(7);
    let (mut errors, mut opened) = (0, 0);
    for _ in 0..900 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(3) {
            let at = if random.below(4) > 0 { random.below(header) } else { random.below(bytes.len()) };
            bytes[at] = random.below(256) as u8;
        }
        if random.below(4) == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        std::fs::write(&path, &bytes).unwrap();
        let Ok(weights) = Weights::open(&path) else {
            errors += 1;
            continue;
        };
        opened += 1;
        for name in weights.names() {
            let view = weights.get(name).unwrap();
            assert_eq!(view.values().len(), view.shape().iter().product::<usize>());
            let rows = view.shape().first().copied().unwrap_or(0);
            let mut row = CodedRow::default();
            if let Some(coded) = view.coded(0..rows) {
                (0..rows).for_each(|index| coded.row(index, &mut row));
            }
        }
    }
    assert!(errors > 50 && opened > 50, "{errors} errors, {opened} opened");
}
