//! What a session reads: all that a switch has, and what meters and flows have counted.

use std::collections::BTreeMap;

use openflow_rs::message::FlowDescRequest;
use openflow_rs::{Body, Match, MeterEntry};

use super::{Session, malformed};
use crate::config::Config;
use crate::in_openflow::{
    self, Contents, Dump, Flows, InOpenFlow, Meters, Things, flows, kinds_in_openflow, meters,
};
use crate::openflow::connection::SessionError;
use crate::openflow::{Installed, error};
use crate::wire::{BadDesc, kind};
use switch_model::{Flow, FlowCount, FlowKey, LearnedFlow, MeterCount, ReadError, SeenFlow};

const COUNTERS: Dump = Dump { request: "the counters of meters", ..Meters::DUMP };
const FLOW_COUNTERS: Dump = Dump { request: "the counters of a flow", ..Flows::DUMP };
const TABLE: Dump = Dump { request: "the flows of a table", ..Flows::DUMP };
const LEARNED: Dump = Dump { request: "the dump of learned flows", ..Flows::DUMP };

/// The most learned flows that are read at once. They take about 100 bytes each.
const LEARNED_MAX: usize = 1_000_000;

/// The request for the flows of a table that the match covers.
fn flows_of(table: u8, matches: Match) -> Body {
    Body::FlowDescRequest(FlowDescRequest { table, matches, ..FlowDescRequest::all() })
}

/// The most parts of a dump that describe nothing. A switch sends one if there is nothing.
const EMPTY_PARTS_MAX: usize = 16;

/// About the memory that a description takes beyond its bytes, which are held twice.
const DESCRIPTION_BYTES: usize = 200;

/// What a dump has described.
#[derive(Debug, Default)]
struct Tally {
    described: usize,
    /// Those that are held.
    held: usize,
}

impl Tally {
    /// So many more descriptions, all of which are held.
    fn hold(&mut self, count: usize) {
        self.described += count;
        self.held += count;
    }
}

impl Session {
    /// Reads all things of the kinds whose changes the switch does not report.
    pub(crate) async fn read_unreported(&mut self) -> Result<Contents, SessionError> {
        self.read_kinds(|is_reported, _| !is_reported).await
    }

    /// Reads all things of the kinds whose changes take several messages.
    pub(crate) async fn read_stepwise(&mut self) -> Result<Contents, SessionError> {
        self.read_kinds(|_, is_stepwise| is_stepwise).await
    }

    async fn read_kinds(&mut self, which: fn(bool, bool) -> bool) -> Result<Contents, SessionError> {
        let mut contents = Contents::default();
        macro_rules! read {
            ($($field:ident: $kind:ident;)*) => {
                $(if which(in_openflow::$kind::IS_REPORTED, in_openflow::$kind::IS_STEPWISE) {
                    contents.$field = self.read_kind::<in_openflow::$kind>().await?;
                })*
            };
        }
        kinds_in_openflow!(read);
        Ok(contents)
    }

