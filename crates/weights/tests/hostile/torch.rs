//! PyTorch files: archives that lie, pickles that attack, explode or make no sense.

use super::common::build::*;
use super::{Case, FETCH_AGAIN};

const DO_NOT_TRUST: &str = "do not trust this file";

/// A tensor `w` of two numbers over a storage of four.
pub fn good_pickle() -> Vec<u8> {
    single(&tensor(storage("FloatStorage", 4), 1, &[2], &[1]))
}

/// An archive of that.
pub fn good_zip() -> Vec<u8> {
    torch(&good_pickle(), &[0; 16])
}

/// The record of the directory for the entry `which`.
fn record(file: &[u8], which: usize) -> usize {
    place(file, b"PK\x01\x02", which)
}

/// Zip archives that are broken.
pub fn archives() -> Vec<Case> {
    let good = good_zip();
    let (first, second) = (record(&good, 0), record(&good, 1));
    let end = place(&good, b"PK\x05\x06", 0);
    let with = |at: usize, new: &[u8]| patch(good.clone(), at, new);
    let twice = zip(&[("m/data.pkl", &good_pickle()), ("m/data/0", &[0; 16]), ("m/data/0", &[1; 16])]);
    let local = join(&[b"PK\x03\x04", &[0; 22], &[8, 0, 0, 0], b"m/data/1"]);
    let inside = zip(&[
        ("m/data.pkl", &good_pickle()),
        ("m/data/0", &join(&[&local, &[0; 9]])),
        ("m/data/1", &[0; 9]),
    ]);
    let inner = (place(&inside, &local, 0) as u32).to_le_bytes();
    let overlapping = patch(inside.clone(), record(&inside, 2) + HEADER, &inner);
    let far = join(&[&4_000_000_000_u32.to_le_bytes(), &4_000_000_000_u32.to_le_bytes()]);
    let locator = join(&[b"PK\x06\x07", &[0; 4], &(1_u64 << 60).to_le_bytes(), &[0; 4], &good[end..]]);
    vec![
        ("half an archive", good[..good.len() / 2].to_vec(), &["directory", "missing", FETCH_AGAIN]),
        ("an archive without its last byte", good[..good.len() - 1].to_vec(), &["directory", "missing"]),
        ("an archive without a pickle", zip(&[("m/data/0", &[0; 16])]), &["no data.pkl"]),
        ("a pickle too deep in the archive", zip(&[("a/b/data.pkl", &good_pickle())]), &["no data.pkl"]),
        (
            "a compressed entry",
            with(second + METHOD, &[8]),
            &["\"m/data/0\"", "compressed", "save it again with torch.save"],
        ),
        ("an encrypted entry", with(second + FLAGS, &[1]), &["\"m/data/0\"", "encrypted"]),
        ("two entries of one name", twice, &["\"m/data/0\" appears twice"]),
        ("an entry inside another", overlapping, &["entries \"m/data/0\" and \"m/data/1\" overlap"]),
        ("an entry of 4 GB", with(second + SIZES, &far), &["an entry", "needs 4000000000 bytes"]),
        ("an entry of two sizes", with(second + SIZES, &[9]), &["stored in 9 bytes and has 16"]),
        (
            "an entry that runs into the directory",
            with(second + SIZES, &[40, 0, 0, 0, 40]),
            &["runs into the directory"],
        ),
        (
            "an entry far outside",
            with(first + HEADER, &[0xf0, 0xff, 0xff, 0xff]),
            &["the header of an entry"],
        ),
        ("an entry that is no entry", with(first + HEADER, &[1]), &["does not begin at byte 1"]),
        ("an entry called something else", with(first + 46, b"x"), &["another name"]),
        ("a name that is no text", with(first + 46, &[0xff]), &["not UTF-8"]),
        ("more entries than fit", with(end + 8, &[0xff, 0xff, 0xff, 0xff]), &["65535 entries do not fit"]),
        ("a directory that is no directory", with(end + 16, &[0; 4]), &["does not begin as one"]),
        (
            "a directory outside the archive",
            with(end + 12, &[0xff, 0xff, 0xff, 0x7f]),
            &["outside the archive"],
        ),
        (
            "a 64-bit directory nowhere",
            join(&[&good[..end], &locator]),
            &["the 64-bit end record", FETCH_AGAIN],
        ),
        ("a storage that is not there", zip(&[("m/data.pkl", &good_pickle())]), &["no storage \"0\""]),
        (
            "numbers of another machine",
            zip(&[("m/data.pkl", &good_pickle()), ("m/byteorder", b"big")]),
            &["big-endian"],
        ),
    ]
}

