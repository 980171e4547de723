//! "Did you mean": the known name closest to one that is not.

/// Edits that turn `a` into `b`, one letter at a time (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The name that `given` was probably meant to be.
pub(super) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (given.len() / 3).max(1);
    let lower = given.to_ascii_lowercase();
    let ranked = known.map(|name| (distance(&lower, name), name)).filter(|(edits, _)| *edits <= most);
    ranked.min().map(|(_, name)| name)
}

/// What to do about an unknown name: the nearest one, or where to look.
pub(super) fn remedy<'a>(given: &str, known: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    match nearest(given, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => otherwise.to_owned(),
    }
}

#[cfg(test)]
#[test]
fn close_names_are_found_and_far_ones_are_not() {
    let known = || ["set", "resubmit", "output", "output_field"].into_iter();
    assert_eq!(nearest("resubmitt", known()), Some("resubmit"));
    assert_eq!(nearest("ouput", known()), Some("output"));
    assert_eq!(nearest("sett", known()), Some("set"));
    assert_eq!(nearest("RESUBMIT", known()), Some("resubmit"));
    assert_eq!(nearest("frobnicate", known()), None);
    assert_eq!(distance("kitten", "sitting"), 3);
}
