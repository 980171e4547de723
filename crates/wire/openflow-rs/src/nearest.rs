//! "Did you mean": the known name nearest to an unknown one.

/// Longer names are not compared, because the time grows with the square of the length.
const LONGEST: usize = 100;
/// Shorter parts of a name say little: `id` is in many.
const SHORTEST_PART: usize = 3;

/// The known name that a misspelt one most likely means; of equally near names, the least. A name that differs only
/// in case is nearest. Otherwise the distance counts letters inserted, deleted, replaced or swapped with their
/// neighbours; the limit is one for every three letters of the name, at least one and at most three. If none is near, the
/// shortest name of which the given one is a part between underscores: `proto` for `ip_proto`.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&'a str> = known.into_iter().filter(|candidate| *candidate != name).collect();
    if let Some(found) = known.iter().find(|candidate| candidate.eq_ignore_ascii_case(name)) {
        return Some(found);
    }
    if name.len() > LONGEST {
        return None;
    }
    let letters = name.chars().count();
    let limit = (letters / 3).clamp(1, 3);
    let is_near_in_length = |candidate: &&str| candidate.len().abs_diff(name.len()) <= limit * 4;
    let ranked = known.iter().copied().filter(is_near_in_length).filter_map(|candidate| {
        let edits = strsim::osa_distance(name, candidate);
        // Names of one letter are always near each other, which tells nothing.
        let is_slip = edits <= limit && edits < candidate.chars().count().max(letters);
        is_slip.then_some((edits, candidate))
    });
    let is_part =
        |candidate: &&str| letters >= SHORTEST_PART && candidate.split('_').any(|part| part == name);
    let slip = ranked.min().map(|(_, candidate)| candidate);
    slip.or_else(|| {
        known.iter().copied().filter(is_part).min_by_key(|candidate| (candidate.len(), *candidate))
    })
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
        let actions = ["set", "resubmit", "output", "output_field"];
        assert_eq!(nearest("resubmitt", actions), Some("resubmit"));
        assert_eq!(nearest("ouput", actions), Some("output"));
        assert_eq!(nearest("sett", actions), Some("set"));
        assert_eq!(nearest("frobnicate", actions), None);
    }

    #[test]
    fn o7_a_part_of_a_name_is_near() {
        assert_eq!(nearest("proto", ["ip_proto", "nw_proto", "tp_dst"]), Some("ip_proto"));
        assert_eq!(nearest("ip", ["id", "ip_src"]), Some("id"), "a slip is nearer");
        assert_eq!(nearest("of", ["ip_of"]), None);
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
        assert_eq!(nearest("RESUBMIT", ["set", "resubmit"]), Some("resubmit"));
    }
}
