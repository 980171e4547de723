//! Groups that choose one of their buckets: their rows as changes of switches, and what rules must not ask of them.

use std::collections::BTreeMap;

use nlog_data::{Canonical, Committed, Row, TableDelta, TransactionError, Value};
use openflow_rs::{Actions, Field, PortNo};
use ovs_driver::{BUCKET_MAX, Bucket, CHOICE_BYTES_MAX, Changes, Choice, Desired, GROUP_MAX, Pool, Watched};
use switch_tables::{FAST_FAILOVER, SELECT, rows::PORT};

use crate::delta_split::{attributed, misfit, range, split};
use crate::rules::Rules;

/// Adds the changes of these groups to those of each transport node.
pub(crate) fn split_by_node(
    committed: &Committed,
    rules: &Rules,
    pool: &mut Pool,
    changes: &mut BTreeMap<String, Changes>,
) -> Result<(), TransactionError> {
    let empty = TableDelta::default();
    let delta = |table| committed.delta.tables.get(&table).unwrap_or(&empty);
    if let Some(table) = rules.groups {
        split(delta(table), changes, choice, |to| (&mut to.choices_delete, &mut to.choices_add))?;
    }
    if let Some(table) = rules.candidates {
        let delta = delta(table);
        pool.note_changes(delta.delete.len());
        for row in &delta.delete {
            let candidate = Candidate::of(row)?;
            changes.entry(candidate.node).or_default().candidates_delete.insert(candidate.key);
        }
        for (row, rule) in attributed(delta, rules) {
            let candidate = Candidate::of(row)?;
            let mut bucket = candidate.bucket(rule)?;
            bucket.share(pool);
            let changes = changes.entry(candidate.node).or_default();
            changes.candidates_delete.remove(&candidate.key);
            changes.candidates_add.insert(candidate.key, bucket);
        }
    }
    Ok(())
}

/// A number of a row, if it is not beyond the last.
fn number(table: &str, node: &str, what: &str, number: i64, last: u32) -> Result<u32, TransactionError> {
    let fault = || range(format!("{table}: {node}: {what} {number} is out of range; the last is {last}"));
    u32::try_from(number).ok().filter(|number| *number <= last).ok_or_else(fault)
}

/// A row of `of_group`: transport node, group, and how it chooses.
fn choice(row: &Row) -> Result<(String, u32, Choice), TransactionError> {
    let [Value::String(node), Value::Int(group), Value::String(kind), Value::Set(names)] = row.as_slice()
    else {
        return Err(misfit("of_group", row));
    };
    let group = number("of_group", node, "group", *group, GROUP_MAX)?;
    let fault = |why: &str| range(format!("of_group: {node}: group {group} {why}"));
    let mut fields = Vec::new();
    for name in names.iter() {
        let Value::String(name) = name else { return Err(misfit("of_group", row)) };
        let field = Field::from_name(name).filter(|field| *field != Field::TunMetadata0);
        fields.push(
            field
                .ok_or_else(|| fault(&format!("hashes {name}, which is no field that a switch can hash")))?,
        );
    }
    let choice = match (&**kind, fields.is_empty()) {
        (SELECT, false) => Choice::Select(fields),
        (FAST_FAILOVER, true) => Choice::FastFailover,
        (SELECT, true) => {
            return Err(fault("selects by no field: name the fields whose hash chooses a bucket"));
        }
        (FAST_FAILOVER, false) => {
            return Err(fault("is of type fast_failover, which hashes nothing: leave its fields empty"));
        }
        _ => {
            let why = format!("has the type {kind}, which does not exist; it is {SELECT} or {FAST_FAILOVER}");
            return Err(fault(&why));
        }
    };
    Ok((node.to_string(), group, choice))
}

/// A row of `of_candidate`.
struct Candidate<'a> {
    node: String,
    /// Group and bucket.
    key: (u32, u32),
    weight: u16,
    watched: Watched,
    actions: &'a Canonical<Actions>,
}

