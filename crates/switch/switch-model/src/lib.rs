//! Every kind of thing that rules can want in a switch, once: its table and rows in the rules, its keys and values, the state that a
//! switch should have, changes of it, and their way from rows to hosts and back. No I/O.
//!
//! A kind is a file that implements [`Kind`], and a line in the list below. From the list follow [`Desired`], [`Changes`], [`Tables`],
//! [`split_by_host`] and, for what a switch keeps in its database, [`kinds_in_database`]; so a kind that lacks a part does not
//! compile, here or in the driver. [`interface`] has what else rules and Rust share: tables that
//! the controller fills or shows; a [`SwitchTable`] finds itself in a program, or says what is different there. [`rows`] reads and
//! writes their rows. [`Event`] and [`Report`] are what a switch says by itself, [`ReadError`] and its neighbours what it answers to
//! those who look.
//!
//! ```
//! use nlog_data::Schema;
//! use switch_model::{Buckets, Kind as _};
//!
//! assert_eq!(Buckets::TABLE.find(&Schema::default()), Ok(None));
//! let declaration = "output table of_bucket(hv: string, group: int, bucket: int, actions: actions)";
//! assert_eq!(Buckets::TABLE.to_string(), declaration);
//! ```
#![forbid(unsafe_code)]
// Bytes from outside must not end the process.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod announcement;
mod awaited;
mod bfd;
mod check;
mod collectors;
mod event;
pub mod flow;
pub mod group;
pub mod interface;
mod kind;
mod limits;
mod meter;
mod packet;
mod patch;
mod pool;
mod reading;
pub mod rows;
pub mod saved_states;
mod split;
mod table;
mod tunnel;
pub mod zone;

use std::collections::BTreeMap;

use nlog_data::{Row, Schema, TableId};
use openflow_rs::DecodeError;
use split::split;

pub use announcement::{Announcements, Frame};
pub use awaited::AwaitedFlows;
pub use bfd::{BfdSession, BfdSessions};
pub use check::check_groups;
pub use collectors::{CollectorSet, CollectorSets};
pub use event::{
    BundleTimes, Channel, Conflict, Event, ForeignChange, InterfaceId, ProbeFound, Problem, Rejection,
    Report, Vif,
};
pub use flow::{Flow, FlowError, FlowKey, FlowRow, Flows};
pub use group::{
    BUCKET_MAX, Bucket, BucketRow, Buckets, CHOICE_BYTES_MAX, CandidateRow, Candidates, Choice, Choices,
    GROUP_MAX, Watched,
};
pub use kind::{Again, Edits, Kind, Lasting, Reader, RowError};
pub use limits::{ZoneLimits, ZonesLimits};
pub use meter::{METER_MAX, Meter, Meters};
pub use packet::{Packet, probe_frame, probe_length};
pub use patch::{Patch, Patches};
pub use pool::Pool;
pub use reading::{FlowCount, LearnedFlow, MeterCount, READ_WITHIN, ReadError, SeenFlow};
pub use split::Source;
pub use table::{ColumnType, Misfit, SwitchTable};
pub use tunnel::{Remote, RemoteError, Tunnel, Tunnels};
pub use tunnel_encap::{Encap, UnknownEncap};
pub use zone::{ZONE_TABLE, ZoneOwner, Zones};

/// The changes of each host.
pub type ByHost = BTreeMap<String, Changes>;