/// Pickles that ask for something to be done.
pub fn attacks() -> Vec<Case> {
    let shell = |module: &str, name: &str| program(&call(&global(module, name), &[text("touch hacked")]));
    let stacked = program(&join(&[&text("posix"), &text("system"), &[0x93], &tuple(&[text("id")]), b"R"]));
    let complex = single(&tensor(storage("ComplexFloatStorage", 4), 0, &[2], &[1]));
    let module = program(&join(&[&tuple(&[text("module"), text("os")]), b"Q"]));
    let within =
        call(&global("torch._tensor", "_rebuild_from_type_v2"), &[global("os", "system"), b"N".to_vec()]);
    let deep_calls = {
        let function = global("torch._tensor", "_rebuild_from_type_v2");
        let nested = (0..9).fold(tuple(&[]), |inner, _| tuple(&[function.clone(), b"N".to_vec(), inner]));
        program(&join(&[&function, &nested, b"R"]))
    };
    vec![
        ("os.system", shell("os", "system"), &["\"os.system\"", "not among what tensors need", DO_NOT_TRUST]),
        ("builtins.eval", shell("builtins", "eval"), &["\"builtins.eval\"", DO_NOT_TRUST]),
        ("a function by two texts", stacked, &["\"posix.system\"", DO_NOT_TRUST]),
        ("a function inside an allowed one", program(&within), &["\"os.system\"", DO_NOT_TRUST]),
        ("calls inside calls", deep_calls, &["functions inside functions", DO_NOT_TRUST]),
        ("a function of torch that is no tensor's", shell("torch.hub", "load"), &["\"torch.hub.load\""]),
        (
            "a kind of tensor that is not read",
            shell("torch._utils", "_rebuild_qtensor"),
            &["_rebuild_qtensor"],
        ),
        ("a kind of number that is not read", complex, &["\"torch.ComplexFloatStorage\"", "safetensors"]),
        (
            "a call of what cannot be called",
            program(&call(&global("torch", "float32"), &[])),
            &["makes no tensor"],
        ),
        ("a call of a text", program(&call(&text("os.system"), &[])), &["no function", DO_NOT_TRUST]),
        ("a module instead of a storage", module, &["no storage", DO_NOT_TRUST]),
        (
            "an instance of a class",
            program(b"(ios\nsystem\n"),
            &["operation 0x69", "at byte 3", DO_NOT_TRUST],
        ),
        ("an object of a class", program(b"(cos\nsystem\no"), &["\"os.system\""]),
        ("an extension", program(&[0x82, 1]), &["operation 0x82", DO_NOT_TRUST]),
        ("a name of a million letters", program(&global(&"x".repeat(1 << 20), "y")), &["xxx…", DO_NOT_TRUST]),
    ]
}

