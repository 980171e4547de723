//! The groups of all hosts, as the rows of the rules' tables say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::Canonical;
use openflow_rs::flow::ANY_GROUP;
use openflow_rs::{Action, Actions, GroupEntry, GroupKind, PortNo, Selection};
use switch_tables::rows::{Bucket, Candidate, Group};

use crate::outputs::Changed;

/// A host, and the number of a group.
pub(crate) type Key = (String, u32);

/// The changes of the tables of groups.
pub(crate) struct GroupChanges {
    pub(crate) buckets: Changed<Bucket>,
    pub(crate) groups: Changed<Group>,
    pub(crate) candidates: Changed<Candidate>,
}

/// The groups of all hosts.
#[derive(Default)]
pub(crate) struct Groups(BTreeMap<Key, Rows>);

/// The rows of one group.
#[derive(Default)]
struct Rows {
    /// How the group chooses a bucket; none for a group of type `all`.
    choice: Option<Group>,
    buckets: BTreeMap<u32, Arc<Canonical<Actions>>>,
    candidates: BTreeMap<u32, Candidate>,
}

impl Groups {
    /// Follows changes for the hosts that there are. Returns the groups that may be others now.
    pub(crate) fn change(&mut self, changes: GroupChanges, is_there: impl Fn(&str) -> bool) -> BTreeSet<Key> {
        let GroupChanges { buckets, groups, candidates } = changes;
        let mut touched = BTreeSet::new();
        let mut rows = |host: &str, group: u32, change: &mut dyn FnMut(&mut Rows)| {
            if is_there(host) {
                let key = (host.to_owned(), group);
                change(self.0.entry(key.clone()).or_default());
                touched.insert(key);
            }
        };
        for bucket in &buckets.delete {
            rows(&bucket.host, bucket.group, &mut |rows| drop(rows.buckets.remove(&bucket.id)));
        }
        for group in &groups.delete {
            rows(&group.host, group.id, &mut |rows| rows.choice = None);
        }
        for Candidate { bucket, .. } in &candidates.delete {
            rows(&bucket.host, bucket.group, &mut |rows| drop(rows.candidates.remove(&bucket.id)));
        }
        for bucket in &buckets.insert {
            rows(&bucket.host, bucket.group, &mut |rows| {
                rows.buckets.insert(bucket.id, bucket.actions.clone());
            });
        }
        for group in &groups.insert {
            rows(&group.host, group.id, &mut |rows| rows.choice = Some(group.clone()));
        }
        for candidate in &candidates.insert {
            let Candidate { bucket, .. } = candidate;
            rows(&bucket.host, bucket.group, &mut |rows| {
                rows.candidates.insert(bucket.id, candidate.clone());
            });
        }
        touched
    }

    /// The group, if it has a bucket.
    ///
    /// # Errors
    /// Its rows contradict each other.
    pub(crate) fn entry(&self, key: &Key) -> Result<Option<GroupEntry>, String> {
        let Some(Rows { choice, buckets, candidates }) = self.0.get(key) else { return Ok(None) };
        let fault = |why: &str| Err(format!("{}: group {:#x} {why}", key.0, key.1));
        match choice {
            _ if buckets.is_empty() && candidates.is_empty() => Ok(None),
            None if !candidates.is_empty() => fault("has rows of of_candidate and none of of_group"),
            Some(_) if !buckets.is_empty() => fault("has rows of of_group and of of_bucket"),
            None => {
                let bucket = |(id, actions): (&u32, &Arc<Canonical<Actions>>)| {
                    openflow_rs::Bucket::new(*id, actions.get())
                };
                Ok(Some(GroupEntry::all(key.1, buckets.iter().map(bucket).collect())))
            }
            Some(Group { select_by: fields, .. }) => {
                let kind = if fields.is_some() { GroupKind::Select } else { GroupKind::FastFailover };
                let selection = fields.as_ref().map(|fields| Selection::hash(fields.iter().copied()));
                let buckets = candidates.values().map(candidate_bucket).collect();
                Ok(Some(GroupEntry { selection, ..GroupEntry::new(key.1, kind, buckets) }))
            }
        }
    }

    /// Whether a bucket of the group hands packets to another group.
    pub(crate) fn names_group(&self, key: &Key) -> bool {
        let names = |actions: &Canonical<Actions>| {
            actions.get().0.iter().any(|action| matches!(action, Action::Group(_)))
        };
        self.0.get(key).is_some_and(|rows| {
            let candidates = rows.candidates.values().map(|candidate| &candidate.bucket.actions);
            rows.buckets.values().chain(candidates).any(|actions| names(actions))
        })
    }

