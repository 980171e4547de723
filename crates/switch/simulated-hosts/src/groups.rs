//! The groups of all hosts, as the rows of the rules' tables say.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::Packed;
use openflow_rs::flow::ANY_GROUP;
use openflow_rs::{Action, Actions, GroupEntry, PortNo};
use switch_model::{BucketRow, CandidateRow, Choice, Choices, Watched};

use crate::outputs::{Changed, Of};

/// A host, and the number of a group.
pub(crate) type Key = (String, u32);

/// The changes of the tables of groups.
pub(crate) struct GroupChanges<'r> {
    pub(crate) buckets: Changed<BucketRow<'r>>,
    pub(crate) groups: Changed<Of<'r, Choices>>,
    pub(crate) candidates: Changed<CandidateRow<'r>>,
}

/// The groups of all hosts.
#[derive(Default)]
pub(crate) struct Groups(BTreeMap<Key, Rows>);

/// The rows of one group.
#[derive(Default)]
struct Rows {
    /// How the group chooses a bucket; none for a group of type `all`.
    choice: Option<Choice>,
    buckets: BTreeMap<u32, Packed<Actions>>,
    candidates: BTreeMap<u32, Candidate>,
}

/// A bucket of a group that chooses one.
struct Candidate {
    weight: u16,
    watched: Watched,
    actions: Packed<Actions>,
}

