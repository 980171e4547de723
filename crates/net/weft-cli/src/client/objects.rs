//! Objects as `weft get` prints them.

use controller::client::FlowCounts;
use controller::pb::ObjectState;
use serde_json::{Map, Value as Json};
use weft_core::shown;

use crate::exit::Failure;
use crate::flow_counts;

/// The state of an object as comments before it, so that the output can be applied again.
pub(super) fn state_comments(state: &ObjectState) -> String {
    let columns = columns(state).into_iter().map(|(name, value)| match value {
        Json::String(text) => format!("# {name}: {}\n", shown(&text)),
        value => format!("# {name}: {value}\n"),
    });
    let problems = state.problems.iter().map(|problem| format!("# problem: {}\n", shown(problem)));
    columns.chain(problems).collect()
}

/// What the rules say of an object, by the names of the columns.
fn columns(state: &ObjectState) -> Map<String, Json> {
    // A controller of another version may send none.
    serde_json::from_str(&state.columns).unwrap_or_default()
}

/// An object as JSON, with its state as an additional field.
pub(super) fn json_with_state(object: &str, state: &ObjectState, counts: &FlowCounts) -> String {
    let mut members = columns(state);
    if !state.problems.is_empty() {
        members.insert("problems".to_owned(), serde_json::json!(state.problems));
    }
    members.extend(flow_counts::to_members(counts));
    match object.strip_suffix('}') {
        Some(fields) if !members.is_empty() => format!("{fields},\"state\":{}}}\n", Json::Object(members)),
        _ => format!("{object}\n"),
    }
}

/// An object as YAML, the form of files.
pub(super) fn yaml(json: &str) -> Result<String, Failure> {
    let yaml = serde_json::from_str::<serde_norway::Value>(json).map_err(|error| error.to_string());
    let yaml = yaml.and_then(|value| serde_norway::to_string(&value).map_err(|error| error.to_string()));
    yaml.map_err(|error| Failure::outside("the controller returned an object that is not valid JSON", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_of_an_object_can_be_applied_with_what_rules_say_of_it() {
        let object = r#"{"kind":"switch","id":"blue"}"#;
        let plain = ObjectState::default();
        assert_eq!(json_with_state(object, &plain, &FlowCounts::default()), format!("{object}\n"));
        assert_eq!(state_comments(&plain), "");

        let state = ObjectState {
            columns: r#"{"mtu":1442}"#.into(),
            problems: vec!["no \"way\"".into(), "other".into()],
            ..ObjectState::default()
        };
        let json = json_with_state(object, &state, &FlowCounts::default());
        assert_eq!(
            json,
            "{\"kind\":\"switch\",\"id\":\"blue\",\"state\":{\"mtu\":1442,\"problems\":[\"no \\\"way\\\"\",\"other\"]}}\n"
        );
        let text = state_comments(&state) + &yaml(object).unwrap();
        assert_eq!(text, "# mtu: 1442\n# problem: no \"way\"\n# problem: other\nkind: switch\nid: blue\n");
        let read: serde_norway::Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(read, serde_json::from_str::<serde_norway::Value>(object).unwrap());
    }
}