    /// Forgets a host.
    pub(crate) fn remove_host(&mut self, host: &str) {
        self.0.retain(|(other, _), _| other != host);
    }

    /// Forgets groups without rows.
    pub(crate) fn tidy(&mut self) {
        self.0.retain(|_, rows| {
            rows.choice.is_some() || !rows.buckets.is_empty() || !rows.candidates.is_empty()
        });
    }
}

fn candidate_bucket(candidate: &Candidate) -> openflow_rs::Bucket {
    let Candidate { bucket, weight, watch_port, watch_group } = candidate;
    openflow_rs::Bucket {
        weight: *weight,
        watch_port: watch_port.map_or(PortNo::ANY, PortNo),
        watch_group: watch_group.unwrap_or(ANY_GROUP),
        ..openflow_rs::Bucket::new(bucket.id, bucket.actions.get())
    }
}

#[cfg(test)]
mod tests {
    use openflow_rs::Field;

    use super::*;

    fn bucket(group: u32, id: u32, port: u16) -> Bucket {
        let actions: Actions = format!("output:{port}").parse().expect("actions");
        Bucket { host: "h1".into(), group, id, actions: Arc::new(Canonical::new(actions)) }
    }

    fn candidate(id: u32, weight: u16, watch_port: Option<u16>) -> Candidate {
        Candidate { bucket: bucket(7, id, 2), weight, watch_port, watch_group: Some(3).filter(|_| id == 9) }
    }

    fn group(select_by: Option<Vec<Field>>) -> Group {
        Group { host: "h1".into(), id: 7, select_by }
    }

    fn nothing() -> GroupChanges {
        fn none<T>() -> Changed<T> {
            Changed { insert: Vec::new(), delete: Vec::new() }
        }
        GroupChanges { buckets: none(), groups: none(), candidates: none() }
    }

    fn text(groups: &Groups) -> Result<Option<String>, String> {
        Ok(groups.entry(&("h1".to_owned(), 7))?.map(|group| group.to_string()))
    }

    #[test]
    fn a_group_follows_its_rows_and_its_type_may_change() {
        let mut groups = Groups::default();
        let mut changes = nothing();
        changes.groups.insert.push(group(Some(vec![Field::TcpDst, Field::IpSrc])));
        changes.candidates.insert.extend([candidate(9, 2, Some(4)), candidate(1, 1, None)]);
        let touched = groups.change(changes, |host| host == "h1");
        assert_eq!(touched, [("h1".to_owned(), 7)].into());
        let select = "group_id=7,type=select,selection_method=hash,fields(ip_src,tcp_dst),bucket=bucket_id:1,actions=output:2,\
                      bucket=bucket_id:9,weight:2,watch_port:4,watch_group:3,actions=output:2";
        assert_eq!(text(&groups), Ok(Some(select.to_owned())));

        let mut changes = nothing();
        changes.groups.delete.push(group(Some(vec![Field::TcpDst, Field::IpSrc])));
        changes.groups.insert.push(group(None));
        changes.candidates.delete.extend([candidate(9, 2, Some(4)), candidate(1, 1, None)]);
        changes.candidates.insert.push(candidate(9, 0, Some(4)));
        groups.change(changes, |_| true);
        let failover = "group_id=7,type=ff,bucket=bucket_id:9,watch_port:4,watch_group:3,actions=output:2";
        assert_eq!(text(&groups), Ok(Some(failover.to_owned())));

        let mut changes = nothing();
        changes.candidates.delete.push(candidate(9, 0, Some(4)));
        groups.change(changes, |_| true);
        assert_eq!(text(&groups), Ok(None), "a group without buckets is none");
    }

    #[test]
    fn rows_that_contradict_each_other_are_refused() {
        for (group_row, bucket_row, candidate_row, fault) in [
            (true, true, false, "has rows of of_group and of of_bucket"),
            (false, false, true, "has rows of of_candidate and none of of_group"),
        ] {
            let (mut groups, mut changes) = (Groups::default(), nothing());
            changes.groups.insert.extend(group_row.then(|| group(None)));
            changes.buckets.insert.extend(bucket_row.then(|| bucket(7, 1, 2)));
            changes.candidates.insert.extend(candidate_row.then(|| candidate(1, 0, Some(4))));
            groups.change(changes, |_| true);
            assert_eq!(text(&groups), Err(format!("h1: group 0x7 {fault}")));
        }
    }
}