impl Groups {
    /// Follows changes for the hosts that there are. Returns the groups that may be others now.
    pub(crate) fn change(
        &mut self,
        changes: GroupChanges<'_>,
        is_there: impl Fn(&str) -> bool,
    ) -> BTreeSet<Key> {
        let GroupChanges { buckets, groups, candidates } = changes;
        let mut touched = BTreeSet::new();
        let mut rows = |host: &str, group: u32, change: &mut dyn FnMut(&mut Rows)| {
            if is_there(host) {
                let key = (host.to_owned(), group);
                change(self.0.entry(key.clone()).or_default());
                touched.insert(key);
            }
        };
        for BucketRow { host, group, id, .. } in &buckets.delete {
            rows(host, *group, &mut |rows| drop(rows.buckets.remove(id)));
        }
        for (host, group, _) in &groups.delete {
            rows(host, *group, &mut |rows| rows.choice = None);
        }
        for CandidateRow { bucket, .. } in &candidates.delete {
            rows(bucket.host, bucket.group, &mut |rows| drop(rows.candidates.remove(&bucket.id)));
        }
        for BucketRow { host, group, id, actions } in &buckets.insert {
            rows(host, *group, &mut |rows| drop(rows.buckets.insert(*id, Packed::clone(actions))));
        }
        for (host, group, choice) in &groups.insert {
            rows(host, *group, &mut |rows| rows.choice = Some(choice.clone()));
        }
        for CandidateRow { bucket, weight, watched } in &candidates.insert {
            rows(bucket.host, bucket.group, &mut |rows| {
                let actions = bucket.actions.clone();
                let candidate = Candidate { weight: *weight, watched: *watched, actions };
                rows.candidates.insert(bucket.id, candidate);
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
                let bucket =
                    |(id, actions): (&u32, &Packed<Actions>)| openflow_rs::Bucket::new(*id, actions.get());
                Ok(Some(GroupEntry::all(key.1, buckets.iter().map(bucket).collect())))
            }
            Some(choice) => {
                let buckets = candidates.iter().map(candidate_bucket).collect();
                Ok(Some(GroupEntry {
                    selection: choice.selection(),
                    ..GroupEntry::new(key.1, choice.kind(), buckets)
                }))
            }
        }
    }

    /// Whether a bucket of the group hands packets to another group.
    pub(crate) fn names_group(&self, key: &Key) -> bool {
        let names = |actions: &Packed<Actions>| {
            actions.get().0.iter().any(|action| matches!(action, Action::Group(_)))
        };
        self.0.get(key).is_some_and(|rows| {
            let candidates = rows.candidates.values().map(|candidate| &candidate.actions);
            rows.buckets.values().chain(candidates).any(names)
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

fn candidate_bucket((id, candidate): (&u32, &Candidate)) -> openflow_rs::Bucket {
    let Candidate { weight, watched, actions } = candidate;
    openflow_rs::Bucket {
        weight: *weight,
        watch_port: watched.port.unwrap_or(PortNo::ANY),
        watch_group: watched.group.unwrap_or(ANY_GROUP),
        ..openflow_rs::Bucket::new(*id, actions.get())
    }
}

#[cfg(test)]
mod tests {
    use nlog_data::{Row, TableDelta, Value};

    use super::*;
    use crate::outputs::{read, things};

    fn number(number: u32) -> Value {
        Value::Int(number.into())
    }

    fn host() -> Value {
        Value::from("h1")
    }

    fn actions(port: u16) -> Value {
        let actions: Actions = format!("output:{port}").parse().expect("actions");
        Value::Actions(Packed::new(&actions))
    }

    fn bucket(id: u32, port: u16) -> Row {
        vec![host(), number(7), number(id), actions(port)]
    }

    fn candidate(id: u32, weight: u32, watch_port: u32) -> Row {
        let watch_group = if id == 9 { 3 } else { 0 };
        let numbers = [7, id, weight, watch_port, watch_group].map(number);
        [&[host()][..], &numbers, &[actions(2)]].concat()
    }

    fn group(kind: &str, fields: &[&str]) -> Row {
        let fields: Vec<Value> = fields.iter().map(|field| Value::from(*field)).collect();
        vec![host(), number(7), Value::from(kind), Value::Set(fields.into())]
    }

    fn failover() -> Row {
        group("fast_failover", &[])
    }

    /// The changes of the three tables.
    #[derive(Default)]
    struct Deltas {
        buckets: TableDelta,
        groups: TableDelta,
        candidates: TableDelta,
    }

    impl Deltas {
        fn apply(&self, groups: &mut Groups, is_there: impl Fn(&str) -> bool) -> BTreeSet<Key> {
            let changes = GroupChanges {
                buckets: read(Some(&self.buckets), BucketRow::read).expect("buckets"),
                groups: things::<Choices>(Some(&self.groups)).expect("groups"),
                candidates: read(Some(&self.candidates), CandidateRow::read).expect("candidates"),
            };
            groups.change(changes, is_there)
        }
    }

    fn text(groups: &Groups) -> Result<Option<String>, String> {
        Ok(groups.entry(&("h1".to_owned(), 7))?.map(|group| group.to_string()))
    }

    #[test]
    fn a_group_follows_its_rows_and_its_type_may_change() {
        let mut groups = Groups::default();
        let mut deltas = Deltas::default();
        deltas.groups.insert.push(group("select", &["tcp_dst", "ip_src"]));
        deltas.candidates.insert.extend([candidate(9, 2, 4), candidate(1, 1, 0)]);
        let touched = deltas.apply(&mut groups, |host| host == "h1");
        assert_eq!(touched, [("h1".to_owned(), 7)].into());
        let select = "group_id=7,type=select,selection_method=hash,fields(ip_src,tcp_dst),bucket=bucket_id:1,actions=output:2,\
                      bucket=bucket_id:9,weight:2,watch_port:4,watch_group:3,actions=output:2";
        assert_eq!(text(&groups), Ok(Some(select.to_owned())));

        let mut deltas = Deltas::default();
        deltas.groups.delete.push(group("select", &["tcp_dst", "ip_src"]));
        deltas.groups.insert.push(failover());
        deltas.candidates.delete.extend([candidate(9, 2, 4), candidate(1, 1, 0)]);
        deltas.candidates.insert.push(candidate(9, 0, 4));
        deltas.apply(&mut groups, |_| true);
        let failover = "group_id=7,type=ff,bucket=bucket_id:9,watch_port:4,watch_group:3,actions=output:2";
        assert_eq!(text(&groups), Ok(Some(failover.to_owned())));

        let mut deltas = Deltas::default();
        deltas.candidates.delete.push(candidate(9, 0, 4));
        deltas.apply(&mut groups, |_| true);
        assert_eq!(text(&groups), Ok(None), "a group without buckets is none");
    }

    #[test]
    fn rows_that_contradict_each_other_are_refused() {
        for (group_row, bucket_row, candidate_row, fault) in [
            (true, true, false, "has rows of of_group and of of_bucket"),
            (false, false, true, "has rows of of_candidate and none of of_group"),
        ] {
            let (mut groups, mut deltas) = (Groups::default(), Deltas::default());
            deltas.groups.insert.extend(group_row.then(failover));
            deltas.buckets.insert.extend(bucket_row.then(|| bucket(1, 2)));
            deltas.candidates.insert.extend(candidate_row.then(|| candidate(1, 0, 4)));
            deltas.apply(&mut groups, |_| true);
            assert_eq!(text(&groups), Err(format!("h1: group 0x7 {fault}")));
        }
    }
}
