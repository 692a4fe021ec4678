//! Files made byte by byte, good ones to be broken.

/// All parts in a row.
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// `bytes` with some replaced.
pub fn patch(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// Where `part` is found for the time numbered `which`, from zero.
pub fn place(bytes: &[u8], part: &[u8], which: usize) -> usize {
    let places = bytes.windows(part.len()).enumerate().filter(|(_, window)| *window == part);
    places.map(|(at, _)| at).nth(which).expect("it is there")
}

// ---- zip ---------------------------------------------------------------------------------------------------------

/// A zip archive of stored entries.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let (at, size, length) = (file.len() as u32, data.len() as u32, name.len() as u16);
        let sizes = join(&[&size.to_le_bytes(), &size.to_le_bytes(), &length.to_le_bytes(), &[0, 0]]);
        file.extend(join(&[b"PK\x03\x04", &[0; 14], &sizes, name.as_bytes(), data]));
        directory.extend(join(&[
            b"PK\x01\x02",
            &[0; 16],
            &sizes,
            &[0; 10],
            &at.to_le_bytes(),
            name.as_bytes(),
        ]));
    }
    let (count, size, at) = (entries.len() as u16, directory.len() as u32, file.len() as u32);
    let end = join(&[
        &[0; 4],
        &count.to_le_bytes(),
        &count.to_le_bytes(),
        &size.to_le_bytes(),
        &at.to_le_bytes(),
        &[0; 2],
    ]);
    join(&[&file, &directory, b"PK\x05\x06", &end])
}

/// The same archive as one of more than 4 GB would be: every size in its 64-bit twin.
pub fn zip_64(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let elsewhere = [0xff; 4];
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let (at, size, length) =
            ((file.len() as u64).to_le_bytes(), (data.len() as u64).to_le_bytes(), name.len() as u16);
        let sizes = |extra: u16| join(&[&elsewhere, &elsewhere, &length.to_le_bytes(), &extra.to_le_bytes()]);
        let local = join(&[&[1, 0, 16, 0], &size, &size]);
        file.extend(join(&[b"PK\x03\x04", &[0; 14], &sizes(20), name.as_bytes(), &local, data]));
        let wide = join(&[&[1, 0, 24, 0], &size, &size, &at]);
        directory.extend(join(&[
            b"PK\x01\x02",
            &[0; 16],
            &sizes(28),
            &[0; 10],
            &elsewhere,
            name.as_bytes(),
            &wide,
        ]));
    }
    let (count, at) = ((entries.len() as u64).to_le_bytes(), (file.len() as u64).to_le_bytes());
    let end_at = (file.len() + directory.len()) as u64;
    let size = (directory.len() as u64).to_le_bytes();
    let end_64 = join(&[b"PK\x06\x06", &44_u64.to_le_bytes(), &[0; 12], &count, &count, &size, &at]);
    let locator = join(&[b"PK\x06\x07", &[0; 4], &end_at.to_le_bytes(), &[1, 0, 0, 0]]);
    join(&[&file, &directory, &end_64, &locator, b"PK\x05\x06", &[0; 4], &[0xff; 12], &[0; 2]])
}

/// Offsets of fields in a record of the directory.
pub const FLAGS: usize = 8;
pub const METHOD: usize = 10;
pub const SIZES: usize = 20;
pub const HEADER: usize = 42;

/// A PyTorch archive of this pickle and one storage.
pub fn torch(pickle: &[u8], storage: &[u8]) -> Vec<u8> {
    zip(&[("m/data.pkl", pickle), ("m/data/0", storage)])
}

// ---- pickle ------------------------------------------------------------------------------------------------------

/// A text.
pub fn text(text: &str) -> Vec<u8> {
    join(&[b"X", &(text.len() as u32).to_le_bytes(), text.as_bytes()])
}

/// An integer of up to 64 bits.
pub fn integer(number: i64) -> Vec<u8> {
    join(&[&[0x8a, 8], &number.to_le_bytes()])
}

/// A tuple of values.
pub fn tuple(values: &[Vec<u8>]) -> Vec<u8> {
    join(&[b"(", &values.concat(), b"t"])
}

/// A tuple of integers.
pub fn integers(numbers: &[i64]) -> Vec<u8> {
    tuple(&numbers.iter().map(|&number| integer(number)).collect::<Vec<_>>())
}