/// Pickles that would take all memory, all time, or all of the stack.
pub fn bombs() -> Vec<Case> {
    const MANY: usize = 300_000;
    let lists = program(&join(&[&b"]".repeat(MANY / 2), &b"a".repeat(MANY / 2 - 1)]));
    let itself = program(&join(&[b"}q\x00", &text("again"), b"h\x00s"]));
    let lists_of_itself = program(b"]q\x00h\x00a");
    // Each dictionary has the one before it twice: thirty make a billion.
    let doubled = |inner: Vec<u8>, _| join(&[b"}(", &text("a"), &inner, b"q\x01", &text("b"), b"h\x01u"]);
    let laughs = program(&(0..30).fold(b"}".to_vec(), doubled));
    let wide = {
        let keys: Vec<u8> =
            (0..2000).flat_map(|key| join(&[&text(&format!("{key:064}")), b"h\x00"])).collect();
        let level = join(&[b"}q\x02(", &keys, b"u0h\x02q\x00"]);
        program(&join(&[b"}q\x00", &level.repeat(3)]))
    };
    vec![
        ("lists in lists in lists", lists, &["deeper than 32"]),
        ("a dictionary in itself", itself, &["deeper than 32"]),
        ("a list in itself", lists_of_itself, &["deeper than 32"]),
        ("a billion laughs", laughs, &["names of all values"]),
        ("billions of names", wide, &["names of all values"]),
        ("a memo for four billion values", program(b"Nr\xff\xff\xff\xff"), &["remembers more than"]),
        ("a memo for everything", program(&join(&[b"N", &[0x94].repeat(MANY)])), &["remembers more than"]),
        ("a high stack", program(&b"N".repeat(MANY)), &["more than", "values"]),
        ("many marks", program(&b"(".repeat(MANY)), &["more than", "values"]),
        ("many objects", program(&b"]0".repeat(MANY)), &["more than", "values"]),
        ("marks and tuples", program(&b"(t0".repeat(MANY)), &["more than", "values"]),
    ]
}

/// Pickles that are no programs, or make no tensors.
pub fn nonsense() -> Vec<Case> {
    let float = |count: i64| storage("FloatStorage", count);
    let with = |value: Vec<u8>| torch(&single(&value), &[0; 16]);
    let typed = call(
        &global("torch._utils", "_rebuild_tensor_v3"),
        &[float(4), integer(0), integers(&[1]), integers(&[1]), vec![0x89], b"}".to_vec(), b"N".to_vec()],
    );
    let untyped = tensor(
        join(&[
            &tuple(&[text("storage"), global("torch", "UntypedStorage"), text("0"), text("cpu"), integer(4)]),
            b"Q",
        ]),
        0,
        &[1],
        &[1],
    );
    vec![
        ("nothing but an end", torch(b".", &[]), &["empty stack", FETCH_AGAIN]),
        ("a pickle without an end", torch(&[0x80, 2, b'}'], &[]), &["an operation at byte 3 needs 1 bytes"]),
        ("a protocol of the future", torch(&[0x80, 9, b'N', b'.'], &[]), &["protocol 9"]),
        ("a call with nothing on the stack", torch(&program(b"R"), &[]), &["empty stack"]),
        ("a value from below a mark", torch(&program(b"N(0"), &[]), &["empty stack"]),
        ("an end without its mark", torch(&program(b"Nt"), &[]), &["a mark"]),
        ("a key without a value", torch(&program(b"}(Nu"), &[]), &["a key without a value"]),
        ("items of a list", torch(&program(b"](NNu"), &[]), &["no dictionary"]),
        ("what was never remembered", torch(&program(b"h\x07"), &[]), &["recalls 7"]),
        (
            "a text of 2^63 bytes",
            torch(&program(&join(&[&[0x8d], &[0xff; 7], &[0x7f]])), &[]),
            &["a text", "9223372036854775807"],
        ),
        (
            "an integer of 4 GB",
            torch(&program(&[0x8b, 0xff, 0xff, 0xff, 0xff]), &[]),
            &["an integer", "4294967295"],
        ),
        ("a text that is none", torch(&program(b"U\x01\xff"), &[]), &["not UTF-8"]),
        ("a storage too short", with(tensor(float(5), 0, &[5], &[1])), &["\"w\" needs 20 bytes", "16"]),
        ("a storage of 2^62 numbers", with(tensor(float(1 << 62), 0, &[2], &[1])), &["\"w\" needs", "16"]),
        ("a negative storage", with(tensor(float(-4), 0, &[2], &[1])), &["where a size should be"]),
        (
            "a shape beyond the storage",
            with(tensor(float(4), 3, &[2], &[1])),
            &["\"w\" reaches beyond its storage of 4"],
        ),
        ("a negative size", with(tensor(float(4), 0, &[-2], &[1])), &["where a size should be"]),
        (
            "a giant shape of one number",
            with(tensor(float(4), 0, &[1 << 40], &[0])),
            &["[1099511627776] is larger than its storage"],
        ),
        (
            "an overflowing shape",
            with(tensor(float(4), 0, &[1 << 40, 1 << 40], &[0, 0])),
            &["larger than any memory"],
        ),
        (
            "overflowing strides",
            with(tensor(float(4), 0, &[2, 2], &[i64::MAX, i64::MAX])),
            &["reaches beyond"],
        ),
        (
            "more strides than dimensions",
            with(tensor(float(4), 0, &[2], &[1, 1])),
            &["1 dimensions and 2 strides"],
        ),
        ("too many dimensions", with(tensor(float(4), 0, &[1; 17], &[1; 17])), &["17 dimensions"]),
        ("a tensor of a text", with(tensor(text("0"), 0, &[2], &[1])), &["not made of a storage"]),
        (
            "a tensor of a tensor",
            with(tensor(tensor(float(4), 0, &[1], &[1]), 0, &[1], &[1])),
            &["no storage"],
        ),
        ("a tensor without a type", with(typed), &["has no type"]),
        ("a storage without a type", with(untyped), &["\"w\" has no type"]),
    ]
}