/// Derives everything from the list of kinds. Its sections say where a switch keeps them.
macro_rules! kinds {
    (
        flow_tables { $($flow_tables:tt)* }
        ports { $($ports:tt)* }
        database { $($database:tt)* }
        learned { $($learned:tt)* }
        once { $($once:tt)* }
    ) => {
        kinds! {
            lasting { $($flow_tables)* $($ports)* $($database)* $($learned)* }
            once { $($once)* }
        }
        kinds! { any_database { $($ports)* $($database)* } }
        kinds! { exported { $($database)* } }
    };
    (any_database { $($(#[doc = $doc:literal])* $field:ident: $kind:ident;)* }) => {
        impl Changes {
            /// Whether anything that the switch keeps in its database changes.
            pub fn touches_database(&self) -> bool {
                $(!self.$field.is_empty() ||)* false
            }
        }
    };
    (exported { $($(#[doc = $doc:literal])* $field:ident: $kind:ident;)* }) => {
        /// Passes the kinds that a switch keeps in its database, besides ports, to a macro: `FIELD: KIND;` for each.
        #[macro_export]
        macro_rules! kinds_in_database {
            ($macro:ident) => { $macro! { $($field: $crate::$kind;)* } };
        }
    };
    (
        lasting { $($(#[doc = $doc:literal])* $field:ident: $kind:ty;)* }
        once { $($(#[doc = $once_doc:literal])* $once:ident: $once_kind:ty;)* }
    ) => {
        /// What a switch should have.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Desired {
            $($(#[doc = $doc])* pub $field: BTreeMap<<$kind as Kind>::Key, <$kind as Kind>::Value>,)*
        }

        /// The changes of one transaction in a switch.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Changes {
            $($(#[doc = $doc])* pub $field: Edits<$kind>,)*
            $($(#[doc = $once_doc])* pub $once: Edits<$once_kind>,)*
        }

        /// The tables of the kinds in a program, as far as it has them.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Tables {
            $($(#[doc = $doc])* pub $field: Option<TableId>,)*
            $($(#[doc = $once_doc])* pub $once: Option<TableId>,)*
        }

        /// The declarations of these tables.
        pub const KINDS: &[SwitchTable] = &[$(<$kind as Kind>::TABLE,)* $(<$once_kind as Kind>::TABLE,)*];

        impl Changes {
            /// Whether there are no changes.
            pub fn is_empty(&self) -> bool {
                $(self.$field.is_empty() &&)* $(self.$once.is_empty() &&)* true
            }

            /// The number of things that are added, replaced or deleted.
            pub fn count(&self) -> usize {
                [$(self.$field.each().count(),)* $(self.$once.each().count(),)*].into_iter().sum()
            }

            /// Leaves out what changes nothing in this state. What happens once stays.
            pub fn reduce(&mut self, before: &Desired) {
                $(self.$field.reduce(&before.$field);)*
            }
        }

        impl Desired {
            /// What leads from this state to another.
            pub fn changes_to(&self, after: &Desired) -> Changes {
                Changes { $($field: Edits::between(&self.$field, &after.$field),)* ..Changes::default() }
            }

            /// Applies the changes to this state.
            pub fn apply(&mut self, changes: &Changes) {
                $(changes.$field.apply(&mut self.$field);)*
            }

            /// The rows of the state of a host in these tables.
            ///
            /// # Errors
            /// A part cannot be decoded.
            pub fn rows(&self, host: &str, tables: &Tables) -> Result<BTreeMap<TableId, Vec<Row>>, DecodeError> {
                let mut all = BTreeMap::new();
                $(if let Some(table) = tables.$field {
                    let rows = self.$field.iter().map(|(key, value)| <$kind as Lasting>::row(host, key, value));
                    all.insert(table, rows.collect::<Result<Vec<Row>, DecodeError>>()?);
                })*
                Ok(all)
            }
        }

        impl Tables {
            /// Finds the tables in a program.
            ///
            /// # Errors
            /// The program has another table of the name of one.
            pub fn find(schema: &Schema) -> Result<Tables, Misfit> {
                Ok(Tables {
                    $($field: <$kind as Kind>::TABLE.find(schema)?,)*
                    $($once: <$once_kind as Kind>::TABLE.find(schema)?,)*
                })
            }

            /// All of them that the program has.
            pub fn all(&self) -> impl Iterator<Item = TableId> + use<> {
                [$(self.$field,)* $(self.$once,)*].into_iter().flatten()
            }
        }

        /// Divides the changes of a transaction by host.
        ///
        /// # Errors
        /// No switch can have what a row asks for. Rules cannot check that, so the transaction should be refused.
        pub fn split_by_host(source: &Source<'_>, tables: &Tables, pool: &mut Pool) -> Result<ByHost, RowError> {
            let (mut hosts, mut reader) = (ByHost::new(), Reader::new(pool));
            reader.reserved = tables.zones.map(|_| zone::RESERVED);
            $(split::<$kind, _>(tables.$field, source, &mut reader, &mut hosts, |to| &mut to.$field)?;)*
            $(split::<$once_kind, _>(tables.$once, source, &mut reader, &mut hosts, |to| &mut to.$once)?;)*
            Ok(hosts)
        }
    };
}

kinds! {
    // In flows, groups and meters.
    flow_tables {
        /// The flows; a switch has at most one for each key.
        flows: Flows;
        /// The buckets of groups that give a packet to all of them, by group number (at most [`GROUP_MAX`]) and bucket number (at most
        /// [`BUCKET_MAX`]). A group exists while it has a bucket.
        buckets: Buckets;
        /// How the other groups choose one of their buckets. None of them has buckets in `buckets`. A switch replaces the type of a
        /// group without removing the flows that use it.
        choices: Choices;
        /// The buckets of these groups, likewise.
        candidates: Candidates;
        /// The meters, by number from 1 to [`METER_MAX`].
        meters: Meters;
        /// The owners of conntrack zones, by zone. A zone is flushed before its owner gets it.
        zones: Zones;
    }
    // In the database: ports, which the driver makes and removes as one kind.
    ports {
        /// The tunnel ports, by port name.
        tunnels: Tunnels;
        /// The patch ports, by the name of the end on the integration bridge. Tunnel and patch ports share one space of names.
        patches: Patches;
    }
    // In the database besides ports, each by itself.
    database {
        /// What bounds the connections of zones. It is in force before the flows of its transaction.
        limits: ZonesLimits;
        /// The sets of IPFIX collectors, by the number that actions `sample` name. They are in force before the flows of their
        /// transaction.
        collectors: CollectorSets;
        /// The BFD sessions of tunnel ports, by port name.
        bfd: BfdSessions;
    }
    // What the switch writes into its flow tables by itself.
    learned {
        /// The learned flows to report, by table and cookie, and the port whose interface announces itself by each.
        awaited: AwaitedFlows;
    }
    // What happens once, and is no part of the desired state.
    once {
        /// Frames to send once the transaction is in force: at once and a few times more. They have names, so that later
        /// transactions can end that.
        frames: Announcements;
    }
}

impl Changes {
    /// Whether any group that chooses one of its buckets is added, changed or removed.
    pub fn touches_choices(&self) -> bool {
        !self.choices.is_empty() || !self.candidates.is_empty()
    }
}
