//! The grammar for editors, `editors/nlog.tmLanguage.json`: well formed, and with the keywords of the language.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use nlog::syntax::SyntaxKind;
use regex::Regex;
use serde_json::Value;

fn grammar() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../editors/nlog.tmLanguage.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Each object in the value.
fn objects(value: &Value) -> Vec<&serde_json::Map<String, Value>> {
    match value {
        Value::Object(object) => {
            let inner = object.values().flat_map(objects);
            std::iter::once(object).chain(inner).collect()
        }
        Value::Array(values) => values.iter().flat_map(objects).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn expressions_compile_and_names_are_found() {
    let grammar = grammar();
    let mut compiled = 0;
    for object in objects(&grammar) {
        for key in ["match", "begin", "end"] {
            if let Some(Value::String(expression)) = object.get(key) {
                let regex = Regex::new(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
                compiled += 1;
                for captures in ["captures", "beginCaptures"] {
                    let groups = object.get(captures).and_then(Value::as_object);
                    for group in groups.into_iter().flat_map(|groups| groups.keys()).filter(|_| key != "end")
                    {
                        assert!(
                            group.parse::<usize>().unwrap() < regex.captures_len(),
                            "{expression}: {group}"
                        );
                    }
                }
            }
        }
        assert_eq!(object.contains_key("begin"), object.contains_key("end"), "{object:?}");
        if let Some(Value::String(name)) = object.get("include") {
            let name = name.strip_prefix('#').unwrap();
            assert!(grammar["repository"].get(name).is_some(), "{name}");
        }
    }
    assert!(compiled > 30);
}

#[test]
fn the_words_are_the_language_s() {
    // The words of a group `(a|b)` that is highlighted as a keyword.
    let group = Regex::new(r"^\(([a-z_|]+)\)$").unwrap();
    let groups_of = Regex::new(r"\([^()?]*\)").unwrap();
    let mut shown = BTreeSet::new();
    for object in objects(&grammar()) {
        let expression = object.get("match").or(object.get("begin")).and_then(Value::as_str);
        let captures = object.get("captures").or(object.get("beginCaptures")).and_then(Value::as_object);
        let (Some(expression), Some(captures)) = (expression, captures) else { continue };
        let groups: Vec<&str> = groups_of.find_iter(expression).map(|found| found.as_str()).collect();
        for (number, scope) in captures {
            let scope = scope["name"].as_str().unwrap();
            let words = groups
                .get(number.parse::<usize>().unwrap().wrapping_sub(1))
                .and_then(|text| group.captures(text));
            if let Some(words) = words
                && (scope.starts_with("keyword.") || scope.starts_with("constant.language"))
            {
                shown.extend(words[1].split('|').map(str::to_owned));
            }
        }
    }
    let words = SyntaxKind::RESERVED_WORDS.iter().chain(SyntaxKind::CONTEXTUAL_WORDS);
    let words: BTreeSet<String> = words.map(|(word, _)| (*word).to_owned()).collect();
    assert_eq!(shown, words);
}
