//! "Did you mean": the known name nearest to an unknown one.

/// What other languages call the built-in types.
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

/// Names longer than this are compared with no other: that takes time by the square of the length.
const LONGEST: usize = 100;

/// The nearest of the names, if it is near enough to be a slip; of several the first.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&'a str> = names.into_iter().collect();
    let lower = name.to_ascii_lowercase();
    let same_case =
        names.iter().find(|candidate| candidate.eq_ignore_ascii_case(name) && **candidate != name);
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == lower).map(|(_, own)| *own);
    let known = synonym.and_then(|own| names.iter().find(|candidate| **candidate == own));
    if let Some(found) = same_case.or(known) {
        return Some(found);
    }
    if name.len() > LONGEST {
        return None;
    }
    let limit = (name.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in names {
        if candidate == name || candidate.len().abs_diff(name.len()) > limit * 4 {
            continue;
        }
        let distance = distance(name, candidate);
        let nearer = best.is_none_or(|(least, text)| (distance, candidate) < (least, text));
        // Names of one letter are near to each other and mean nothing by it.
        let slip = distance <= limit && distance < candidate.chars().count().max(name.chars().count());
        if nearer && slip {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, name)| name)
}

/// How many letters to insert, delete, replace or swap with their neighbours (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let replaced = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found() {
        assert_eq!(nearest("log_prot", ["log_port", "log_path"]), Some("log_port"));
        assert_eq!(nearest("tunel", ["tunnel", "hv"]), Some("tunnel"));
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("hv", ["encap"]), None);
    }

    #[test]
    fn other_languages_names_of_types_are_known() {
        assert_eq!(nearest("boolean", ["bool", "int"]), Some("bool"));
        assert_eq!(nearest("Integer", ["bool", "int"]), Some("int"));
        assert_eq!(nearest("boolean", ["log_port"]), None, "where no type is wanted");
    }

    #[test]
    fn enormous_names_take_no_time() {
        let (a, b) = ("a".repeat(1_000_000), "b".repeat(1_000_000));
        assert_eq!(nearest(&a, [b.as_str()]), None);
    }

    #[test]
    fn a_name_in_another_case_is_near() {
        assert_eq!(nearest("Log_Port", ["log_path", "log_port"]), Some("log_port"));
        assert_eq!(nearest("X", ["x"]), Some("x"));
    }
}