/// Broken files of the older format.
pub fn old_files() -> Vec<Case> {
    let keys = |names: &[&str]| {
        program(&join(&[b"](", &names.iter().flat_map(|name| text(name)).collect::<Vec<_>>(), b"e"]))
    };
    let storage = |count: u64, bytes: usize| join(&[&count.to_le_bytes(), &vec![0; bytes]]);
    let good = old(&good_pickle(), &keys(&["0"]), &storage(4, 16));
    let part = {
        let id = [
            text("storage"),
            global("torch", "FloatStorage"),
            text("0"),
            text("cpu"),
            integer(4),
            integers(&[9, 3, 2]),
        ];
        single(&tensor(join(&[&tuple(&id), b"Q"]), 0, &[2], &[1]))
    };
    let big_endian = {
        let at = place(&good, b"little_endian", 0) + "little_endian".len();
        patch(good.clone(), at, &[0x89])
    };
    vec![
        ("only the magic number", good[..16].to_vec(), &["the protocol", FETCH_AGAIN]),
        ("a pickle of something else", program(b"}"), &["magic number", "save it again"]),
        ("another protocol", patch(good.clone(), 19, &[9]), &["1001"]),
        ("numbers of another machine, long ago", big_endian, &["big-endian"]),
        ("no keys", old(&good_pickle(), &program(b"N"), &storage(4, 16)), &["no list of keys"]),
        ("a key that is a number", old(&good_pickle(), &program(b"]K\x01a"), &storage(4, 16)), &["no text"]),
        (
            "a key of nothing",
            old(&good_pickle(), &keys(&["1"]), &storage(4, 16)),
            &["\"1\" belongs to no tensor"],
        ),
        (
            "the same key twice",
            old(&good_pickle(), &keys(&["0", "0"]), &storage(4, 16).repeat(2)),
            &["\"0\" appears twice"],
        ),
        ("no storage for a key", old(&good_pickle(), &keys(&[]), &[]), &["no storage \"0\""]),
        ("another count", old(&good_pickle(), &keys(&["0"]), &storage(5, 20)), &["5 numbers, where 4"]),
        (
            "a storage cut short",
            old(&good_pickle(), &keys(&["0"]), &storage(4, 15)),
            &["a storage", "15 are left"],
        ),
        ("a part outside its storage", old(&part, &keys(&["0"]), &storage(4, 16)), &["lies outside it"]),
    ]
}
