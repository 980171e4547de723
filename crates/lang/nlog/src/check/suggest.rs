//! "Did you mean": the known name nearest to an unknown one.

/// Names of the built-in types in other languages.
const SYNONYMS: [(&str, &str); 21] = [
    ("address", "ip"),
    ("bitstring", "string"),
    ("boolean", "bool"),
    ("char", "string"),
    ("cidr", "net"),
    ("i32", "int"),
    ("i64", "int"),
    ("integer", "int"),
    ("ipaddr", "ip"),
    ("ipv4", "ip"),
    ("ipv6", "ip"),
    ("long", "int"),
    ("number", "int"),
    ("option", "opt"),
    ("prefix", "net"),
    ("str", "string"),
    ("subnet", "net"),
    ("symbol", "string"),
    ("text", "string"),
    ("u32", "int"),
    ("u64", "int"),
];

/// The nearest of the names, if it is near enough to be a typing mistake, or the built-in type that has this name
/// in other languages.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&'a str> = names.into_iter().collect();
    let lower = name.to_ascii_lowercase();
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == lower).map(|(_, own)| *own);
    let known = synonym.and_then(|own| names.iter().copied().find(|candidate| *candidate == own));
    known.or_else(|| openflow_rs::nearest(name, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_languages_names_of_types_are_known() {
        assert_eq!(nearest("boolean", ["bool", "int"]), Some("bool"));
        assert_eq!(nearest("Integer", ["bool", "int"]), Some("int"));
        assert_eq!(nearest("boolean", ["log_port"]), None, "where no type is wanted");
        assert_eq!(nearest("log_prot", ["log_port", "log_path"]), Some("log_port"));
    }
}
