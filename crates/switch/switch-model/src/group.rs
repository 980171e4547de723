//! Groups: how they choose a bucket, and their buckets, as encoded bytes.

pub mod encoding;

use std::fmt;
use std::sync::Arc;

use nlog_data::{Packed, Row, Value};
use openflow_rs::flow::ANY_GROUP;
use openflow_rs::{Actions, DecodeError, Field, GroupEntry, GroupKind, PortNo, Selection};

use crate::flow::{ENCODED_BYTES_MAX, FlowError};
use crate::kind::{Kind, Lasting, Reader, RowError, int, number, text};
use crate::pool::Pool;
use crate::rows::PORT_MAX;
use crate::table::{ACTIONS, ColumnType, INT, STRING, SwitchTable};
use encoding::{BUCKET_HEAD, encode_shape};

/// The greatest group number that the desired state may use. The driver needs greater numbers for itself.
pub const GROUP_MAX: u32 = 0x3ff_ffff;
/// The greatest bucket number that the desired state may use.
pub const BUCKET_MAX: u32 = 0xffff_feff;
/// The most bytes that the buckets of a group take that gives a packet to one of them.
pub const CHOICE_BYTES_MAX: usize = 60_000;

/// The type of a group that chooses a bucket by a hash.
pub const SELECT: &str = "select";
/// The type of a group that uses the first bucket whose port is live.
pub const FAST_FAILOVER: &str = "fast_failover";

const GROUP_TYPE: ColumnType = ColumnType::Name(|| vec![SELECT, FAST_FAILOVER]);
const HASH_FIELDS: ColumnType = ColumnType::Names(|| {
    // The switch decides the length of an option.
    Field::all().filter(|field| *field != Field::TunMetadata0).map(Field::name).collect()
});

/// How a group chooses the bucket that gets a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Choice {
    /// By a hash of these fields, weighted. A bucket more or less moves only the packets that come to it or leave it. Open
    /// vSwitch takes the bucket with the greatest product of weight and hash: of two, that of weight a gets a / 2b of the
    /// flows if the other's weight b is greater.
    Select(Vec<Field>),
    /// The first bucket whose port is live, in the order of their numbers.
    FastFailover,
}

impl Choice {
    /// The type in OpenFlow.
    pub fn kind(&self) -> GroupKind {
        match self {
            Choice::Select(_) => GroupKind::Select,
            Choice::FastFailover => GroupKind::FastFailover,
        }
    }

    /// The encoded type and properties.
    pub fn shape(&self) -> Vec<u8> {
        let selection = self.selection();
        encode_shape(GroupEntry { selection, ..GroupEntry::new(0, self.kind(), Vec::new()) })
    }

    /// The fields to hash, in OpenFlow; none if it hashes nothing.
    pub fn selection(&self) -> Option<Selection> {
        match self {
            Choice::Select(fields) => Some(Selection::hash(fields.iter().copied())),
            Choice::FastFailover => None,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Select(fields) => {
                let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
                write!(f, "select by {}", names.join(", "))
            }
            Choice::FastFailover => f.write_str("fast_failover"),
        }
    }
}

/// What a bucket watches: it is chosen only while one of these is live. A bucket that watches nothing always is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Watched {
    /// A port: live while it has carrier and its BFD session, if it has one, is up.
    pub port: Option<PortNo>,
    /// A group: live while one of its buckets is. So one of type `all` is always live while it exists.
    pub group: Option<u32>,
}

impl Watched {
    /// This port alone.
    pub fn port(port: PortNo) -> Watched {
        Watched { port: Some(port), group: None }
    }
}

/// A bucket of a group.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    pub(crate) rule: u64,
    /// The encoded actions, then the properties.
    pub(crate) bytes: Arc<[u8]>,
}

impl Bucket {
    /// Encodes a bucket of a group that sends its packets to all buckets. `rule` is the owner's own number for it and is
    /// not sent to the switch.
    ///
    /// # Errors
    /// The actions are too long, or include an instruction.
    pub fn new(rule: u64, actions: &Actions) -> Result<Bucket, FlowError> {
        Bucket::candidate(rule, 0, Watched::default(), actions)
    }

