//! Chat templates against transformers' `apply_chat_template`, and templates that would never end.

use std::fs;

use crate::common::{fixture, scratch};
use glassformer_tokens::{ChatTemplate, Conversation, Ending, Error};
use serde_json::{Map, Value, json};

fn list(value: &Value) -> Option<Vec<Value>> {
    value.as_array().cloned()
}

fn conversation(case: &Value, now: i64) -> Conversation {
    Conversation {
        messages: list(&case["messages"]).unwrap(),
        ending: match case["ending"].as_str().unwrap() {
            "prompt" => Ending::Prompt,
            "continue" => Ending::Continue,
            _ => Ending::Nothing,
        },
        tools: list(&case["tools"]),
        documents: list(&case["documents"]),
        variables: case["variables"].as_object().cloned().unwrap_or_default(),
        now: Some((now, 0)),
        ..Conversation::default()
    }
}

/// Renders every template with every conversation; the differences.
fn differences(cases: &Value) -> Vec<String> {
    let now = cases["now"].as_i64().unwrap();
    let mut found = Vec::new();
    for template in cases["templates"].as_array().unwrap() {
        let name = template["name"].as_str().unwrap();
        if template["template"].as_str().unwrap().contains("|safe +") {
            eprintln!("skipped: {name} relies on marked-up text, which is plain text here");
            continue;
        }
        let chat = match ChatTemplate::new(template["template"].as_str().unwrap()) {
            Ok(chat) => chat,
            Err(error) => {
                found.push(format!("{name}: {error}"));
                continue;
            }
        };
        let tokens = cases["tokens"].as_object().unwrap();
        let chat =
            tokens.iter().fold(chat, |chat, (name, text)| chat.with_token(name, text.as_str().unwrap()));
        let conversations = cases["conversations"].as_array().unwrap();
        for (index, (case, expected)) in
            conversations.iter().zip(template["texts"].as_array().unwrap()).enumerate()
        {
            match (chat.render(&conversation(case, now)), expected.as_str()) {
                (Ok(text), Some(expected)) if text == expected => {}
                (Err(_), None) => {}
                (Ok(text), Some(expected)) => {
                    let at = text.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
                    let near =
                        |text: &str| text.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
                    found.push(format!("{name}, {index}: {:?} instead of {:?}", near(&text), near(expected)));
                }
                (Ok(_), None) => {
                    found.push(format!("{name}, {index}: rendered, and the reference says {expected}"));
                }
                (Err(error), Some(_)) => found.push(format!("{name}, {index}: {error}")),
            }
        }
    }
    found
}