    async fn read_kind<K: InOpenFlow>(&mut self) -> Result<Things<K>, SessionError> {
        let mut read = Things::<K>::new();
        let dumped = self
            .dump(K::DUMP, K::request(), |message, tally| {
                K::read(message, |key, value| {
                    tally.hold(1);
                    read.insert(key, value);
                })
            })
            .await;
        match dumped {
            Ok(()) => Ok(read),
            Err(SessionError::Refused { error, .. }) if K::IS_OPTIONAL => {
                tracing::debug!(error, "the switch describes no {}", K::DUMP.what);
                Ok(Things::<K>::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads what the meters have counted, for somebody else. A refusal concerns only the request.
    pub(crate) async fn meter_counts(&mut self) -> Result<Result<Vec<MeterCount>, ReadError>, SessionError> {
        let mut counts = Vec::new();
        let request = Body::MeterStatsRequest(MeterEntry::ALL);
        let dumped = self
            .dump(COUNTERS, request, |message, tally| {
                let before = counts.len();
                let more = meters::counts(message, &mut counts);
                tally.hold(counts.len() - before);
                more
            })
            .await;
        match dumped {
            Ok(()) => Ok(Ok(counts)),
            Err(SessionError::Refused { error, .. }) => Ok(Err(ReadError::Refused(error))),
            Err(error) => Err(error),
        }
    }

    /// Reads what these flows have counted, for somebody else. A refusal concerns only the request.
    pub(crate) async fn flow_counts(
        &mut self,
        keys: &[FlowKey],
    ) -> Result<Result<Vec<FlowCount>, ReadError>, SessionError> {
        let mut counts = Vec::new();
        for key in keys {
            // A key of the owner is readable.
            let Ok(matching) = key.matching() else { continue };
            let request = flows_of(key.table(), matching);
            let dumped = self
                .dump(FLOW_COUNTERS, request, |message, tally| {
                    let before = counts.len();
                    let (more, described) = flows::flow_count(message, key, &mut counts)?;
                    tally.hold(counts.len() - before);
                    tally.described += described;
                    Ok(more)
                })
                .await;
            match dumped {
                Ok(()) => {}
                Err(SessionError::Refused { error, .. }) => return Ok(Err(ReadError::Refused(error))),
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(counts))
    }

    /// Reads the flows of a table that the match covers, whoever wrote them, for somebody else. A refusal concerns only the request.
    pub(crate) async fn table_flows(
        &mut self,
        table: u8,
        matches: Match,
    ) -> Result<Result<Vec<SeenFlow>, ReadError>, SessionError> {
        let (mut flows, mut is_long) = (Vec::new(), false);
        let request = flows_of(table, matches);
        let dumped = self
            .dump(TABLE, request, |message, tally| {
                is_long |= flows.len() > LEARNED_MAX;
                // The connection stays, however many there are.
                let (mut rest, before) = (Vec::new(), flows.len());
                let into = if is_long { &mut rest } else { &mut flows };
                let more = flows::seen_flows(message, into);
                tally.hold(flows.len() - before);
                tally.described += rest.len();
                more
            })
            .await;
        match dumped {
            Ok(()) if is_long => Ok(Err(ReadError::TooMany { max: LEARNED_MAX })),
            Ok(()) => Ok(Ok(flows)),
            Err(SessionError::Refused { error, .. }) => Ok(Err(ReadError::Refused(error))),
            Err(error) => Err(error),
        }
    }

    /// Reads all that the switch has, of tables that the switch itself fills only those of watched ones. First maps the tunnel
    /// option to a field if it is not mapped, since flows need it.
    pub(crate) async fn read(&mut self, config: &Config) -> Result<Installed, SessionError> {
        let option_fault = match config.tunnel_option {
            Some(option) => self.map_option(option).await?,
            None => None,
        };
        let mut contents = self.read_unreported().await?;
        let (flows, mut watched, mut conflicts) = (&mut contents.flows, BTreeMap::new(), BTreeMap::new());
        self.dump(Flows::DUMP, Flows::request(), |message, tally| {
            let take = |key: FlowKey, flow: Flow| {
                let is_learned = config.is_learned(key.table());
                tally.described += 1;
                tally.held += usize::from(!is_learned || config.is_known_of(key.table()));
                if !is_learned {
                    flows.insert(key, flow);
                } else if config.watched_tables.contains(&key.table()) {
                    watched.insert(key, flow.cookie());
                } else if let Some(conflict) = config.conflict(&key, &flow) {
                    conflicts.insert(key, conflict);
                }
            };
            Flows::read(message, take)
        })
        .await?;
        Ok(Installed { contents, watched, conflicts, option_fault })
    }

    /// Reads the flows of a table that the match covers, for somebody else. A refusal concerns only the request.
    pub(crate) async fn learned(
        &mut self,
        table: u8,
        matches: Match,
    ) -> Result<Result<Vec<LearnedFlow>, ReadError>, SessionError> {
        let (mut flows, mut count) = (Vec::new(), 0);
        let dumped = self
            .dump(LEARNED, flows_of(table, matches), |message, tally| {
                let take = |key: FlowKey, flow: Flow| {
                    count += 1;
                    tally.described += 1;
                    if count <= LEARNED_MAX {
                        tally.held += 1;
                        flows.push(LearnedFlow::new(key, flow.cookie()));
                    }
                };
                // The connection stays, however many there are.
                Flows::read(message, take)
            })
            .await;
        Ok(match dumped {
            Ok(()) if count > LEARNED_MAX => Err(ReadError::TooMany { max: LEARNED_MAX }),
            Ok(()) => Ok(flows),
            Err(SessionError::Refused { error, .. }) => Err(ReadError::Refused(error)),
            Err(error) => return Err(error),
        })
    }

    /// Requests descriptions and passes each part of the reply to `take`, header included, which returns whether more parts follow
    /// and counts the descriptions. What is held is charged to the account of the connection until the next
    /// [`settle`](Self::settle).
    async fn dump(
        &mut self,
        dump: Dump,
        request: Body,
        mut take: impl FnMut(&[u8], &mut Tally) -> Result<Option<bool>, BadDesc>,
    ) -> Result<(), SessionError> {
        let xid = self.connection.send(request)?;
        let (observer, held) = (&self.observer, &mut self.held);
        let (mut tally, mut empty) = (Tally::default(), 0);
        let what = dump.request;
        self.connection
            .wait_for(what, |frame| {
                if frame.header.xid != xid {
                    observer.see(&frame);
                    return Ok(None);
                }
                match frame.header.kind {
                    kind::MULTIPART_REPLY => {
                        let before = (tally.described, tally.held);
                        let more = take(&frame.bytes, &mut tally)
                            .map_err(|error| malformed(error.to_string(), &frame))?;
                        let more =
                            more.ok_or_else(|| malformed("a reply to another request".to_owned(), &frame))?;
                        if tally.described > dump.max {
                            return Err(SessionError::TooMany { what: dump.what, max: dump.max });
                        }
                        empty += usize::from(tally.described == before.0);
                        if empty > EMPTY_PARTS_MAX {
                            return Err(SessionError::EmptyParts { request: what, max: EMPTY_PARTS_MAX });
                        }
                        if tally.held > before.1 {
                            let more = tally.held - before.1;
                            held.add(more * DESCRIPTION_BYTES + 2 * frame.bytes.len())?;
                        }
                        Ok((!more).then_some(()))
                    }
                    kind::ERROR => {
                        Err(SessionError::Refused { request: what, error: error::describe(&frame) })
                    }
                    other => Err(malformed(format!("a message of type {other} for {what}"), &frame)),
                }
            })
            .await
    }

    /// Notes that the driver holds so many objects of the switch that differ from what it wants, and nothing else that was read.
    pub(crate) fn settle(&mut self, differing: usize) -> Result<(), SessionError> {
        self.lasting = differing * 2 * DESCRIPTION_BYTES;
        Ok(self.held.set(self.lasting)?)
    }

    /// Notes that what was read since [`settle`](Self::settle) is not held any more.
    pub(crate) fn release(&mut self) {
        // Less never fails, unless the switch is to be disconnected, which the connection learns by itself.
        let _ = self.held.set(self.lasting);
    }
}
