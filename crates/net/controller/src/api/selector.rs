//! Which objects of a kind a request means: by labels and fields.

use std::net::IpAddr;

use nlog_data::Value;
use nlog_data::quotation::{cut, quote_text};
use objects::{Kind, Object};
use openflow_rs::nearest;
use serde_json::{Map, Value as Json};
use tonic::Status;

/// The first part of the path of what the rules say of an object.
pub(super) const STATE: &str = "state";
/// The members that every object has.
const COMMON: [&str; 3] = ["id", "labels", STATE];
/// The name for any field that has addresses.
const ANY: &str = "*";
/// The most terms of a selector, each of which is compared with each object.
const TERMS_MAX: usize = 64;

/// What objects must have.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Term>,
    fields: Vec<Term>,
    /// Addresses, whichever fields they are in.
    addresses: Vec<IpAddr>,
}

/// A condition on a label or a field.
#[derive(Debug)]
struct Term {
    name: String,
    is: Is,
}

#[derive(Debug)]
enum Is {
    There,
    Equal(String),
    Unequal(String),
}

impl Term {
    /// `NAME`, `NAME=VALUE` or `NAME!=VALUE`.
    fn of(text: &str) -> Self {
        match text.split_once('=') {
            None => Term { name: text.to_owned(), is: Is::There },
            Some((name, value)) => match name.strip_suffix('!') {
                Some(name) => Term { name: name.to_owned(), is: Is::Unequal(value.to_owned()) },
                None => Term { name: name.to_owned(), is: Is::Equal(value.to_owned()) },
            },
        }
    }

    /// Whether values are as they must be. Of several, one is enough.
    fn holds<'t>(&self, mut values: impl Iterator<Item = std::borrow::Cow<'t, str>>) -> bool {
        match &self.is {
            Is::There => values.next().is_some(),
            Is::Equal(wanted) => values.any(|value| value == wanted.as_str()),
            Is::Unequal(unwanted) => values.all(|value| value != unwanted.as_str()),
        }
    }
}

impl Selector {
    /// Reads the conditions on objects of a kind.
    pub(crate) fn read(kind: &Kind, labels: &[String], fields: &[String]) -> Result<Self, Status> {
        let (anywhere, fields): (Vec<_>, Vec<_>) =
            terms(fields)?.into_iter().partition(|term| term.name == ANY);
        let addresses = anywhere.iter().map(address).collect::<Result<Vec<_>, Status>>()?;
        let selector = Selector { fields, addresses, ..Selector::of_labels(labels)? };
        for Term { name, .. } in &selector.fields {
            let first = name.split('.').next().unwrap_or_default();
            let own = kind.declared().fields.iter().map(|field| field.name.as_str());
            let names: Vec<&str> = COMMON.into_iter().chain(own).collect();
            if !names.contains(&first) {
                let hint = match nearest(first, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", names.join(", ")),
                };
                let field = quote_text(&cut(first));
                return Err(Status::invalid_argument(format!(
                    "a {} has no field {field}; {hint}",
                    kind.name()
                )));
            }
        }
        Ok(selector)
    }

    /// Reads conditions on labels, which any kind has.
    pub(crate) fn of_labels(labels: &[String]) -> Result<Self, Status> {
        let selector = Selector { labels: terms(labels)?, ..Selector::default() };
        if selector.labels.iter().any(|term| term.name.is_empty()) {
            return Err(Status::invalid_argument("a label has no key; write KEY=VALUE, KEY!=VALUE or KEY"));
        }
        Ok(selector)
    }

    /// Whether it means every object.
    pub(crate) fn is_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.addresses.is_empty()
    }

    /// Whether it means an object with this state.
    pub(crate) fn means(&self, object: &Object, state: impl FnOnce() -> Map<String, Json>) -> bool {
        let label = |term: &Term| {
            let value = object.labels().get(&term.name);
            term.holds(value.into_iter().map(|value| value.as_str().into()))
        };
        let has = |address: &IpAddr| object.values().iter().any(|value| has_address(value, *address));
        if !self.labels.iter().all(label) || !self.addresses.iter().all(has) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        let mut json = serde_json::to_value(object).unwrap_or_default();
        if self.fields.iter().any(|term| term.name.split('.').next() == Some(STATE)) {
            json[STATE] = Json::Object(state());
        }
        self.fields.iter().all(|term| {
            let mut values = Vec::new();
            gather(&json, &term.name, &mut values);
            term.holds(values.into_iter())
        })
    }
}

fn terms(texts: &[String]) -> Result<Vec<Term>, Status> {
    if texts.len() > TERMS_MAX {
        return Err(Status::invalid_argument(format!(
            "the selector has more than {TERMS_MAX} conditions; give fewer, and select among the answers"
        )));
    }
    Ok(texts.iter().map(|text| Term::of(text)).collect())
}

/// The address that an object must have in any field.
fn address(term: &Term) -> Result<IpAddr, Status> {
    let address = match &term.is {
        Is::Equal(text) => text.parse().ok(),
        Is::There | Is::Unequal(_) => None,
    };
    address.ok_or_else(|| {
        let wanted = "an IP address in any field is asked for as `*=10.0.0.1` or `*=fd00::1`";
        Status::invalid_argument(match &term.is {
            Is::Equal(text) => format!("{} is not an IP address; {wanted}", quote_text(&cut(text))),
            Is::There | Is::Unequal(_) => wanted.to_owned(),
        })
    })
}