fn read(path: &std::path::Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn conversations_are_rendered_as_the_reference_renders_them() {
    let found = differences(&read(&fixture("chat.json")));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
#[ignore = "needs GLASSFORMER_CHAT_CASES, a file that fixtures/tokens/make_chat.py writes"]
fn published_templates_are_rendered_as_the_reference_renders_them() {
    let path = std::env::var_os("GLASSFORMER_CHAT_CASES").expect("it names a file");
    let found = differences(&read(path.as_ref()));
    assert!(found.is_empty(), "{} differences\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_part_of_the_language_means_what_the_reference_means() {
    let cases = read(&fixture("chat.json"));
    let mut found = Vec::new();
    for case in cases["snippets"].as_array().unwrap() {
        let source = case["template"].as_str().unwrap();
        let given = Conversation {
            variables: cases["names"].as_object().unwrap().clone(),
            now: Some((cases["now"].as_i64().unwrap(), 0)),
            ..Conversation::default()
        };
        let result = ChatTemplate::new(source).and_then(|chat| chat.render(&given));
        match (result, case["text"].as_str()) {
            (Ok(text), Some(expected)) if text == expected => {}
            (Err(_), None) => {}
            (Ok(text), expected) => found.push(format!("{source}\n  {text:?}\n  {expected:?}")),
            (Err(error), expected) => found.push(format!("{source}\n  {error}\n  {expected:?}")),
        }
    }
    assert!(found.is_empty(), "{} differences\n{}", found.len(), found.join("\n"));
}

#[test]
fn templates_that_never_end_or_explode_are_errors() {
    let cases = [
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
            "an endless loop",
        ),
        (
            "{% set ns = namespace(s='x' * 100) %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
            "doubling",
        ),
        (
            "{% set ns = namespace(s='x' * 100) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
            "doubling, +",
        ),
        ("{{ 'x' * 99999999999 }}", "a long text"),
        ("{{ [1] * 99999999999 }}", "a long list"),
        ("{{ 'x' * 999999999999999999999999999999999999 }}", "a number beyond memory"),
        (
            "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
            "a doubling list",
        ),
        (
            "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
            "shared lists",
        ),
        (
            "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}",
            "shared lists, JSON",
        ),
        (
            "{% set a = namespace(l=[1]) %}{% set b = namespace(l=[1]) %}{% for i in range(60) %}{% set a.l = [a.l, a.l] %}{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
            "comparing shared lists",
        ),
        (
            "{% set ns = namespace(l=[1]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
            "a deep list",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "endless recursion"),
        ("{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}", "twofold recursion"),
        ("{{ 'a'|replace('', 'xxxxxxxxxx' * 4000000) }}", "a long replacement"),
        ("{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}", "a replacement of many"),
        ("{{ 'a'.center(999999999999) }}{{ 'a'.ljust(99999999999) }}", "padding"),
        ("{{ '%999999999s' % 'a' }}", "a wide format"),
        ("{{ ('\\n' * 1000000)|indent(60000, true, true) }}", "indentation"),
        ("{{ range(99999)|join('x' * 100000) }}", "joining"),
        ("{{ 9 ** 9 ** 9 ** 9 }}", "a power"),
        (
            "{% set x %}{% for i in range(99999) %}{{ 'y' * 99999 }}{% endfor %}{% endset %}",
            "a captured block",
        ),
        ("{% for i in range(99999) %}{{ range(99999)|list|length }}{% endfor %}", "lists again and again"),
        ("{% for i in range(99999) %}{{ ('a' * 1000000) in ('b' * 1000000) }}{% endfor %}", "searching"),
        ("{{ (range(99999)|list * 50)|unique|list|length }}", "comparing all with all"),
        ("{{ (range(99999)|list * 50)|sort|length }}", "sorting"),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% macro m() %}{% endmacro %}{% endfor %}{% endfor %}",
            "macros",
        ),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% set n = namespace() %}{% endfor %}{% endfor %}",
            "namespaces",
        ),
        ("{{ ['é' * 30000000] }}", "quoting"),
        ("{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "a loop in itself"),
        ("{{ ''.join(['x' * 1000000] * 1000000) }}", "a method"),
        (
            "{% set ns = namespace(d={}) %}{% for i in range(99999) %}{% set ns.d = dict(ns.d, k=ns.d) %}{% endfor %}{{ ns.d|tojson }}",
            "a deep dictionary",
        ),
        (
            "{% set ns = namespace(c=1) %}{% for i in range(99999) %}{% set ns.c = cycler(ns.c) %}{% endfor %}",
            "cyclers within cyclers",
        ),
        (
            "{% set ns = namespace(c=1) %}{% for i in range(99999) %}{% set ns.c = [ns.c]|select %}{% endfor %}",
            "iterators within iterators",
        ),
        (
            "{% set ns = namespace(c=1) %}{% for i in range(99999) %}{% for x in [ns.c] %}{% set ns.c = loop %}{% endfor %}{% endfor %}",
            "loops over loops",
        ),
        (
            "{% set ns = namespace(t=(1, 2)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ ns.t in {} }}",
            "a key whose parts are shared",
        ),
    ];
    all_are_refused(&cases);
}

