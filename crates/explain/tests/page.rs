//! The page: what is inside stays inside, and its policy is its own.

use glassformer_explain::page::{PAGE, Page, policy};

const HOSTILE: &str = "</script><script>alert(1)</script><!-- \u{2028} & \" \\";

#[test]
fn what_a_model_wrote_never_becomes_markup() {
    let manifest = serde_json::json!({ "schema": 1, "input": { "text": HOSTILE } }).to_string();
    let html = Page { manifest: &manifest, tensors: b"\x00\xff", document: Some(&manifest) }.html();
    let begun = html.find("id=\"trace\">").expect("the run is inside") + "id=\"trace\">".len();
    let length = html[begun..].find("</script>").expect("the element ends");
    let read: serde_json::Value = serde_json::from_str(&html[begun..begun + length]).expect("it is JSON");
    assert_eq!(read["input"]["text"], HOSTILE);
    assert!(!html.contains("<script>alert"));
    // As many elements as the page has, and three more.
    let count = |text: &str| text.matches("</script").count();
    assert_eq!(count(&html), count(PAGE) + 3);
    assert!(html.contains("id=\"tensors\">AP8=</script>"));
}

#[test]
fn the_policy_lets_nothing_in() {
    let policy = policy();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert_eq!(PAGE.matches("<!-- data -->").count(), 1);
}
