//! Questions that the rules declare: listings, and counters that hosts are asked for.

use nlog_data::quotation::cut;
use serde_json::{Map, Value as Json};
use switch_model::ReadError;
use tonic::{Request, Response, Status};
use weft_core::listings::{Asked, Column, Counts, Description, NoListing, Plan};

use super::messages::chunks;
use super::{Api, account, stopping};
use weft_client::pb;

use crate::answers::{Results, all_at_once, parts};
use crate::surveys::{ask_all, unread};

type Read = Result<Response<Results<pb::ReadListingResponse>>, Status>;

impl Api {
    pub(super) async fn listing(&self, request: Request<pb::ReadListingRequest>) -> Read {
        let account = account(request.extensions());
        let pb::ReadListingRequest { listing, id, kind, details } = request.into_inner();
        let kind = match kind.as_str() {
            "" => None,
            kind => Some(self.kind(kind)?),
        };
        let turn = self.engine_turns.next(&account).await?;
        let asked = self.engine.asked(listing.clone(), kind.clone(), id.clone()).await.map_err(stopping)?;
        let asked = asked.map_err(|why| not_there(&listing, kind.as_deref(), id.as_deref(), why))?;
        if !asked.is_counted() {
            return all_at_once(account, turn, move || listed(asked)).await;
        }
        let planned = tokio::task::spawn_blocking(move || asked.plan());
        let plan = planned.await.map_err(|error| Status::internal(error.to_string()))?;
        let readings = self.engine.counts(plan.to_read()).await.map_err(stopping)?;
        drop(turn);
        let (sender, parts) = parts(account);
        let surveys = self.surveys.clone();
        tokio::spawn(async move {
            let first = pb::ReadListingResponse {
                listing: Some(message_of(plan.description())),
                nodes: readings.len() as u64,
                ..Default::default()
            };
            if sender.send(Ok(first)).await.is_some() && !readings.is_empty() {
                ask_all(readings, surveys, sender, move |host, counts| counted(&plan, host, counts, details))
                    .await;
            }
        });
        Ok(Response::new(Box::pin(parts)))
    }

    pub(super) fn listings(&self) -> pb::ListListingsResponse {
        let listings = Description::all(&self.rules()).into_iter().map(message_of);
        pb::ListListingsResponse { listings: listings.collect() }
    }
}

/// The whole answer of a listing.
fn listed(asked: Asked) -> Vec<pb::ReadListingResponse> {
    let listing = Some(message_of(asked.description()));
    let rows = asked.rows().into_iter().map(text).collect();
    let first = pb::ReadListingResponse { listing, ..Default::default() };
    let others = chunks(rows).map(|rows| pb::ReadListingResponse { rows, ..Default::default() });
    std::iter::once(first).chain(others).collect()
}

/// The answer of one host.
fn counted(
    plan: &Plan,
    host: &str,
    counts: Result<Counts, ReadError>,
    details: bool,
) -> pb::ReadListingResponse {
    match counts {
        Ok(counts) => {
            let rows = plan.answer(host, &counts, details).into_iter().map(text).collect();
            pb::ReadListingResponse { rows, ..Default::default() }
        }
        Err(error) => pb::ReadListingResponse { unread: vec![unread(host, &error)], ..Default::default() },
    }
}

fn text(row: Map<String, Json>) -> String {
    Json::Object(row).to_string()
}

fn message_of(description: Description) -> pb::Listing {
    let Description { name, kinds, doc, columns, otherwise, counted } = description;
    let column = |Column { name, number, detail }| pb::ListingColumn { name, number, detail };
    pb::Listing { name, kinds, doc, columns: columns.into_iter().map(column).collect(), otherwise, counted }
}

fn not_there(listing: &str, kind: Option<&str>, id: Option<&str>, why: NoListing) -> Status {
    Status::not_found(match why {
        NoListing::Name(there) => {
            let of = kind.map(|kind| format!(" of objects of kind {kind}")).unwrap_or_default();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            format!("the rules declare no listing {}{of}; they declare {there}", cut(listing))
        }
        NoListing::Object(kinds) => {
            format!("{} {} does not exist", kinds.join(" or "), cut(id.unwrap_or_default()))
        }
    })
}