#[test]
fn texts_that_are_gone_through_again_and_again_are_errors() {
    all_are_refused(&[
        (
            "{% set t = 'a' * 20000000 %}{% for i in range(300) %}{{ t|wordcount }}{% endfor %}",
            "counting words",
        ),
        (
            "{% set t = 'a' * 20000000 %}{% for i in range(300) %}{{ t|length }}{% endfor %}",
            "counting characters",
        ),
        (
            "{% set t = 'a' * 20000000 %}{% for i in range(300) %}{{ t is upper }}{% endfor %}",
            "large letters",
        ),
        ("{% set t = '1' * 20000000 %}{% for i in range(300) %}{{ t|int }}{% endfor %}", "reading a number"),
        (
            "{% set t = 'a' * 20000000 %}{% for i in range(300) %}{{ t|truncate(29999999) is sameas(1) }}{% endfor %}",
            "cutting nothing off",
        ),
        ("{{ ('ab' * 1000000).strip('b' * 1000000 ~ 'a') }}", "stripping many of many"),
        ("{% for i in range(99999) %}{{ range(99999)[::-1] }}{% endfor %}", "slices again and again"),
        ("{{ ('a' * 30000000)[::-1] }}", "a slice of all characters"),
        (
            "{% set t = 'a' * 900000 %}{% for i in range(90000) %}{% set d = {t: 1} %}{% endfor %}",
            "long keys of dictionaries",
        ),
        (
            "{% set t = 'a' * 900000 %}{% for i in range(90000) %}{{ messages[0][t] }}{% endfor %}",
            "long keys that are not there",
        ),
        (
            "{% set t = 'a' * 900000 %}{% for i in range(90000) %}{{ messages[0].get(t) }}{% endfor %}",
            "long keys that are asked for",
        ),
        (
            "{% set t = 'a' * 900000 %}{% for i in range(90000) %}{{ messages|map(attribute=t)|list }}{% endfor %}",
            "long attributes",
        ),
        (
            "{% set ns = namespace(d=[]) %}{% for i in range(60000) %}{% set ns.d = ns.d + [('k' ~ i, i)] %}{% endfor %}{% set ns = namespace(dict(ns.d)) %}{% for i in range(99999) %}{{ ns.zz }}{% endfor %}",
            "a namespace of many names",
        ),
        ("{{ '%.65536f' % 1.0 }}", "more digits than can be written"),
    ]);
}

#[test]
fn what_loops_remember_may_be_a_long_chain() {
    let source = "{% set ns = namespace(p=0) %}{% for i in range(99999) %}{% for x in [1] %}{% if loop.changed(ns.p) %}{% endif %}{% set ns.p = loop %}{% endfor %}{% endfor %}done";
    let told = ChatTemplate::new(source).and_then(|chat| chat.render(&Conversation::new([("user", "hi")])));
    match told {
        Ok(text) => assert_eq!(text, "done"),
        Err(error) => assert!(matches!(error, Error::Exhausted { .. }), "{error}"),
    }
}

#[test]
fn the_least_integer_can_be_divided() {
    let source = "{{ (-170141183460469231731687303715884105727 - 1) is divisibleby(-1) }}";
    let chat = ChatTemplate::new(source).unwrap();
    assert_eq!(chat.render(&Conversation::new([("user", "hi")])).unwrap(), "True");
}

/// Templates and what they do, each of which must end in an error. Without a limit on steps they would run for hours.
fn all_are_refused(cases: &[(&str, &str)]) {
    for (source, what) in cases {
        let result =
            ChatTemplate::new(source).and_then(|chat| chat.render(&Conversation::new([("user", "hi")])));
        assert!(
            matches!(result, Err(Error::Exhausted { .. } | Error::Template { .. })),
            "{what}: {:?}",
            result.map(|text| text.len())
        );
    }
}

#[test]
fn a_template_that_nests_too_deeply_does_not_parse() {
    for source in [
        format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)),
        format!("{{{{ {}1 }}}}", "-".repeat(5000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(5000)),
        "{% if 1 %}".repeat(5000),
        format!("{{{{ {}1{} }}}}", "[".repeat(5000), "]".repeat(5000)),
        format!("{{% set {}a{} = 1 %}}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("{{% for {}a{} in b %}}{{% endfor %}}", "(".repeat(20_000), ")".repeat(20_000)),
    ] {
        assert!(matches!(ChatTemplate::new(&source), Err(Error::Template { .. })));
    }
}

/// It looked for the end of each tag in all that follows, which would take hours here.
#[test]
fn tags_that_never_end_are_looked_through_once() {
    let chat =
        ChatTemplate::new("{{ ('<' * 1000000)|striptags|length }} {{ 'a <b>c</b> < d'|striptags }}").unwrap();
    assert_eq!(chat.render(&given_default()).unwrap(), "1000000 a c < d");
}