    /// Encodes a bucket of a group that chooses one. `weight` is at least 1 in groups of type select and 0 in others.
    ///
    /// # Errors
    /// The actions are too long, or include an instruction.
    pub fn candidate(
        rule: u64,
        weight: u16,
        watched: Watched,
        actions: &Actions,
    ) -> Result<Bucket, FlowError> {
        let bucket = openflow_rs::Bucket {
            weight,
            watch_port: watched.port.unwrap_or(PortNo::ANY),
            watch_group: watched.group.unwrap_or(ANY_GROUP),
            ..openflow_rs::Bucket::new(0, actions.clone())
        };
        let bytes = encoding::encode(bucket.clone()).filter(|bytes| bytes.len() <= ENCODED_BYTES_MAX);
        let bytes = bytes.ok_or(FlowError::LongBucket)?;
        match encoding::decode(&bytes) {
            Ok(same) if same == bucket => Ok(Bucket { rule, bytes: Arc::from(bytes) }),
            _ => Err(FlowError::NoBucket { actions: actions.to_string() }),
        }
    }

    /// The same bucket with another rule number.
    pub fn with_rule(&self, rule: u64) -> Self {
        Bucket { rule, bytes: Arc::clone(&self.bytes) }
    }

    /// Replaces the encoded bytes by equal ones from the pool.
    pub fn share(&mut self, pool: &mut Pool) {
        pool.share(&mut self.bytes);
    }

    /// The bytes that it takes in a message.
    pub fn encoded_len(&self) -> usize {
        BUCKET_HEAD + self.bytes.len()
    }

    /// The owner's number for the bucket.
    pub fn rule(&self) -> u64 {
        self.rule
    }

    /// The encoded actions, then the properties.
    pub fn bytes(&self) -> Arc<[u8]> {
        self.bytes.clone()
    }

    /// The actions.
    pub fn actions(&self) -> Result<Actions, DecodeError> {
        encoding::decode(&self.bytes).map(|bucket| bucket.actions)
    }

    /// The weight; 0 if it has none.
    pub fn weight(&self) -> u16 {
        encoding::decode(&self.bytes).map_or(0, |bucket| bucket.weight)
    }

    /// What it watches.
    pub fn watched(&self) -> Watched {
        encoding::decode(&self.bytes).map_or_else(
            |_| Watched::default(),
            |bucket| Watched {
                port: Some(bucket.watch_port).filter(|port| *port != PortNo::ANY),
                group: Some(bucket.watch_group).filter(|group| *group != ANY_GROUP),
            },
        )
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match encoding::decode(&self.bytes) {
            Ok(bucket) => {
                write!(f, "rule={:#x}, ", self.rule)?;
                if bucket.weight != 0 {
                    write!(f, "weight:{}, ", bucket.weight)?;
                }
                if bucket.watch_port != PortNo::ANY {
                    write!(f, "watch_port:{}, ", bucket.watch_port)?;
                }
                if bucket.watch_group != ANY_GROUP {
                    write!(f, "watch_group:{}, ", bucket.watch_group)?;
                }
                write!(f, "actions={}", bucket.actions)
            }
            Err(error) => write!(f, "rule={:#x}, unreadable here: {error}", self.rule),
        }
    }
}

/// A row of the table of buckets, before its actions are encoded.
#[derive(Debug, Clone, Copy)]
pub struct BucketRow<'r> {
    /// The host.
    pub host: &'r Arc<str>,
    /// The group.
    pub group: u32,
    /// The bucket's number in the group.
    pub id: u32,
    /// Its actions.
    pub actions: &'r Packed<Actions>,
}

impl<'r> BucketRow<'r> {
    /// Reads a row.
    ///
    /// # Errors
    /// No switch can have this bucket.
    pub fn read(row: &'r Row) -> Result<BucketRow<'r>, RowError> {
        let [Value::String(host), Value::Int(group), Value::Int(id), Value::Actions(actions)] = &row[..]
        else {
            return Err(RowError::misfit(&Buckets::TABLE, row));
        };
        let number = |what, value: &i64, last| number(&Buckets::TABLE, host, what, *value, (0, last));
        let (group, id) = (number("group", group, GROUP_MAX)?, number("bucket", id, BUCKET_MAX)?);
        Ok(BucketRow { host, group, id, actions })
    }
}

/// The buckets of groups that give each a copy, by group and bucket.
#[derive(Debug)]
pub enum Buckets {}

impl Kind for Buckets {
    const TABLE: SwitchTable = SwitchTable::output(
        "of_bucket",
        &[("hv", STRING), ("group", INT), ("bucket", INT), ("actions", ACTIONS)],
    );
    const ATTRIBUTED: bool = true;
    type Key = (u32, u32);
    type Value = Bucket;