impl<'a> Candidate<'a> {
    fn of(row: &'a Row) -> Result<Candidate<'a>, TransactionError> {
        let [
            Value::String(node),
            Value::Int(group),
            Value::Int(bucket),
            Value::Int(weight),
            Value::Int(watch_port),
            Value::Int(watch_group),
            Value::Actions(actions),
        ] = row.as_slice()
        else {
            return Err(misfit("of_candidate", row));
        };
        let number = |what, value, last| number("of_candidate", node, what, value, last);
        let key = (number("group", *group, GROUP_MAX)?, number("bucket", *bucket, BUCKET_MAX)?);
        let weight = number("weight", *weight, u16::MAX.into())? as u16;
        let watch_port = PortNo(number("watch_port", *watch_port, PORT.into())? as u16);
        let watch_group = number("watch_group", *watch_group, GROUP_MAX)?;
        let watched = Watched {
            port: Some(watch_port).filter(|port| *port != PortNo(0)),
            group: Some(watch_group).filter(|group| *group != 0),
        };
        Ok(Candidate { node: node.to_string(), key, weight, watched, actions })
    }

    fn bucket(&self, rule: u64) -> Result<Bucket, TransactionError> {
        let bucket = Bucket::candidate(rule, self.weight, self.watched, &self.actions.get());
        bucket.map_err(|error| range(format!("of_candidate: {}: {error}", self.node)))
    }
}

/// Refuses groups that no switch takes, or that would give packets to nobody. Rules cannot check what several rows say.
pub(crate) fn check<'a>(
    changes: &BTreeMap<String, Changes>,
    desired: impl Fn(&str) -> Option<&'a Desired>,
) -> Result<(), TransactionError> {
    let none = Desired::default();
    for (node, changes) in changes {
        let state = desired(node).unwrap_or(&none);
        let has_choices = !state.choices.is_empty() || !state.candidates.is_empty();
        if !has_choices && !changes.touches_choices() {
            continue;
        }
        for group in changes.touched_groups() {
            check_group(group, state, changes)
                .map_err(|why| range(why.replacen(": ", &format!(": {node}: "), 1)))?;
        }
    }
    Ok(())
}

/// The values of a group after changes, by bucket.
fn after<'a>(
    group: u32,
    state: &'a BTreeMap<(u32, u32), Bucket>,
    add: &'a BTreeMap<(u32, u32), Bucket>,
    is_deleted: impl Fn(&(u32, u32)) -> bool,
) -> BTreeMap<u32, &'a Bucket> {
    let all = (group, 0)..=(group, u32::MAX);
    let stays = state.range(all.clone()).filter(|(key, _)| !is_deleted(key));
    stays.chain(add.range(all)).map(|((_, id), bucket)| (*id, bucket)).collect()
}

/// Checks a group after changes. The fault begins with a table.
fn check_group(group: u32, state: &Desired, changes: &Changes) -> Result<(), String> {
    let stays = state.choices.get(&group).filter(|_| !changes.choices_delete.contains(&group));
    let choice = changes.choices_add.get(&group).or(stays);
    let copies =
        after(group, &state.groups, &changes.buckets_add, |key| changes.buckets_delete.contains(key));
    let candidates = after(group, &state.candidates, &changes.candidates_add, |key| {
        changes.candidates_delete.contains(key)
    });
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
    use super::*;

    #[test]
    fn a_group_that_chooses_has_room_for_so_many_buckets() {
        let actions = "set_field:172.16.0.1->tun_dst,resubmit(,51)".parse().expect("actions");
        let bucket = Bucket::candidate(0, 1, Watched::default(), &actions).expect("a bucket");
        let room = CHOICE_BYTES_MAX / bucket.encoded_len();
        let some = |count: usize| (0_u32..).zip(std::iter::repeat_n(&bucket, count));
        let mut changes = Changes::default();
        changes.choices_add.insert(7, Choice::Select(vec![Field::IpSrc]));
        changes.candidates_add = some(room).map(|(id, bucket)| ((7, id), bucket.clone())).collect();
        let mut state = Desired::default();
        assert_eq!(check_group(7, &state, &changes), Ok(()));
        state.apply(&changes);
        let one_more =
            Changes { candidates_add: [((7, u32::MAX), bucket.clone())].into(), ..Changes::default() };
        let error = check_group(7, &state, &one_more).expect_err("one too many");
        assert!(error.contains(&format!("the {} buckets of group 7 take", room + 1)), "{error}");

        // What goes makes room, and a group without its row of of_group is none.
        let instead = Changes { candidates_delete: [(7, 0)].into(), ..one_more };
        assert_eq!(check_group(7, &state, &instead), Ok(()));
        let typeless = Changes { choices_delete: [7].into(), ..Changes::default() };
        let error = check_group(7, &state, &typeless).expect_err("a group without a type");
        assert!(error.contains("group 7 has no row of of_group"), "{error}");
        let gone = Changes { candidates_delete: state.candidates.keys().copied().collect(), ..typeless };
        assert_eq!(check_group(7, &state, &gone), Ok(()));
    }
}