/// What a chain begins with lies deepest: dropping a million of them was a stack overflow, which ends the process.
#[test]
fn a_chain_of_a_million_links_does_not_parse() {
    let refused = |source: &str| matches!(ChatTemplate::new(source), Err(Error::Template { .. }));
    for link in [".a", "[0]", "()", "|trim", "+1", "**1", " or 1", " and 1", " if 1", " is sameas(1)"] {
        let chain = link.repeat(1_000_000 / link.len());
        assert!(refused(&format!("{{{{ a{chain} }}}}")), "{link}");
        assert!(refused(&format!("{{{{ (((a{chain}) ] }}}}")), "{link}");
    }
    assert!(refused(&format!("{{% filter trim{} %}}{{% endfilter %}}", "|trim".repeat(200_000))));
    // As long as one may be, and as deep: it can be dropped, and rendering it is refused.
    let chat = ChatTemplate::new(&format!("{{{{ a{} }}}}", "|trim".repeat(4000))).unwrap();
    assert!(matches!(chat.render(&given_default()), Err(Error::Exhausted { .. })));
    // Each tag has its own.
    assert!(ChatTemplate::new(&"{{ a.b|trim }}{% if a.b %}{% elif a.c %}{% endif %}".repeat(5000)).is_ok());
}

#[test]
fn a_refusal_says_what_the_template_says() {
    let chat = ChatTemplate::new("{{ raise_exception('roles must alternate') }}").unwrap();
    let error = chat.render(&Conversation::new([("user", "hi")])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chat template refuses this conversation: roles must alternate; change the conversation"
    );
    let chat = ChatTemplate::new("one\ntwo {{ messages[3].content.x }}").unwrap();
    let error = chat.render(&Conversation::new([("user", "hi")])).unwrap_err();
    assert!(error.to_string().starts_with("chat template, line 2: "), "{error}");
}

#[test]
fn a_folder_may_hold_its_template_in_three_places() {
    let folder = scratch("chat");
    assert!(ChatTemplate::open(&folder).unwrap().is_none());
    let config = json!({
        "bos_token": {"content": "<s>", "lstrip": false}, "eos_token": null,
        "chat_template": [{"name": "default", "template": "D{{ bos_token }}{{ eos_token }}"}, {"name": "tool_use", "template": "T"}],
    });
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
    let chat = ChatTemplate::open(&folder).unwrap().unwrap();
    let mut given = Conversation::new([("user", "hi")]);
    assert_eq!(chat.render(&given).unwrap(), "D<s>");
    given.tools = Some(vec![]);
    assert_eq!(chat.render(&given).unwrap(), "T");
    given.template = Some("default".to_owned());
    assert_eq!(chat.render(&given).unwrap(), "D<s>");
    given.template = Some("other".to_owned());
    assert!(chat.render(&given).unwrap_err().to_string().contains("default, tool_use"));
    fs::write(folder.join("chat_template.jinja"), "file {{ messages[0].content }}\n").unwrap();
    let chat = ChatTemplate::open(&folder).unwrap().unwrap();
    assert_eq!(chat.render(&Conversation::new([("user", "hi")])).unwrap(), "file hi");
    fs::write(folder.join("tokenizer_config.json"), json!({"chat_template": "{{ 1 }}"}).to_string()).unwrap();
    fs::remove_file(folder.join("chat_template.jinja")).unwrap();
    assert_eq!(ChatTemplate::open(&folder).unwrap().unwrap().render(&given_default()).unwrap(), "1");
    fs::remove_dir_all(&folder).unwrap();
}

fn given_default() -> Conversation {
    Conversation { variables: Map::new(), ..Conversation::new([("user", "hi")]) }
}

#[test]
fn messages_that_are_no_objects_are_refused() {
    let chat = ChatTemplate::new("x").unwrap();
    let given = Conversation { messages: vec![json!("hello")], ..Conversation::default() };
    assert!(matches!(chat.render(&given), Err(Error::Conversation { .. })));
    let given = Conversation { ending: Ending::Continue, ..Conversation::default() };
    assert!(matches!(chat.render(&given), Err(Error::Conversation { .. })));
}
