//! The kinds as documentation.

use std::fmt::Write as _;

use nlog_data::{Constrained, FieldPath, Meaning, ObjectField, ObjectKind, Record, Type, Unique, Value};

use crate::Kinds;
use crate::print::{Unnamed, pair, single};
use crate::schema::to_json;
use crate::value::{absent, range};

impl Kinds {
    /// The reference page of all kinds, in Markdown.
    pub fn markdown(&self) -> String {
        let mut page = "# Network objects\n\n\
            The kinds of objects that the rules declare, generated from these declarations. [Files of network \
            objects](documents.md) says how files give objects, with examples.\n\n\
            Each object has a `kind`, an `id`, the fields of its kind, and optional `labels`: texts of up to 255 \
            characters, by key. An id consists of letters, digits and `- _ . : @`, begins with a letter or a digit, and \
            has at most 255 characters. The ids of a kind differ. A field without a value (`null`) has its default.\n\n\
            | kind | declares |\n|---|---|\n"
            .to_owned();
        for kind in self.iter() {
            let _ = writeln!(page, "| [`{0}`](#{0}) | {1} |", kind.name(), cell(&kind.summary()));
        }
        for kind in self.iter().map(|kind| kind.declared()) {
            self.section(&mut page, kind);
        }
        page
    }

    fn section(&self, page: &mut String, kind: &ObjectKind) {
        let _ = write!(page, "\n## {}\n", kind.name);
        if !kind.doc.trim().is_empty() {
            let _ = write!(page, "\n{}\n", kind.doc.trim());
        }
        if kind.fields.is_empty() {
            page.push_str("\nIt has no fields of its own.\n");
        } else {
            page.push_str("\n| field | value | default | meaning |\n|---|---|---|---|\n");
        }
        for field in &kind.fields {
            let default = default(field);
            let (value, meaning) = (cell(&in_words(&field.ty)), cell(&meaning(field)));
            let _ = writeln!(page, "| `{}` | {value} | {default} | {meaning} |", field.name);
        }
        let mut notes: Vec<String> =
            self.shared_ids(kind).into_iter().chain(kind.uniques.iter().map(unique)).collect();
        for field in &kind.fields {
            errors(&field.ty, &field.name, &mut notes);
        }
        if !notes.is_empty() {
            page.push('\n');
        }
        for note in notes {
            let _ = writeln!(page, "- {note}");
        }
    }

    /// A sentence about kinds whose ids differ from those of a kind.
    fn shared_ids(&self, kind: &ObjectKind) -> Option<String> {
        let others = self.iter().map(|other| other.declared());
        let others: Vec<String> = others
            .filter(|other| other.id_space == kind.id_space && other.name != kind.name)
            .map(|other| link(&other.name))
            .collect();
        let space = &kind.id_space;
        (!others.is_empty())
            .then(|| format!("Its `id` is a {space} id: no {} has the same.", joined(&others, "or")))
    }
}

fn link(kind: &str) -> String {
    format!("[`{kind}`](#{kind})")
}

/// A sentence about values that no two objects share.
fn unique(unique: &Unique) -> String {
    let quoted = |path: &FieldPath| format!("`{}`", path.text);
    let (last, scope) = match unique.paths.split_last() {
        Some((last, scope)) => (quoted(last), scope.iter().map(quoted).collect::<Vec<_>>()),
        None => return String::new(),
    };
    if scope.is_empty() {
        format!("No two have the same {last}.")
    } else {
        format!("No two with the same {} have the same {last}.", joined(&scope, "and"))
    }
}

fn default(field: &ObjectField) -> String {
    match &field.default {
        None => "required".to_owned(),
        Some(Value::None) => "none".to_owned(),
        Some(value) => match to_json(&field.ty, value) {
            serde_json::Value::String(text) if !text.is_empty() => cell(&format!("`{text}`")),
            json => cell(&format!("`{}`", flow(&json))),
        },
    }
}

