//! Calls of functions in what a model wrote: as JSON between `<tool_call>` marks (Qwen, Hermes and many others), behind `[TOOL_CALLS]`
//! (Mistral), or as one object that is the whole text (LLaMA 3).

use serde_json::{Value, json};

const BEGIN: &str = "<tool_call>";
const END: &str = "</tool_call>";
const LIST: &str = "[TOOL_CALLS]";

/// What is text, and what is calls. What looks like a call and is none stays text.
pub fn split(text: &str) -> (String, Vec<Value>) {
    if let Some((before, list)) = text.split_once(LIST)
        && let Ok(Value::Array(values)) = serde_json::from_str(list.trim())
        && let Some(calls) = values.iter().map(call).collect::<Option<Vec<_>>>()
    {
        return (before.trim().to_owned(), calls);
    }
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str::<Value>(text.trim())
        && let Some(call) = call(&value)
    {
        return (String::new(), vec![call]);
    }
    let (mut rest, mut content, mut calls) = (text, String::new(), Vec::new());
    while let Some((before, inside)) = rest.split_once(BEGIN) {
        // A model that ends with its last call may leave out the mark behind it.
        let (inside, after) = inside.split_once(END).unwrap_or((inside, ""));
        content += before;
        match serde_json::from_str(inside.trim()).ok().and_then(|value| call(&value)) {
            Some(call) => calls.push(call),
            None => content += &rest[before.len()..rest.len() - after.len()],
        }
        rest = after;
    }
    content += rest;
    if calls.is_empty() { (content, calls) } else { (content.trim().to_owned(), calls) }
}

/// A call as `OpenAI` has it.
fn call(value: &Value) -> Option<Value> {
    let name = value.get("name")?.as_str()?;
    let arguments = value.get("arguments").or_else(|| value.get("parameters"))?;
    let arguments = match arguments {
        Value::String(text) => text.clone(),
        Value::Object(_) => arguments.to_string(),
        _ => return None,
    };
    let id = format!("call_{}", super::ids::fresh_id());
    Some(json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(text: &str) -> (String, Vec<(String, String)>) {
        let (content, calls) = split(text);
        let plain = |call: &Value| {
            let function = &call["function"];
            let word = |key: &str| function[key].as_str().expect("a text").to_owned();
            (word("name"), word("arguments"))
        };
        (content, calls.iter().map(plain).collect())
    }

    fn weather() -> (String, String) {
        ("weather".to_owned(), r#"{"city":"Paris"}"#.to_owned())
    }

    #[test]
    fn calls_are_found_as_templates_write_them() {
        let call = r#"{"name": "weather", "arguments": {"city": "Paris"}}"#;
        let marked = format!("I look.\n<tool_call>\n{call}\n</tool_call>\n<tool_call>{call}");
        assert_eq!(called(&marked), ("I look.".to_owned(), vec![weather(), weather()]));
        assert_eq!(called(&format!("[TOOL_CALLS] [{call}]")), (String::new(), vec![weather()]));
        let whole = r#" {"name": "weather", "parameters": {"city": "Paris"}} "#;
        assert_eq!(called(whole), (String::new(), vec![weather()]));
    }

    #[test]
    fn what_is_no_call_stays_text() {
        for text in ["", "a <tool_call> b", "<tool_call>{}</tool_call> c", "[TOOL_CALLS] []x", "{\"a\": 1}"] {
            assert_eq!(called(text), (text.to_owned(), Vec::new()));
        }
    }
}
