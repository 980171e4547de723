//! `weft explain-fields`: what a kind of objects is for, and its fields, from its JSON Schema.

use clap::Args;
use nlog_data::quotation::quote_text;
use objects::Kinds;
use openflow_rs::nearest;
use serde_json::{Value as Json, json};
use weft_client::ClientError;

use crate::client::{Address, ask, ask_at, failed};
use crate::completions::PATIENCE;
use crate::contexts::Chooser;
use crate::exit::{Failure, print_as, say};
use crate::schema::built_in;

mod text;

/// The members of an object that are no fields of its kind.
const NO_FIELDS: [&str; 3] = ["kind", "delete", "state"];

/// Arguments of `weft explain-fields`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft explain-fields                    the kinds, each with a sentence\n  \
        weft explain-fields acl                the fields of an acl\n  \
        weft explain-fields acl.from.ports     a field within a field; of a list, its elements\n\n\
        The kinds and fields are those of the controller. Without one, they are those of the built-in\n\
        rules. `weft explain` explains one object of the network.")]
pub(crate) struct ExplainFields {
    /// A kind, or a field of it with dots [default: list the kinds]
    #[arg(value_name = "KIND[.FIELD]")]
    path: Option<String>,
    /// Print JSON: the JSON Schema of the kind or the field
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

/// Where kinds and their schemas are known.
enum Source {
    Controller,
    BuiltIn(Kinds),
}

impl ExplainFields {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let choice = self.address.choice()?;
        let answers = ask_at(&choice, PATIENCE, |_| async { Some(()) }).is_some();
        // Who named a controller wants to know that this is not its answer.
        if !answers && choice.by != Chooser::Usual {
            let address = &choice.address;
            say(format_args!("warning: no controller answers at {address}; this is of the built-in rules"));
        }
        let source = if answers { Source::Controller } else { Source::BuiltIn(built_in()?) };
        let Some(path) = &self.path else {
            let kinds = source.kinds(&self.address)?;
            return print_as(self.json, &text::kinds(&kinds, self.json));
        };
        let mut segments = path.split('.');
        let kind = segments.next().unwrap_or_default();
        let schema = source.schema(&self.address, kind)?;
        let name = schema["title"].as_str().unwrap_or(kind).to_owned();
        let (place, field) = within(&name, &schema, segments)?;
        if self.json {
            return print_as(true, &format!("{:#}\n", field.schema));
        }
        print_as(false, &text::of_field(&place, &field))
    }
}

impl Source {
    /// The kinds: objects with `kind` and `summary`.
    fn kinds(&self, address: &Address) -> Result<Vec<Json>, Failure> {
        Ok(match self {
            Source::Controller => {
                let kinds = address.with(|mut client| async move { client.kinds().await.map_err(failed) })?;
                kinds.as_array().cloned().unwrap_or_default()
            }
            Source::BuiltIn(kinds) => {
                kinds.iter().map(|kind| json!({"kind": kind.name(), "summary": kind.summary()})).collect()
            }
        })
    }

    fn schema(&self, address: &Address, kind: &str) -> Result<Json, Failure> {
        let found = match self {
            Source::Controller => {
                let kind = kind.to_owned();
                let asked = address.with(|mut client| async move { Ok(client.schema(&kind).await) })?;
                match asked {
                    Ok(schema) => Some(schema),
                    Err(ClientError::NotFound(_)) => None,
                    Err(error) => return Err(failed(error)),
                }
            }
            Source::BuiltIn(kinds) => kinds.forgiving(kind).ok().map(|kind| kind.json_schema()),
        };
        let Some(schema) = found else {
            let kinds = self.kinds(address)?;
            let names: Vec<&str> = kinds.iter().filter_map(|kind| kind["kind"].as_str()).collect();
            return Err(unknown(&format!("there is no kind {}", quote_text(kind)), "kinds", kind, &names));
        };
        Ok(schema)
    }
}

/// The paths that can follow what is typed of one, each with what it is for.
pub(crate) fn paths(address: Option<&str>, typed: &str) -> Vec<(String, String)> {
    let Some((above, _)) = typed.rsplit_once('.') else { return Vec::new() };
    let mut segments = above.split('.');
    let kind = segments.next().unwrap_or_default();
    let asked = ask(address, PATIENCE, |mut client| async move { client.schema(kind).await.ok() });
    let built_in = || Some(built_in().ok()?.forgiving(kind).ok()?.json_schema());
    let Some(schema) = asked.or_else(built_in) else { return Vec::new() };
    let Ok((_, field)) = within(kind, &schema, segments) else { return Vec::new() };
    let about = |schema: &Json| schema["description"].as_str().unwrap_or_default().replace('\n', " ");
    let below = fields(elements(field.schema)).into_iter();
    below.map(|(name, field)| (format!("{above}.{name}"), about(field.schema))).collect()
}