/// JSON as YAML on one line, without quotes where none are needed.
fn flow(json: &serde_json::Value) -> String {
    let is_plain = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    match json {
        serde_json::Value::String(text) if is_plain(text) => text.clone(),
        serde_json::Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(map) => {
            let entry =
                |(key, value): (&String, _)| format!("{}: {}", flow(&key.as_str().into()), flow(value));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The documentation of a field, and its former names.
fn meaning(field: &ObjectField) -> String {
    let formers: Vec<String> = field.formers.iter().map(|former| format!("`{former}`")).collect();
    let mut text = field.doc.trim().to_owned();
    if !formers.is_empty() {
        let one = if single(&field.ty).is_some() { ", which also takes one value alone" } else { "" };
        let separator = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{separator}Formerly {}{one}.", joined(&formers, "or"));
    }
    text
}

/// A type in words.
fn in_words(ty: &Type) -> String {
    match ty {
        Type::Bool => "`true` or `false`".to_owned(),
        Type::Int => "a whole number".to_owned(),
        Type::String => "a text".to_owned(),
        Type::Mac => "a MAC address".to_owned(),
        Type::Ip => "an IP address".to_owned(),
        Type::Net => "a prefix, or an IP address".to_owned(),
        Type::InterfaceAddress => "an IP address with the length of its prefix".to_owned(),
        Type::Match => "an OpenFlow match".to_owned(),
        Type::Actions => "OpenFlow actions".to_owned(),
        Type::PacketFilter => {
            "a mapping of header fields: a [packet filter](language.md#packet-filters)".to_owned()
        }
        Type::Enum(of) => {
            let members: Vec<String> = of.members.iter().map(|member| format!("`{member}`")).collect();
            joined(&members, "or")
        }
        Type::Opt(of) => in_words(of),
        Type::List(of) => format!("a list; each element: {}", in_words(of)),
        Type::Set(of) => format!("a set, written as a list; each element: {}", in_words(of)),
        Type::Record(of) => {
            let fields: Vec<String> = (of.fields.iter())
                .map(|(name, ty)| {
                    let optional = if absent(ty).is_some() { " (optional)" } else { "" };
                    format!("`{name}`{optional}: {}", in_words(ty))
                })
                .collect();
            format!("a mapping of fields ({})", fields.join("; "))
        }
        Type::Constrained(of) => constrained(of, ty),
    }
}

fn constrained(of: &Constrained, ty: &Type) -> String {
    match &of.meaning {
        Meaning::Reference(kinds) => {
            let kinds: Vec<String> = kinds.iter().map(|kind| link(kind)).collect();
            format!("the id of a {}", joined(&kinds, "or a"))
        }
        Meaning::Mapping => match pair(of) {
            Some((key, value)) => {
                let names = pair_names(of);
                let side = |name: usize, ty| match names.get(name) {
                    Some(name) => format!("{} (`{name}`)", in_words(ty)),
                    None => in_words(ty),
                };
                format!("a mapping from {} to {}", side(0, key), side(1, value))
            }
            None => "a mapping".to_owned(),
        },
        Meaning::Choice => match ty.alternatives() {
            Some(alternatives) => choice(alternatives),
            None => "a mapping".to_owned(),
        },
        Meaning::Value => match range(ty) {
            Some((least, greatest)) => format!("a number from {least} to {greatest}"),
            None => in_words(&of.base),
        },
    }
}

/// A choice in words: the alternatives that need no name first.
fn choice(alternatives: &Record) -> String {
    let (unnamed, named): (Vec<_>, Vec<_>) =
        alternatives.fields.iter().partition(|(_, ty)| Unnamed::of(ty).is_some());
    let mut ways: Vec<String> = unnamed.iter().map(|(_, ty)| in_words(ty)).collect();
    if !named.is_empty() {
        let named: Vec<String> =
            named.iter().map(|(name, ty)| format!("`{name}`: {}", in_words(ty))).collect();
        ways.push(format!("a mapping with one of ({})", named.join("; ")));
    }
    ways.join("; or ")
}

/// The names of the two fields of a mapping's records.
fn pair_names(mapping: &Constrained) -> Vec<&str> {
    match mapping.base.base() {
        Type::Set(element) => match element.base() {
            Type::Record(of) => of.fields.iter().map(|(name, _)| name.as_str()).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Adds the errors of values that do not satisfy the declared conditions: a line for each path.
fn errors(ty: &Type, path: &str, notes: &mut Vec<String>) {
    match ty {
        Type::Opt(of) | Type::List(of) | Type::Set(of) => errors(of, path, notes),
        Type::Record(of) => {
            of.fields.iter().for_each(|(name, ty)| errors(ty, &format!("{path}.{name}"), notes));
        }
        Type::Constrained(of) => {
            let texts = messages(of);
            if !texts.is_empty() {
                let line = texts.join(", ").split_whitespace().collect::<Vec<_>>().join(" ");
                notes.push(format!("Errors of `{path}`: {line}."));
            }
            errors(ty.base(), path, notes);
        }
        _ => {}
    }
}

/// The messages of the conditions of a type, those of its base first.
fn messages(of: &Constrained) -> Vec<String> {
    let mut texts = match &of.base {
        Type::Constrained(base) => messages(base),
        _ => Vec::new(),
    };
    let conditions = of.constraint().into_iter().flat_map(|constraint| &constraint.conditions);
    texts.extend(conditions.map(|condition| match &condition.message {
        Some(message) => format!("“{message}”"),
        None => format!("“must satisfy `{}`”", condition.text),
    }));
    texts
}

/// Phrases, joined as in a sentence.
fn joined(phrases: &[String], conjunction: &str) -> String {
    match phrases {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// A text as a cell of a table: on one line, and without the character that ends a cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The first sentence of a documentation, without a full stop.
pub(crate) fn first_sentence(doc: &str) -> String {
    let paragraph = doc.trim().split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = line.split_once(". ").map_or(&*line, |(first, _)| first);
    sentence.strip_suffix('.').unwrap_or(sentence).to_owned()
}
