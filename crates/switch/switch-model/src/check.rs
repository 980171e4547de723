//! Groups as their rows say together: what no switch takes, or what would give packets to nobody. Rules cannot check what several
//! rows say.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::{Bucket, CHOICE_BYTES_MAX, Choice, Watched};
use crate::kind::{Edits, Kind, RowError};
use crate::{ByHost, Changes, Desired};

/// Refuses groups that no switch takes, or that would give packets to nobody, after changes of these states of hosts.
///
/// # Errors
/// There is one.
pub fn check_groups<'a>(
    hosts: &ByHost,
    desired: impl Fn(&str) -> Option<&'a Desired>,
) -> Result<(), RowError> {
    let none = Desired::default();
    for (host, changes) in hosts {
        let state = desired(host).unwrap_or(&none);
        let has_choices = !state.choices.is_empty() || !state.candidates.is_empty();
        if !has_choices && !changes.touches_choices() {
            continue;
        }
        for group in changes.touched_groups() {
            check_group(group, state, changes)
                .map_err(|why| RowError::Range(why.replacen(": ", &format!(": {host}: "), 1)))?;
        }
    }
    Ok(())
}

impl Changes {
    /// The numbers of all groups that are added, changed or removed.
    pub fn touched_groups(&self) -> BTreeSet<u32> {
        let buckets = self.buckets.keys().chain(self.candidates.keys()).map(|(group, _)| group);
        buckets.chain(self.choices.keys()).copied().collect()
    }
}

/// The buckets of a group after changes, by number.
fn after<'a, K: Kind<Key = (u32, u32), Value = Bucket>>(
    group: u32,
    state: &'a BTreeMap<(u32, u32), Bucket>,
    edits: &'a Edits<K>,
) -> BTreeMap<u32, &'a Bucket> {
    let all = (group, 0)..=(group, u32::MAX);
    let stays = state.range(all.clone()).filter(|(key, _)| !edits.delete.contains(*key));
    stays.chain(edits.add.range(all)).map(|((_, id), bucket)| (*id, bucket)).collect()
}

/// Checks a group after changes. The fault begins with a table.
fn check_group(group: u32, state: &Desired, changes: &Changes) -> Result<(), String> {
    let choice = changes.choices.after(&state.choices, &group);
    let copies = after(group, &state.buckets, &changes.buckets);
    let candidates = after(group, &state.candidates, &changes.candidates);
    if !copies.is_empty() && (choice.is_some() || !candidates.is_empty()) {
        return Err(format!(
            "of_bucket: group {group} also has rows of of_group or of_candidate: a group has its buckets in of_bucket, of \
             which each gets a copy, or in of_candidate, of which one gets the packet; use another number for one of them"
        ));
    }
    let Some(choice) = choice else {
        if candidates.is_empty() {
            return Ok(());
        }
        return Err(format!(
            "of_candidate: group {group} has no row of of_group: add one with its type, or put its buckets into of_bucket, \
             of which each gets a copy"
        ));
    };
    candidates.iter().try_for_each(|(id, bucket)| check_candidate(choice, *id, bucket, group))?;
    let bytes: usize = candidates.values().map(|bucket| bucket.encoded_len()).sum();
    if bytes > CHOICE_BYTES_MAX {
        return Err(format!(
            "of_candidate: the {} buckets of group {group} take {bytes} bytes, but a group that chooses one has room for \
             {CHOICE_BYTES_MAX}: use fewer buckets",
            candidates.len()
        ));
    }
    Ok(())
}

/// Checks weight of a bucket, and whether it watches something.
fn check_candidate(choice: &Choice, id: u32, bucket: &Bucket, group: u32) -> Result<(), String> {
    let fault = |why: &str| Err(format!("of_candidate: bucket {id} of group {group} {why}"));
    match (choice, bucket.weight(), bucket.watched() == Watched::default()) {
        (Choice::Select(_), 0, _) => fault(
            "has weight 0, so no packet would come to it: give it a weight of at least 1, or leave it out",
        ),
        (Choice::FastFailover, 0, true) => fault(
            "watches nothing, but fast_failover takes only buckets that watch a port or a group: give it a watch_port or a \
             watch_group",
        ),
        (Choice::FastFailover, weight @ 1.., _) => {
            fault(&format!("has weight {weight}, but fast_failover knows no weights: write 0"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use openflow_rs::Field;

    use super::*;

    #[test]
    fn a_group_that_chooses_has_room_for_so_many_buckets() {
        let actions = "set_field:172.16.0.1->tun_dst,resubmit(,51)".parse().expect("actions");
        let bucket = Bucket::candidate(0, 1, Watched::default(), &actions).expect("a bucket");
        let room = CHOICE_BYTES_MAX / bucket.encoded_len();
        let some = |count: usize| (0_u32..).zip(std::iter::repeat_n(&bucket, count));
        let mut changes = Changes::default();
        changes.choices.add.insert(7, Choice::Select(vec![Field::IpSrc]));
        changes.candidates.add = some(room).map(|(id, bucket)| ((7, id), bucket.clone())).collect();
        let mut state = Desired::default();
        assert_eq!(check_group(7, &state, &changes), Ok(()));
        state.apply(&changes);
        let one_more =
            Changes { candidates: Edits::add([((7, u32::MAX), bucket.clone())]), ..Changes::default() };
        let error = check_group(7, &state, &one_more).expect_err("one too many");
        assert!(error.contains(&format!("the {} buckets of group 7 take", room + 1)), "{error}");

        // What goes makes room, and a group without its row of of_group is none.
        let instead = Changes { candidates: Edits::delete([(7, 0)]), ..one_more };
        assert_eq!(check_group(7, &state, &instead), Ok(()));
        let typeless = Changes { choices: Edits::delete([7]), ..Changes::default() };
        let error = check_group(7, &state, &typeless).expect_err("a group without a type");
        assert!(error.contains("group 7 has no row of of_group"), "{error}");
        let gone = Changes { candidates: Edits::delete(state.candidates.keys().copied()), ..typeless };
        assert_eq!(check_group(7, &state, &gone), Ok(()));
    }
}
