//! Which bucket of a group of type `select` or `ff` gets a packet, and which ports are live.

use std::fmt;

use openflow_rs::{Bucket, Field, GroupEntry, GroupKind, PortNo, Selection};

use crate::{Bridge, FlowKey, hash};

/// `MAX_LIVENESS_RECURSION` of Open vSwitch's `ofproto-dpif-xlate.c`: groups that watch groups.
const MAX_WATCHED: u32 = 128;

/// The bucket that gets a packet, and what became of the others.
pub(crate) struct Choice<'a> {
    pub(crate) bucket: Option<&'a Bucket>,
    /// The buckets that were looked at, in order.
    candidates: Vec<(&'a Bucket, Standing)>,
    /// The fields that the packet has of those that are hashed, for a group of type `select`.
    hashed: Option<Vec<Field>>,
}

/// What a bucket is in a choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The hash with the bucket's number, times its weight.
    Score(u32),
    /// A bucket of weight 0 gets nothing.
    Weightless,
    Dead,
}

impl fmt::Display for Choice<'_> {
    /// Says which bucket was chosen, and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bucket, &self.hashed) {
            (None, _) => f.write_str("no bucket is live")?,
            (Some(bucket), None) => write!(f, "bucket {}, the first that is live", bucket.id)?,
            (Some(bucket), Some(fields)) => {
                write!(f, "bucket {}, which has the highest score by the hash of ", bucket.id)?;
                let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                f.write_str(if names.is_empty() { "no field" } else { "" })?;
                f.write_str(&names.join(", "))?;
            }
        }
        for (place, (bucket, standing)) in self.candidates.iter().enumerate() {
            let because = match (standing, watched(bucket)) {
                (Standing::Score(score), _) => format!("{score}"),
                (Standing::Weightless, _) => "weight 0".to_owned(),
                (Standing::Dead, (Some(port), None)) => format!("port {port} is not live"),
                (Standing::Dead, (None, Some(group))) => format!("group {group} is not live"),
                (Standing::Dead, _) => "neither its port nor its group is live".to_owned(),
            };
            write!(f, "{} {}: {because}", if place == 0 { ";" } else { "," }, bucket.id)?;
        }
        Ok(())
    }
}

/// The port and the group that a bucket watches.
fn watched(bucket: &Bucket) -> (Option<PortNo>, Option<u32>) {
    let port = Some(bucket.watch_port).filter(|port| *port != PortNo::ANY);
    (port, Some(bucket.watch_group).filter(|group| *group != openflow_rs::flow::ANY_GROUP))
}

/// Whether a bucket watches something.
pub(crate) fn watches(bucket: &Bucket) -> bool {
    watched(bucket) != (None, None)
}

impl Bridge {
    /// Sets whether a port is live, as its carrier, BFD or LACP say on a switch. New ports are live. A port that is not
    /// still sends and receives: liveness only chooses buckets.
    pub fn set_live(&mut self, port: PortNo, live: bool) {
        if live {
            self.dead.remove(&port.0);
        } else if self.has_port(port) {
            self.dead.insert(port.0);
        }
    }

    /// Whether there is such a port, and it is live.
    pub fn is_live(&self, port: PortNo) -> bool {
        self.has_port(port) && !self.dead.contains(&port.0)
    }

    /// Whether a bucket's watched port or group is live; one that watches nothing is.
    fn bucket_is_live(&self, bucket: &Bucket, depth: u32) -> bool {
        let (port, group) = watched(bucket);
        let group_is_live =
            |id| self.group(id).is_some_and(|group| self.first_live(group, depth + 1).is_some());
        depth < MAX_WATCHED
            && ((port, group) == (None, None)
                || port.is_some_and(|port| self.is_live(port))
                || group.is_some_and(group_is_live))
    }

    fn first_live<'a>(&self, group: &'a GroupEntry, depth: u32) -> Option<&'a Bucket> {
        let weightless = |bucket: &Bucket| group.kind == GroupKind::Select && bucket.weight == 0;
        group.buckets.iter().find(|bucket| !weightless(bucket) && self.bucket_is_live(bucket, depth))
    }

    /// The first live bucket of a group (`group_first_live_bucket`).
    pub(crate) fn choose_first<'a>(&self, group: &'a GroupEntry) -> Choice<'a> {
        let bucket = self.first_live(group, 0);
        let passed = |other: &&Bucket| bucket.is_none_or(|bucket| bucket.id != other.id);
        let candidates = group.buckets.iter().take_while(passed).map(|other| (other, Standing::Dead));
        Choice { bucket, candidates: candidates.collect(), hashed: None }
    }

    /// The live bucket with the highest score, by a hash of fields and the bucket's number (`group_best_live_bucket`).
    /// So a bucket that goes gives its flows to the others, and theirs stay.
    pub(crate) fn choose_by_hash<'a>(
        &self,
        group: &'a GroupEntry,
        selection: &Selection,
        key: &FlowKey,
    ) -> Choice<'a> {
        let (basis, hashed) = hash_of_fields(selection, key);
        let mut best: Option<(&Bucket, u32)> = None;
        let standing = |bucket: &'a Bucket| {
            if bucket.weight == 0 {
                return (bucket, Standing::Weightless);
            }
            if !self.bucket_is_live(bucket, 0) {
                return (bucket, Standing::Dead);
            }
            let score = (hash::of_word(bucket.id, basis) & 0xffff) * u32::from(bucket.weight);
            if best.is_none_or(|(_, highest)| score >= highest) {
                best = Some((bucket, score));
            }
            (bucket, Standing::Score(score))
        };
        let candidates = group.buckets.iter().map(standing).collect();
        Choice { bucket: best.map(|(bucket, _)| bucket), candidates, hashed: Some(hashed) }
    }
}

/// The hash of the fields that the packet has, and these fields (`pick_hash_fields_select_group`).
fn hash_of_fields(selection: &Selection, key: &FlowKey) -> (u32, Vec<Field>) {
    let has = |field: Field| key.meets(field.info().prerequisite);
    let hashed = selection.fields().iter().filter(|(field, _)| has(*field));
    let mut basis = hash::of_double_word(selection.param);
    for (field, mask) in hashed.clone() {
        let value = (key.get(*field) & mask).to_be_bytes();
        basis = hash::of_bytes(&value[value.len() - field.wire_bytes()..], basis);
    }
    (basis, hashed.map(|(field, _)| *field).collect())
}
