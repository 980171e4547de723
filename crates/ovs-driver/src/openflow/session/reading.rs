//! What a session reads: groups, meters, flows, and what meters and flows have counted.

use std::collections::BTreeMap;

use openflow_rs::message::{FlowDescRequest, GroupDescRequest};
use openflow_rs::{Body, GroupEntry, Match, MeterEntry};

use super::{FLOWS_MAX, Session, malformed};
use crate::config::Config;
use crate::flow::{Flow, FlowKey};
use crate::forwarding::Installed;
use crate::learned::{self, FlowCount, LEARNED_MAX, LearnedFlow, ReadError, SeenFlow};
use crate::meter::MeterCount;
use crate::openflow::connection::SessionError;
use crate::openflow::error;
use crate::openflow::groups::{self, Groups};
use crate::openflow::meters::{self, Meters};
use crate::openflow::wire::{self, BadDesc, HEADER_LEN, kind};

impl Session {
    /// Reads all groups.
    pub(crate) async fn read_groups(&mut self) -> Result<Groups, SessionError> {
        let mut groups = Groups::new();
        let request = Body::GroupDescRequest(GroupDescRequest { group: GroupEntry::ALL });
        self.dump("the group dump", request, |body| {
            groups::group_descs(body, |id, part| drop(groups.insert(id, part))).map(|more| (more, 0))
        })
        .await?;
        Ok(groups)
    }

    /// Reads all meters. A datapath without meters has none.
    pub(crate) async fn read_meters(&mut self) -> Result<Meters, SessionError> {
        let mut read = Meters::new();
        let request = Body::MeterDescRequest(MeterEntry::ALL);
        let dumped = self
            .dump_whole("the meter dump", request, |message| {
                meters::descriptions(message, &mut read).map(|more| (more, 0))
            })
            .await;
        match dumped {
            Ok(()) => Ok(read),
            Err(SessionError::Refused { error, .. }) => {
                tracing::debug!(error, "the switch describes no meters");
                Ok(Meters::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads what the meters have counted, for somebody else. A refusal concerns only the request.
    pub(crate) async fn meter_counts(&mut self) -> Result<Result<Vec<MeterCount>, ReadError>, SessionError> {
        let mut counts = Vec::new();
        let request = Body::MeterStatsRequest(MeterEntry::ALL);
        let dumped = self
            .dump_whole("the counters of meters", request, |message| {
                meters::counts(message, &mut counts).map(|more| (more, 0))
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
            let request = Body::FlowDescRequest(learned::request(key.table(), matching));
            let dumped = self
                .dump_whole("the counters of a flow", request, |message| {
                    wire::flow_count(message, key, &mut counts).map(|more| (more, 0))
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

    /// Reads the flows of a table, for somebody else. A refusal concerns only the request.
    pub(crate) async fn table_flows(
        &mut self,
        table: u8,
    ) -> Result<Result<Vec<SeenFlow>, ReadError>, SessionError> {
        let (mut flows, mut is_long) = (Vec::new(), false);
        let request = Body::FlowDescRequest(learned::request(table, Match::any()));
        let dumped = self
            .dump_whole("the flows of a table", request, |message| {
                is_long |= flows.len() > LEARNED_MAX;
                // The connection stays, however many there are.
                let mut rest = Vec::new();
                let into = if is_long { &mut rest } else { &mut flows };
                wire::seen_flows(message, into).map(|more| (more, 0))
            })
            .await;
        match dumped {
            Ok(()) if is_long => Ok(Err(ReadError::TooMany { max: LEARNED_MAX })),
            Ok(()) => Ok(Ok(flows)),
            Err(SessionError::Refused { error, .. }) => Ok(Err(ReadError::Refused(error))),
            Err(error) => Err(error),
        }
    }

    /// Reads all groups, meters and flows, of tables that the switch itself fills only those of watched ones. First maps the tunnel
    /// option to a field if it is not mapped, since flows need it.
    pub(crate) async fn read(&mut self, config: &Config) -> Result<Installed, SessionError> {
        let option_fault = match config.tunnel_option {
            Some(option) => self.map_option(option).await?,
            None => None,
        };
        let groups = self.read_groups().await?;
        let meters = self.read_meters().await?;
        let mut flows: BTreeMap<FlowKey, Flow> = BTreeMap::new();
        let mut watched = BTreeMap::new();
        self.dump("the flow dump", Body::FlowDescRequest(FlowDescRequest::all()), |body| {
            let take = |key: FlowKey, flow: Flow| {
                if !config.is_learned(key.table()) {
                    flows.insert(key, flow);
                } else if config.watched_tables.contains(&key.table()) {
                    watched.insert(key, flow.cookie());
                }
            };
            wire::flow_descs(body, take).map(|more| (more, flows.len()))
        })
        .await?;
        Ok(Installed { groups, flows, meters, watched, option_fault })
    }

    /// Reads some flows for somebody else. A refusal concerns only the request.
    pub(crate) async fn learned(
        &mut self,
        request: FlowDescRequest,
    ) -> Result<Result<Vec<LearnedFlow>, ReadError>, SessionError> {
        let (mut flows, mut count) = (Vec::new(), 0);
        let dumped = self
            .dump("the dump of learned flows", Body::FlowDescRequest(request), |body| {
                let take = |key: FlowKey, flow: Flow| {
                    count += 1;
                    if count <= LEARNED_MAX {
                        flows.push(LearnedFlow::new(key, flow.cookie()));
                    }
                };
                // The connection stays, however many there are.
                wire::flow_descs(body, take).map(|more| (more, 0))
            })
            .await;
        Ok(match dumped {
            Ok(()) if count > LEARNED_MAX => Err(ReadError::TooMany { max: LEARNED_MAX }),
            Ok(()) => Ok(flows),
            Err(SessionError::Refused { error, .. }) => Err(ReadError::Refused(error)),
            Err(error) => return Err(error),
        })
    }

    /// Requests descriptions and passes each part of the reply to `take`, which returns whether more parts follow and
    /// the number of flows so far.
    async fn dump(
        &mut self,
        what: &'static str,
        request: Body,
        mut take: impl FnMut(&[u8]) -> Result<(Option<bool>, usize), BadDesc>,
    ) -> Result<(), SessionError> {
        let take = |message: &[u8]| take(message.get(HEADER_LEN..).unwrap_or_default());
        self.dump_whole(what, request, take).await
    }

    /// As [`dump`](Self::dump); `take` gets whole messages, headers included.
    async fn dump_whole(
        &mut self,
        what: &'static str,
        request: Body,
        mut take: impl FnMut(&[u8]) -> Result<(Option<bool>, usize), BadDesc>,
    ) -> Result<(), SessionError> {
        let xid = self.connection.send(request)?;
        let observer = &self.observer;
        self.connection
            .wait_for(what, |frame| {
                if frame.header.xid != xid {
                    observer.see(&frame);
                    return Ok(None);
                }
                match frame.header.kind {
                    kind::MULTIPART_REPLY => {
                        let (more, flows) =
                            take(&frame.bytes).map_err(|error| malformed(error.to_string(), &frame))?;
                        let more =
                            more.ok_or_else(|| malformed("a reply to another request".to_owned(), &frame))?;
                        if flows > FLOWS_MAX {
                            return Err(SessionError::TooManyFlows { max: FLOWS_MAX });
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
}