/// A name.
pub fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// A call of what has a name.
pub fn call(function: &[u8], arguments: &[Vec<u8>]) -> Vec<u8> {
    join(&[function, &tuple(arguments), b"R"])
}

/// A reference to the storage 0 of this class and count.
pub fn storage(class: &str, count: i64) -> Vec<u8> {
    let id = [text("storage"), global("torch", class), text("0"), text("cpu"), integer(count)];
    join(&[&tuple(&id), b"Q"])
}

/// A tensor over a storage.
pub fn tensor(storage: Vec<u8>, start: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let rebuild = global("torch._utils", "_rebuild_tensor_v2");
    call(&rebuild, &[storage, integer(start), integers(shape), integers(strides), vec![0x89], b"}".to_vec()])
}

/// A whole pickle.
pub fn program(body: &[u8]) -> Vec<u8> {
    join(&[&[0x80, 2], body, b"."])
}

/// The pickle of a dictionary with one entry `w`.
pub fn single(value: &[u8]) -> Vec<u8> {
    program(&join(&[b"}(", &text("w"), value, b"u"]))
}

/// A file of the older format: the object, the keys and what follows.
pub fn old(object: &[u8], keys: &[u8], rest: &[u8]) -> Vec<u8> {
    let magic = [0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
    let facts = join(&[b"}(", &text("little_endian"), &[0x88], b"u"]);
    join(&[&program(&magic), &program(&integer(1001)), &program(&facts), object, keys, rest])
}

// ---- GGUF --------------------------------------------------------------------------------------------------------

/// A text with its length before it.
pub fn long_text(text: &str) -> Vec<u8> {
    join(&[&(text.len() as u64).to_le_bytes(), text.as_bytes()])
}

/// An entry: its key, the number of its type, its value.
pub fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    join(&[&long_text(key), &kind.to_le_bytes(), value])
}

/// A tensor in the list: dimensions as the file has them, the first lying together.
pub fn listed(name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let sizes: Vec<u8> = dimensions.iter().flat_map(|size| size.to_le_bytes()).collect();
    let count = dimensions.len() as u32;
    join(&[&long_text(name), &count.to_le_bytes(), &sizes, &kind.to_le_bytes(), &offset.to_le_bytes()])
}

/// The first 24 bytes of a file.
pub fn gguf_head(version: u32, tensors: u64, entries: u64) -> Vec<u8> {
    join(&[b"GGUF", &version.to_le_bytes(), &tensors.to_le_bytes(), &entries.to_le_bytes()])
}

/// A file of entries, listed tensors and this many bytes of data, aligned to 32.
pub fn gguf(entries: &[Vec<u8>], tensors: &[Vec<u8>], data: usize) -> Vec<u8> {
    let head = gguf_head(3, tensors.len() as u64, entries.len() as u64);
    let mut file = join(&[&head, &entries.concat(), &tensors.concat()]);
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend((0..data).map(|n| n as u8));
    file
}

// ---- CTranslate2 -------------------------------------------------------------------------------------------------

/// A name with its length before and a zero behind it.
pub fn short_text(text: &str) -> Vec<u8> {
    join(&[&(text.len() as u16 + 1).to_le_bytes(), text.as_bytes(), &[0]])
}

/// A variable with this many bytes, 0, 1, 2 …
pub fn variable(name: &str, shape: &[u32], kind: u8, bytes: usize) -> Vec<u8> {
    let sizes: Vec<u8> = shape.iter().flat_map(|size| size.to_le_bytes()).collect();
    let data: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
    join(&[&short_text(name), &[shape.len() as u8], &sizes, &[kind], &(bytes as u32).to_le_bytes(), &data])
}

/// A file of variables and aliases.
pub fn ctranslate2(version: u32, variables: &[Vec<u8>], aliases: &[(&str, &str)]) -> Vec<u8> {
    let aliased: Vec<u8> =
        aliases.iter().flat_map(|(a, b)| [short_text(a), short_text(b)]).flatten().collect();
    let (count, aliases) = (variables.len() as u32, aliases.len() as u32);
    let head =
        join(&[&version.to_le_bytes(), &short_text("TestSpec"), &1_u32.to_le_bytes(), &count.to_le_bytes()]);
    join(&[&head, &variables.concat(), &aliases.to_le_bytes(), &aliased])
}