    fn read<'r>(
        row: &'r Row,
        reader: &mut Reader<'_, 'r>,
    ) -> Result<(&'r str, (u32, u32), Bucket), RowError> {
        let BucketRow { host, group, id, actions } = BucketRow::read(row)?;
        let bytes = reader.bucket(actions, |actions| Bucket::new(0, actions).map(|bucket| bucket.bytes));
        let bytes = bytes.map_err(|error| RowError::range(&Self::TABLE, host, error))?;
        Ok((host, (group, id), Bucket { rule: reader.rule, bytes }))
    }

    fn key<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, (u32, u32)), RowError> {
        BucketRow::read(row).map(|row| (&**row.host, (row.group, row.id)))
    }
}

impl Lasting for Buckets {
    fn row(host: &str, (group, id): &(u32, u32), bucket: &Bucket) -> Result<Row, DecodeError> {
        Ok(vec![text(host), int(*group), int(*id), actions_of(bucket)?])
    }
}

fn actions_of(bucket: &Bucket) -> Result<Value, DecodeError> {
    Ok(Value::Actions(Packed::new(&bucket.actions()?)))
}

/// The groups that give a packet to one of their buckets, by number.
#[derive(Debug)]
pub enum Choices {}

impl Kind for Choices {
    const TABLE: SwitchTable = SwitchTable::output(
        "of_group",
        &[("hv", STRING), ("group", INT), ("type", GROUP_TYPE), ("fields", HASH_FIELDS)],
    );
    type Key = u32;
    type Value = Choice;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, u32, Choice), RowError> {
        let [Value::String(host), Value::Int(group), Value::String(kind), Value::Set(names)] = &row[..]
        else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let group = number(&Self::TABLE, host, "group", *group, (0, GROUP_MAX))?;
        let fault = |why: &str| RowError::range(&Self::TABLE, host, format!("group {group} {why}"));
        let mut fields = Vec::new();
        for name in names.iter() {
            let Value::String(name) = name else { return Err(RowError::misfit(&Self::TABLE, row)) };
            let field = Field::from_name(name).filter(|field| *field != Field::TunMetadata0);
            let unknown = || fault(&format!("hashes {name}, which is no field that a switch can hash"));
            fields.push(field.ok_or_else(unknown)?);
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
                let types = format!("it is {SELECT} or {FAST_FAILOVER}");
                return Err(fault(&format!("has the type {kind}, which does not exist; {types}")));
            }
        };
        Ok((host, group, choice))
    }
}

impl Lasting for Choices {
    fn row(host: &str, group: &u32, choice: &Choice) -> Result<Row, DecodeError> {
        let (kind, fields) = match choice {
            Choice::Select(fields) => (SELECT, fields.iter().map(|field| text(field.name())).collect()),
            Choice::FastFailover => (FAST_FAILOVER, Vec::new()),
        };
        Ok(vec![text(host), int(*group), text(kind), Value::Set(fields.into())])
    }
}

/// A row of the table of buckets of such groups, before its actions are encoded.
#[derive(Debug, Clone, Copy)]
pub struct CandidateRow<'r> {
    /// Host, group, number and actions.
    pub bucket: BucketRow<'r>,
    /// Its weight; 0 in groups without weights.
    pub weight: u16,
    /// What it watches.
    pub watched: Watched,
}

