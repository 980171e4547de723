//! Types of records with a form of their own in documents: mappings and choices.

use std::sync::Arc;

use nlog_data::{Constrained, Record, Type};

use super::declarations::quoted;
use super::named_types::show;
use super::types::is_textual;
use crate::diagnostic::{Code, Report, Reports};
use crate::syntax::ast::TypeRef;

/// The container whose values documents write as mappings.
pub(super) const MAP: &str = "map";

/// How to write a mapping.
pub(super) const MAP_HELP: &str =
    "name a record of a key and a value: type pair = record {network: string, bridge: string}; map<pair>";

/// The container of whose values documents give one field.
pub(super) const CHOICE: &str = "choice";

/// How to write a choice.
pub(super) const CHOICE_HELP: &str =
    "name a record of alternatives: type target = record {ip: opt<ip>, name: opt<string>}; choice<target>";

/// Makes the type of such a container of a record, or reports why it cannot: the whole type, what is in the brackets, and
/// the type that this is.
type Form = fn(&TypeRef, &TypeRef, Type, &mut Reports) -> Option<Type>;

/// The container with this name.
pub(super) fn form(name: &str) -> Option<Form> {
    match name {
        MAP => Some(mapping),
        CHOICE => Some(choice),
        _ => None,
    }
}

/// `map<pair>`
fn mapping(ty: &TypeRef, of: &TypeRef, pair: Type, reports: &mut Reports) -> Option<Type> {
    let fits = match &pair {
        Type::Record(record) => match record.fields.as_slice() {
            // Documents write the keys as texts.
            [(_, key), _] => is_textual(key.base()) && key.base() != &Type::PacketFilter,
            _ => false,
        },
        _ => false,
    };
    if fits {
        return Some(Type::Constrained(Arc::new(Constrained::mapping(pair))));
    }
    let message = format!(
        "`{}` is not a record of two fields, the first of which is a string, an address, a prefix or an \
        enumeration",
        show(of)
    );
    let help = "a mapping consists of pairs: type pair = record {network: string, bridge: string}; map<pair>";
    reports.push(Report::new(Code::UnknownType, ty.span, message, help));
    None
}

/// `choice<alternatives>`
fn choice(ty: &TypeRef, of: &TypeRef, alternatives: Type, reports: &mut Reports) -> Option<Type> {
    let (message, help) = match &alternatives {
        Type::Record(record) if record.fields.len() > 1 && record.fields.iter().all(is_optional) => {
            match (lists(record).as_slice(), words(record).as_slice()) {
                ([] | [_], [] | [_]) => {
                    return Some(Type::Constrained(Arc::new(Constrained::choice(alternatives))));
                }
                ([] | [_], several) => (
                    format!(
                        "several alternatives of `{}` are enumerations: {}",
                        show(of),
                        quoted(several.iter().copied())
                    ),
                    "documents give a word without a name, so only one can be an enumeration; make each of the others a \
                    record with the enumeration as its field",
                ),
                (several, _) => (
                    format!(
                        "several alternatives of `{}` are lists or sets: {}",
                        show(of),
                        quoted(several.iter().copied())
                    ),
                    "documents give a list without a name, so only one can be a list; make each of the others a record \
                    with the list as its field",
                ),
            }
        }
        _ => (
            format!("`{}` is not a record of at least two fields, all of them optional", show(of)),
            "a choice consists of alternatives: type target = record {ip: opt<ip>, name: opt<string>}; choice<target>",
        ),
    };
    reports.push(Report::new(Code::UnknownType, ty.span, message, help));
    None
}

fn is_optional((_, ty): &(String, Type)) -> bool {
    matches!(ty.base(), Type::Opt(_))
}

/// The alternatives that documents write as lists.
fn lists(record: &Record) -> Vec<&str> {
    alternatives(record, |of| of.elements().is_some())
}

/// The alternatives that documents write as words.
fn words(record: &Record) -> Vec<&str> {
    alternatives(record, |of| matches!(of.base(), Type::Enum(_)))
}

fn alternatives(record: &Record, is_so: impl Fn(&Type) -> bool) -> Vec<&str> {
    let is_so = |ty: &Type| matches!(ty.base(), Type::Opt(of) if is_so(of));
    record.fields.iter().filter(|(_, ty)| is_so(ty)).map(|(name, _)| name.as_str()).collect()
}