/// Whether a value is this address, or has it in itself. An address with the length of its network is one.
fn has_address(value: &Value, address: IpAddr) -> bool {
    match value {
        Value::Ip(ip) => *ip == address,
        Value::InterfaceAddress(interface) => interface.ip() == address,
        Value::Set(values) | Value::List(values) | Value::Record(values) => {
            values.iter().any(|value| has_address(value, address))
        }
        _ => false,
    }
}

/// The values at a path, as texts. Of a list, those of its elements.
fn gather<'j>(json: &'j Json, path: &str, values: &mut Vec<std::borrow::Cow<'j, str>>) {
    match json {
        Json::Array(elements) => elements.iter().for_each(|element| gather(element, path, values)),
        Json::Object(members) if !path.is_empty() => {
            // A key of a mapping may have dots.
            if let Some(value) = members.get(path) {
                gather(value, "", values);
            } else if let Some((first, rest)) = path.split_once('.')
                && let Some(value) = members.get(first)
            {
                gather(value, rest, values);
            }
        }
        Json::Null => {}
        Json::String(text) if path.is_empty() => values.push(text.as_str().into()),
        value if path.is_empty() => values.push(value.to_string().into()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use objects::{Batch, Cancel};
    use weft_core::rules::Rules;

    use super::*;

    #[test]
    fn an_address_is_found_in_any_field_that_is_an_address() {
        let rules = Rules::built_in().unwrap();
        let mut batch = Batch::new(rules.kinds(), Cancel::default());
        let port = "{kind: router_port, id: p, router: r, switch: s, mac: '02:00:00:00:00:01', \
                    networks: [10.0.0.1/24, 'fd00::1/64'], labels: {a: 10.0.0.9}}";
        let node = "{kind: transport_node, id: '10.0.0.9', ip: 172.16.0.1}";
        batch.add_document("p.yaml", port);
        batch.add_document("n.yaml", node);
        for (entry, address, wanted) in [
            (0, "10.0.0.1", true),
            (0, "fd00:0::1", true),
            (0, "10.0.0.9", false),
            (1, "172.16.0.1", true),
            (1, "10.0.0.9", false),
        ] {
            let object = batch.entries()[entry].object.clone();
            let selector = Selector::read(object.kind(), &[], &[format!("*={address}")]).unwrap();
            assert!(!selector.is_all());
            assert_eq!(selector.means(&object, Map::new), wanted, "{address}");
        }
    }

    #[test]
    fn labels_and_fields_select() {
        let rules = Rules::built_in().unwrap();
        let mut batch = Batch::new(rules.kinds(), Cancel::default());
        let text = "{kind: switch_port, id: p, switch: blue, labels: {app: web, tier: a}, enabled: true, \
                    addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1, 10.0.0.2]}]}";
        batch.add_document("p.yaml", text);
        let object = batch.entries()[0].object.clone();
        let kind = rules.kinds().get("switch_port").unwrap();
        let state = || serde_json::from_str(r#"{"host": "hv1", "mtu": 1442}"#).unwrap();
        for (label, field, wanted) in [
            ("", "", true),
            ("app=web", "", true),
            ("app", "", true),
            ("app=db", "", false),
            ("app!=db", "", true),
            ("zone!=x", "", true),
            ("zone", "", false),
            ("", "switch=blue", true),
            ("", "switch!=blue", false),
            ("", "enabled=true", true),
            ("", "addresses.ips=10.0.0.2", true),
            ("", "addresses.ips=10.0.0.3", false),
            ("", "addresses.mac=02:00:00:00:00:01", true),
            ("", "addresses.ips!=10.0.0.2", false),
            ("", "state.host=hv1", true),
            ("", "state.mtu=1442", true),
            ("", "state.nothing", false),
            ("", "labels.tier=a", true),
            ("", "parent", false),
            ("", "*=10.0.0.2", true),
            ("", "*=10.0.0.3", false),
            ("tier=a", "switch=red", false),
        ] {
            let terms = |text: &str| {
                Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().collect::<Vec<_>>()
            };
            let selector = Selector::read(kind, &terms(label), &terms(field)).unwrap();
            assert_eq!(selector.means(&object, state), wanted, "{label} {field}");
        }
        let error = Selector::read(kind, &[], &["swich=blue".to_owned()]).unwrap_err();
        assert!(error.message().contains("did you mean `switch`?"), "{error}");
        assert!(Selector::read(kind, &["=x".to_owned()], &[]).is_err());
        for (field, why) in [("*=blue", "\"blue\" is not an IP address"), ("*", "`*=10.0.0.1`")] {
            let error = Selector::read(kind, &[], &[field.to_owned()]).unwrap_err();
            assert!(error.message().contains(why), "{error}");
        }
        assert!(Selector::read(kind, &vec!["a".to_owned(); 65], &[]).is_err());
    }
}