/// A field, or a kind as a whole.
struct Field<'a> {
    schema: &'a Json,
    /// Whether an object must have it; none of a kind.
    is_required: Option<bool>,
}

/// The field at a path within a kind, with its place in words.
fn within<'a, 'b>(
    kind: &str,
    schema: &'a Json,
    path: impl Iterator<Item = &'b str>,
) -> Result<(String, Field<'a>), Failure> {
    let mut place = kind.to_owned();
    let mut field = Field { schema, is_required: None };
    for name in path {
        let inner = elements(field.schema);
        let next = fields(inner).into_iter().find(|(known, _)| *known == name);
        field = match (next, inner.get("additionalProperties")) {
            (Some((_, field)), _) => field,
            // Any key of a mapping.
            (None, Some(value)) if value.is_object() => Field { schema: value, is_required: None },
            _ => {
                let names: Vec<&str> = fields(inner).into_iter().map(|(name, _)| name).collect();
                return Err(unknown(
                    &format!("{place} has no field {}", quote_text(name)),
                    "fields",
                    name,
                    &names,
                ));
            }
        };
        place = format!("{place}.{name}");
    }
    Ok((place, field))
}

/// The failure of a name that is not known, with what may be meant.
fn unknown(what: &str, of: &str, name: &str, known: &[&str]) -> Failure {
    let hint = match nearest(name, known.iter().copied()) {
        _ if known.is_empty() => format!("it has no {of}"),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its {of} are {}", known.join(", ")),
    };
    let hint = if of == "kinds" { hint.replacen("its kinds", "the kinds", 1) } else { hint };
    Failure::Rejected(format!("{what}; {hint}"))
}

/// The schema of what is within: of a list, that of its elements; of what can be absent, that of what is there.
fn elements(schema: &Json) -> &Json {
    match (present(schema), present(schema).get("items")) {
        (_, Some(items)) => elements(items),
        (schema, None) => schema,
    }
}

/// A schema without the alternative `null`.
fn present(schema: &Json) -> &Json {
    let alternatives = schema.get("anyOf").and_then(Json::as_array);
    let is_null = |schema: &&Json| schema["type"] == "null";
    match alternatives.map(Vec::as_slice) {
        Some([of, null]) if is_null(&null) => present(of),
        _ => schema,
    }
}

/// The alternatives of a choice that have names, each with its schema: the one property that must be there.
fn alternatives(schema: &Json) -> impl Iterator<Item = (&str, &Json)> {
    schema["oneOf"].as_array().into_iter().flatten().filter_map(|one| {
        let name = one["required"][0].as_str()?;
        Some((name, one["properties"].get(name)?))
    })
}

/// The fields of a mapping, by name. Former names are not among them.
fn fields(schema: &Json) -> Vec<(&str, Field<'_>)> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    // A request of the API has the id in its path, so the schema of a kind does not require it; a file does.
    let is_kind = schema["properties"]["kind"].get("const").is_some();
    let one_of = alternatives(schema).map(|(name, schema)| (name, Field { schema, is_required: None }));
    let mut found: Vec<(&str, Field<'_>)> = one_of.collect();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if !NO_FIELDS.contains(&name.as_str()) && schema["deprecated"] != true {
            let is_required = required.contains(&name.as_str()) || (is_kind && name == "id");
            found.push((name.as_str(), Field { schema, is_required: Some(is_required) }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{text, within};
    use nlog::Sources;
    use objects::Kinds;

    #[test]
    fn a_choice_has_its_alternatives_as_fields() {
        let rules = "type alias = record {name: string, ttl: opt<int>}; type entry = record {name: string, target: choice<target>}; \
            type target = record {ips: opt<list<ip>>, alias: opt<alias>, none: opt<bool>}; \
            type amount = record {number: opt<int>, share: opt<string>}; \
            object zone { entries: map<entry> = {}; amount: opt<choice<amount>>; }";
        let program = nlog::compile(&Sources::from_texts([("zone.nlog", rules)])).program.expect("a program");
        let kinds = Kinds::new(program.objects.clone());
        let schema = kinds.get("zone").expect("a kind").json_schema();
        let shown = |path: &str| {
            let (place, field) = within("zone", &schema, path.split('.')).expect("a field");
            text::of_field(&place, &field)
        };
        assert_eq!(
            shown("entries"),
            "zone.entries <mapping of names to list of IP address, or mapping with alias|none>, default {}\n"
        );
        assert_eq!(
            shown("entries.www"),
            "zone.entries.www <list of IP address, or mapping with alias|none>\n\nFields:\n  ips <list of IP address>\n  \
             alias <mapping>\n  none <true|false>\n"
        );
        assert!(shown("entries.www.alias").contains("\n  ttl <number>, optional\n"));
        assert_eq!(
            shown("amount"),
            "zone.amount <mapping with number|share>, optional\n\nFields:\n  number <number>\n  share <text>\n"
        );
        assert!(within("zone", &schema, ["amount", "nummer"].into_iter()).is_err());
    }
}