impl<'r> CandidateRow<'r> {
    /// Reads a row.
    ///
    /// # Errors
    /// No switch can have this bucket.
    pub fn read(row: &'r Row) -> Result<CandidateRow<'r>, RowError> {
        let [
            Value::String(host),
            Value::Int(group),
            Value::Int(id),
            Value::Int(weight),
            Value::Int(watch_port),
            Value::Int(watch_group),
            Value::Actions(actions),
        ] = &row[..]
        else {
            return Err(RowError::misfit(&Candidates::TABLE, row));
        };
        let number = |what, value: &i64, last| number(&Candidates::TABLE, host, what, *value, (0, last));
        let (group, id) = (number("group", group, GROUP_MAX)?, number("bucket", id, BUCKET_MAX)?);
        let weight = number("weight", weight, u16::MAX.into())? as u16;
        let watch_port = PortNo(number("watch_port", watch_port, PORT_MAX.into())? as u16);
        let watch_group = number("watch_group", watch_group, GROUP_MAX)?;
        let watched = Watched {
            port: Some(watch_port).filter(|port| *port != PortNo(0)),
            group: Some(watch_group).filter(|group| *group != 0),
        };
        Ok(CandidateRow { bucket: BucketRow { host, group, id, actions }, weight, watched })
    }
}

/// The buckets of groups that give a packet to one of them, by group and bucket.
#[derive(Debug)]
pub enum Candidates {}

impl Kind for Candidates {
    const TABLE: SwitchTable = SwitchTable::output(
        "of_candidate",
        &[
            ("hv", STRING),
            ("group", INT),
            ("bucket", INT),
            ("weight", INT),
            ("watch_port", INT),
            ("watch_group", INT),
            ("actions", ACTIONS),
        ],
    );
    const ATTRIBUTED: bool = true;
    type Key = (u32, u32);
    type Value = Bucket;

    fn read<'r>(
        row: &'r Row,
        reader: &mut Reader<'_, 'r>,
    ) -> Result<(&'r str, (u32, u32), Bucket), RowError> {
        let CandidateRow { bucket, weight, watched } = CandidateRow::read(row)?;
        let BucketRow { host, group, id, actions } = bucket;
        let bucket = Bucket::candidate(reader.rule, weight, watched, &actions.get());
        let mut bucket = bucket.map_err(|error| RowError::range(&Self::TABLE, host, error))?;
        bucket.share(reader.pool);
        Ok((host, (group, id), bucket))
    }

    fn key<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, (u32, u32)), RowError> {
        CandidateRow::read(row).map(|row| (&**row.bucket.host, (row.bucket.group, row.bucket.id)))
    }
}

impl Lasting for Candidates {
    fn row(host: &str, (group, id): &(u32, u32), bucket: &Bucket) -> Result<Row, DecodeError> {
        let watched = bucket.watched();
        let (port, live) = (watched.port.map_or(0, |port| port.0), watched.group.unwrap_or(0));
        let numbers = [int(*group), int(*id), int(bucket.weight()), int(port), int(live)];
        Ok([&[text(host)][..], &numbers, &[actions_of(bucket)?]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(n: u32) -> Actions {
        format!("set_field:172.16.{}.{}->tun_dst,resubmit(,51)", n >> 8 & 0xff, n & 0xff)
            .parse()
            .expect("actions")
    }

    #[test]
    fn what_was_put_in_comes_out_and_instructions_are_refused() {
        let bucket = Bucket::new(7, &actions(5)).expect("a bucket");
        assert_eq!((bucket.rule(), bucket.actions()), (7, Ok(actions(5))));
        for text in ["resubmit(,1),goto_table:7", "write_metadata:0x5"] {
            let error = Bucket::new(0, &text.parse().expect("actions")).expect_err("no bucket");
            assert_eq!(
                error.to_string(),
                format!("a bucket cannot contain {text}: it takes actions only, no instructions")
            );
        }
        let watched = Watched { port: Some(PortNo(3)), group: Some(9) };
        let watching = Bucket::candidate(7, 5, watched, &actions(5)).expect("a bucket");
        assert_eq!((watching.weight(), watching.watched()), (5, watched));
        assert_eq!(watching.actions(), Ok(actions(5)));
        assert_eq!(
            format!("{watching:?}"),
            format!("rule=0x7, weight:5, watch_port:3, watch_group:9, actions={}", actions(5))
        );
        let long: Actions = vec!["output:1"; 5_000].join(",").parse().expect("actions");
        assert!(Bucket::new(0, &long).is_err());
    }
}
