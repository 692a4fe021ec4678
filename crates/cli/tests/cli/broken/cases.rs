//! The table: what is broken, and what the command says.

use serde_json::{Value, json};

use super::change::{
    Change, both, bytes, config, gguf, header, index, json as change_json, remove, safetensors, tokenizer,
    torch, vocabulary, weights, write,
};

/// One broken model.
pub struct Case {
    pub name: &'static str,
    /// The good model, in the fixtures.
    pub model: &'static str,
    pub verb: Verb,
    /// What `--model` names in the folder; nothing for the folder itself.
    pub file: &'static str,
    pub change: Change,
    pub says: Says,
}

/// What the failure says.
#[derive(Clone, Copy)]
pub enum Says {
    /// These words in its one line.
    Line(&'static str),
    /// These words in its list.
    List(&'static str),
}

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Fill,
    /// With a text of many letters.
    FillLong,
    Classify,
    Forward,
    Generate,
}

impl Verb {
    pub fn words(self, model: &str, out: &str) -> Vec<String> {
        let long = format!("{} [MASK]", "a".repeat(30_000));
        let (verb, rest): (&str, Vec<&str>) = match self {
            Self::Fill => ("fill", vec!["The [MASK] sat."]),
            Self::FillLong => ("fill", vec!["--truncate", &long]),
            Self::Classify => ("classify", vec!["a text"]),
            Self::Forward => ("forward", vec!["--ids", "1 2", "--out", out]),
            Self::Generate => ("generate", vec!["--ids", "1 2", "--max-new-tokens", "2"]),
        };
        [verb, "--model", model].into_iter().chain(rest).map(str::to_owned).collect()
    }
}

/// All cases.
pub fn all() -> Vec<Case> {
    [
        safetensors_files(),
        headers(),
        shards(),
        pickles(),
        ggufs(),
        configs(),
        sizes(),
        tokenizers(),
        vocabularies(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A case that `fill` finds.
fn fill(name: &'static str, change: Change, words: &'static str) -> Case {
    Case { name, model: "tasks/fill", verb: Verb::Fill, file: "", change, says: Says::Line(words) }
}

/// A case of another model or verb.
fn other(name: &'static str, (model, verb): (&'static str, Verb), change: Change, says: Says) -> Case {
    Case { name, model, verb, file: "", change, says }
}

const FILE: &str = "model.safetensors";
const NAME: &str = "bert.encoder.layer.0.attention.self.query.weight";

fn safetensors_files() -> Vec<Case> {
    let length = |length: u64| bytes(FILE, move |file| file[..8].copy_from_slice(&length.to_le_bytes()));
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 33196\n";
    vec![
        fill("no weights", remove(FILE), "no weights in"),
        fill("empty weights", write(FILE, b""), "cut short"),
        fill("weights of four bytes", bytes(FILE, |file| file.truncate(4)), "cut short"),
        fill("half of the weights", bytes(FILE, |file| file.truncate(file.len() / 2)), "lies at bytes"),
        fill("all but a byte", bytes(FILE, |file| file.truncate(file.len() - 1)), "lies at bytes"),
        fill("bytes behind the end", bytes(FILE, |file| file.extend([0; 8])), "belong to no tensor"),
        fill("a header of exabytes", length(u64::MAX), "announces a header"),
        fill("a header of 90 MB", length(90 << 20), "cut short"),
        fill("a header without end", length(1000), "header"),
        fill("a header of brackets", write(FILE, safetensors(&deep, &[])), "header"),
        fill("a web page", write(FILE, "<!DOCTYPE html><html>Sign in</html>"), "header"),
        fill("a pointer to the file", write(FILE, pointer), "Git LFS pointer"),
    ]
}

fn headers() -> Vec<Case> {
    let set = |key: &'static str, value: Value| header(move |header, _| header[NAME][key] = value.clone());
    let number = |number: f32| {
        header(move |header, data| {
            let at = header[NAME]["data_offsets"][0].as_u64().unwrap() as usize + 12;
            data[at..at + 4].copy_from_slice(&number.to_le_bytes());
        })
    };
    let renamed = header(|header, _| {
        let tensor = header.remove(NAME).unwrap();
        header.insert("surprise".to_owned(), tensor);
    });
    let twice = bytes(FILE, |file| {
        let text = format!("{{\"{NAME}\":1,\"{NAME}\":1}}");
        *file = safetensors(&text, &[]);
    });
    vec![
        fill(
            "a shape beyond counting",
            set("shape", json!([1_u64 << 40, 1_u64 << 40])),
            "larger than any memory",
        ),
        fill(
            "a giant shape in a tiny file",
            set("shape", json!([1_000_000_000, 16])),
            "and the file gives it 1024",
        ),
        fill("a negative shape", set("shape", json!([-1, 16])), "integer `-1`"),
        fill("a shape of fractions", set("shape", json!([1.5, 16])), "floating point `1.5`"),
        fill("a shape of ones", set("shape", json!(vec![1; 10_000])), "at most 16 sizes"),
        fill("another shape", set("shape", json!([4, 64])), "another configuration?"),
        fill("an unknown type", set("dtype", json!("F99")), "unknown type \"F99\""),
        fill("a wider type", set("dtype", json!("F64")), "needs 2048 bytes"),
        fill("whole numbers for weights", set("dtype", json!("I32")), "holds I32"),
        fill("offsets beyond the file", set("data_offsets", json!([0, 1_u64 << 62])), "lies at bytes"),
        fill(
            "offsets that overflow",
            set("data_offsets", json!([u64::MAX - 1023, u64::MAX])),
            "lies at bytes",
        ),
        fill("offsets backwards", set("data_offsets", json!([1024, 0])), "lies at bytes"),
        fill("tensors that overlap", set("data_offsets", json!([0, 1024])), "overlap"),
        fill("offsets that are no pair", set("data_offsets", json!([0])), "header"),
        fill("a tensor twice", twice, "header"),
        fill("a weight that is NaN", number(f32::NAN), "element 3 is NaN"),
        fill("a weight without bound", number(f32::NEG_INFINITY), "element 3 is -inf"),
        other("a tensor under another name", ("tasks/fill", Verb::Fill), renamed, Says::List("is missing")),
    ]
}

fn shards() -> Vec<Case> {
    let map = |map: Value| index(json!({ "metadata": {}, "weight_map": map }).to_string());
    vec![
        fill("a shard above the folder", map(json!({ NAME: "../a.safetensors" })), "not a path inside"),
        fill("a shard anywhere", map(json!({ NAME: "/etc/passwd" })), "not a path inside"),
        fill("a shard that is not there", map(json!({ NAME: "b.safetensors" })), "cannot open"),
        fill("a shard without its tensor", map(json!({ "x": "a.safetensors" })), "does not have it"),
        fill("an index of nothing", map(json!({})), "0 tensors in all"),
        fill("an index that is a list", map(json!([1])), "index"),
        fill("an index of brackets", index("[".repeat(100_000)), "index"),
    ]
}

fn pickles() -> Vec<Case> {
    let bin = "pytorch_model.bin";
    let call = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.";
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    let deep =
        [b"\x80\x02", "(".repeat(1_000_000).as_bytes(), "t".repeat(1_000_000).as_bytes(), b"."].concat();
    let mut cut = torch(b"\x80\x02}.");
    cut.truncate(cut.len() - 20);
    let mut packed = torch(b"\x80\x02}.");
    let method = packed.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap() + 10;
    packed[method] = 8;
    vec![
        fill("a pickle that calls", weights(bin, torch(call)), "\"os.system\""),
        fill("an old pickle that calls", weights(bin, [&magic[..], call].concat()), "\"os.system\""),
        fill("a pickle of tuples in tuples", weights(bin, torch(&deep)), "more than"),
        fill("a pickle with a giant text", weights(bin, torch(b"\x80\x02X\xff\xff\xff\xffa.")), "bytes"),
        fill("a pickle without an end", weights(bin, torch(b"\x80\x02}")), "an operation at byte 3"),
        fill("a pickle of nothing", weights(bin, torch(b"\x80\x02}.")), "0 tensors in all"),
        fill("an archive cut short", weights(bin, cut), "zip"),
        fill("an archive that is compressed", weights(bin, packed), "compressed"),
        fill("a web page for a pickle", weights(bin, "<!DOCTYPE html>"), "no file of weights"),
    ]
}

fn ggufs() -> Vec<Case> {
    let case = |name, file: Vec<u8>, words| Case {
        name,
        model: "hf/llama",
        verb: Verb::Generate,
        file: "m.gguf",
        change: write("m.gguf", file),
        says: Says::Line(words),
    };
    let text = |text: &[u8]| [&(text.len() as u64).to_le_bytes()[..], text].concat();
    let list = |kind: u32, count: u64| {
        [&9_u32.to_le_bytes()[..], &kind.to_le_bytes(), &count.to_le_bytes()].concat()
    };
    let nested = [text(b"a"), 9_u32.to_le_bytes().to_vec(), list(9, 1)[4..].repeat(100_000)].concat();
    let sizes = [2_u32.to_le_bytes().to_vec(), (1_u64 << 40).to_le_bytes().repeat(2), vec![0; 12]].concat();
    vec![
        case("a GGUF file of four bytes", b"GGUF".to_vec(), "m.gguf"),
        case("a GGUF file of another version", gguf(9, 0, 0, &[]), "version"),
        case("exabytes of tensors", gguf(3, 1 << 60, 0, &[]), "m.gguf"),
        case("exabytes of entries", gguf(3, 0, 1 << 60, &[]), "m.gguf"),
        case("a giant key", gguf(3, 0, 1, &(1_u64 << 50).to_le_bytes()), "m.gguf"),
        case("a giant list", gguf(3, 0, 1, &[text(b"a"), list(4, 1 << 60)].concat()), "m.gguf"),
        case("lists in lists", gguf(3, 0, 1, &nested), "too deep"),
        case("a giant tensor", gguf(3, 1, 0, &[text(b"a"), sizes, vec![0; 64]].concat()), "m.gguf"),
        case("a GGUF file of nothing", gguf(3, 0, 0, &[]), "is not known"),
    ]
}

fn configs() -> Vec<Case> {
    let file = "config.json";
    let endless = bytes(file, |text| {
        *text = String::from_utf8(text.clone()).unwrap().replace("1e-12", "1e400").into_bytes();
    });
    let many = change_json(file, |config| (0..50_000).for_each(|n| config[format!("key{n}")] = json!(1)));
    let rope = |value: Value| config("rope_parameters", value);
    let llama = ("hf/llama-linear", Verb::Generate);
    let (gpt2, generation) = (("hf/gpt2", Verb::Generate), "generation_config.json");
    vec![
        fill("an empty configuration", write(file, ""), "EOF"),
        fill("a configuration that is a list", write(file, "[]"), "not a JSON object"),
        fill("a configuration of brackets", write(file, "[".repeat(100_000)), "recursion limit"),
        fill("a configuration that is not UTF-8", write(file, b"{\"\xff\":1}"), "UTF-8"),
        fill("a giant configuration", write(file, vec![b' '; 3 << 20]), "bytes"),
        other("half a file for generating", gpt2, write(generation, "{\"max_length\""), Says::Line("EOF")),
        other(
            "a file for generating of brackets",
            gpt2,
            write(generation, "[".repeat(100_000)),
            Says::Line(generation),
        ),
        other(
            "an unknown way to generate",
            gpt2,
            write(generation, "{\"surprise\":1}"),
            Says::Line("surprise"),
        ),
        other(
            "fewer beams than none",
            gpt2,
            write(generation, "{\"num_beams\":-1}"),
            Says::Line("num_beams"),
        ),
        other("a billion beams", gpt2, write(generation, "{\"num_beams\":1000000000}"), Says::Line("beams")),
        fill("an unknown architecture", config("model_type", json!("brt")), "the nearest known one"),
        fill(
            "an architecture with an endless name",
            config("model_type", json!("x".repeat(1 << 20))),
            "not known",
        ),
        fill("an architecture that is a number", config("model_type", json!(3)), "should be text"),
        fill("an unknown head", config("architectures", json!(["BertForDancing"])), "BertForDancing"),
        fill("a key that nothing reads", config("surprise", json!(1)), "surprise not understood"),
        fill("keys that nothing reads", many, "not understood"),
        fill("a key for the terminal", config("\u{1b}[31m\n", json!(1)), "\\u{1b}[31m\\n not understood"),
        fill("an unknown activation", config("hidden_act", json!("cosine")), "hidden_act"),
        fill("an epsilon that is text", config("layer_norm_eps", json!("small")), "should be a number"),
        fill("an epsilon beyond numbers", endless, "out of range"),
        other(
            "an epsilon below nought",
            ("tasks/fill", Verb::Fill),
            config("layer_norm_eps", json!(-1)),
            Says::List("square root"),
        ),
        other(
            "a rope that is not scaled",
            llama,
            rope(json!({"rope_type": "linear", "factor": 0})),
            Says::Line("factor"),
        ),
        other(
            "a rope without its factor",
            llama,
            rope(json!({"rope_type": "linear"})),
            Says::Line("factor is missing"),
        ),
        other("an unknown rope", llama, rope(json!({"rope_type": "magic"})), Says::Line("magic")),
        other(
            "a rope without a base",
            llama,
            rope(json!({"rope_type": "linear", "factor": 2, "rope_theta": -1})),
            Says::Line("base"),
        ),
    ]
}

fn sizes() -> Vec<Case> {
    let layers = |value: Value| config("num_hidden_layers", value);
    let classes = |change| {
        other("labels without a tensor", ("tasks/classes", Verb::Classify), change, Says::List("1000"))
    };
    let labels: serde_json::Map<String, Value> = (0..1000).map(|n| (n.to_string(), json!("x"))).collect();
    vec![
        fill("a billion layers", layers(json!(1_000_000_000)), "1000000000 layers"),
        fill("2^60 layers", layers(json!(1_u64 << 60)), "layers"),
        fill("2^64 layers", layers(json!(18_446_744_073_709_551_616.0)), "a whole number"),
        fill("two thousand layers", layers(json!(2000)), "2000 layers"),
        fill("no layers", layers(json!(0)), "is 0"),
        fill("minus one layer", layers(json!(-1)), "a whole number"),
        fill("two and a half layers", layers(json!(2.5)), "a whole number"),
        fill("layers in words", layers(json!("two")), "a whole number"),
        fill("no heads", config("num_attention_heads", json!(0)), "is 0"),
        fill("heads that do not divide", config("num_attention_heads", json!(3)), "do not divide"),
        fill("no width", config("hidden_size", json!(0)), "width 0"),
        fill("a billion words", config("vocab_size", json!(1_000_000_000_000_u64)), "cannot be meant"),
        fill(
            "a billion positions",
            config("max_position_embeddings", json!(1_000_000_000_000_u64)),
            "cannot be meant",
        ),
        fill(
            "more positions than the table has",
            config("max_position_embeddings", json!(65)),
            "gives no [65, 16]",
        ),
        classes(config("id2label", Value::Object(labels))),
        other(
            "a billion labels",
            ("tasks/classes", Verb::Classify),
            both(config("id2label", Value::Null), config("num_labels", json!(1_000_000_000))),
            Says::Line("cannot be meant"),
        ),
        other(
            "an endless memory",
            ("hf/transfo-xl", Verb::Forward),
            config("mem_len", json!(1 << 30)),
            Says::Line("mem_len is 1073741824"),
        ),
        other(
            "ten thousand turns through one layer",
            ("hf/albert", Verb::Forward),
            layers(json!(10_000)),
            Says::Line("cannot be meant"),
        ),
        other(
            "an endless window",
            ("hf/mistral", Verb::Generate),
            config("sliding_window", json!(1_u64 << 50)),
            Says::Line("cannot be meant"),
        ),
    ]
}

fn tokenizers() -> Vec<Case> {
    let file = "tokenizer.json";
    let split = |pattern: &'static str| {
        tokenizer(move |json| {
            let pattern = json!({"Regex": pattern});
            json["pre_tokenizer"] =
                json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
        })
    };
    let normalizers = |one: Value, times: usize| {
        tokenizer(move |json| {
            json["normalizer"] = json!({"type": "Sequence", "normalizers": vec![one.clone(); times]});
        })
    };
    let grow = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"});
    let prepend = json!({"type": "Prepend", "prepend": "a".repeat(10_000)});
    let again = tokenizer(|json| {
        let one = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
        json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": vec![one; 70]});
    });
    let word = |id: Value| tokenizer(move |json| json["model"]["vocab"]["zebra"] = id.clone());
    let template = |pieces: Value| {
        tokenizer(move |json| {
            json["post_processor"] =
                json!({"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": {}});
        })
    };
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let token = |id: u64| {
        tokenizer(move |json| {
            json["post_processor"] =
                json!({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", id]});
        })
    };
    let settings = |key: &'static str, value: Value| {
        change_json("tokenizer_config.json", move |json| json[key] = value.clone())
    };
    vec![
        fill("no tokenizer", remove(file), "no tokenizer in"),
        fill("an empty tokenizer", write(file, ""), "EOF"),
        fill("half a tokenizer", bytes(file, |text| text.truncate(text.len() / 2)), "EOF"),
        fill(
            "a tokenizer of brackets",
            write(file, format!("{{\"model\":{}", "[".repeat(100_000))),
            "tokenizer.json",
        ),
        fill(
            "an unknown kind of tokenizer",
            tokenizer(|json| json["model"]["type"] = json!("Magic")),
            "tokenizer.json",
        ),
        fill("a word without a row", word(json!(79)), "has 80 tokens, and the model a table of 79"),
        fill("a word far away", word(json!(4_000_000_000_u64)), "and the model a table of 79"),
        fill("a word of a negative number", word(json!(-3)), "integer `-3`"),
        fill("a word of a fraction", word(json!(3.5)), "floating point `3.5`"),
        fill("a special token without a row", token(4_000_000), "id 4000000"),
        fill("a pattern that does not parse", split("((("), "tokenizer.json"),
        fill("a pattern that explodes", split("(?:\\p{L}{1000}){1000}"), "tokenizer.json"),
        other(
            "a pattern that goes back and back",
            ("tasks/fill", Verb::FillLong),
            split("(?:a|aa)+(?<!z)c|\\w"),
            Says::Line("gave up on this text"),
        ),
        fill("replacements that grow without end", normalizers(grow, 12), "times as long"),
        fill("bytes of bytes of bytes", again, "times as long"),
        fill("a text before every text", normalizers(prepend, 100), "bytes longer"),
        fill("a template that repeats the text", template(json!(vec![text.clone(); 10_000])), "10000 pieces"),
        fill(
            "a template of an unknown token",
            template(json!([{"SpecialToken": {"id": "[X]", "type_id": 0}}, text])),
            "no special token",
        ),
        fill("a configuration of the tokenizer cut short", write("tokenizer_config.json", "{\"a\""), "EOF"),
        fill(
            "a configuration of the tokenizer of brackets",
            write("tokenizer_config.json", "[".repeat(100_000)),
            "tokenizer_config.json",
        ),
        fill("no room for a text", settings("model_max_length", json!(0)), "reads 0 at most"),
        fill("a mask without a row", settings("mask_token", json!("[NOPE]")), "a table of 79"),
    ]
}

fn vocabularies() -> Vec<Case> {
    let giant: &[u8] = &[10, 255, 255, 255, 255, 127];
    vec![
        fill("an empty vocabulary", vocabulary(&[("vocab.txt", b"")]), "unk_token"),
        fill("a vocabulary without [UNK]", vocabulary(&[("vocab.txt", b"a\nb\n")]), "unk_token"),
        fill("a vocabulary that is not UTF-8", vocabulary(&[("vocab.txt", b"[UNK]\n\xff\n")]), "utf-8"),
        fill(
            "a vocabulary that is a list",
            vocabulary(&[("vocab.json", b"[1]"), ("merges.txt", b"")]),
            "vocab.json",
        ),
        fill(
            "ids that are texts",
            vocabulary(&[("vocab.json", b"{\"a\":\"b\"}"), ("merges.txt", b"")]),
            "has the id",
        ),
        fill(
            "a merge of three",
            vocabulary(&[("vocab.json", b"{\"a\":0}"), ("merges.txt", b"a b c\n")]),
            "line 1",
        ),
        fill(
            "a merge of strangers",
            vocabulary(&[("vocab.json", b"{\"a\":0}"), ("merges.txt", b"x y\n")]),
            "vocabulary",
        ),
        fill("an empty SentencePiece model", vocabulary(&[("spm.model", b"")]), "no pieces"),
        fill(
            "a web page for a SentencePiece model",
            vocabulary(&[("spm.model", b"<!DOCTYPE html>")]),
            "spm.model",
        ),
        fill("a piece of exabytes", both(vocabulary(&[]), write("spm.model", giant)), "announced"),
    ]
}
