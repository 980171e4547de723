//! A recorded state whose hosts have other switches, so that a controller can run it somewhere else and reaches none of the switches that it
//! was recorded of.
//!
//! Only the objects of hosts change, and the rows of these. Reports and what hooks remember stay, so ports stay where they were and keep
//! their numbers. Fields of hosts have the names that `weft lab nodes` prints.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use nlog_data::json::to_json;
use objects::{Object, ObjectKey, ObjectStore};
use serde_json::{Map, Value as Json};

use crate::record::{Base, ObjectText, Record};
pub use crate::reports::Interface;
use crate::reports::Reports;
use crate::restore::{RestoreError, objects_of};
use crate::rules::Rules;
use crate::rules_versions::{RulesVersion, RulesVersions};

/// The fields of a host with what a controller dials.
const ENDPOINTS: [&str; 2] = ["ovsdb", "openflow"];
/// The field of a host with the address of its tunnels.
const IP: &str = "ip";
/// The field of a host with its bridge on each physical network.
const MAPPINGS: &str = "bridge_mappings";
/// The field of a host that says which datapath its bridge has, and the only one that needs no kernel module.
const DATAPATH: (&str, &str) = ("datapath_type", "netdev");

/// Why a recorded state cannot be run somewhere else.
#[derive(Debug, thiserror::Error)]
pub enum RelocateError {
    /// The record is a single transaction.
    #[error("the record has no whole state; use a snapshot")]
    NoBase,
    /// The rules say nothing of hosts.
    #[error("the recorded rules have no kind of hosts: no table switch_address with a reference")]
    NoHosts,
    /// The kind of hosts lacks a field.
    #[error(
        "the kind {kind} of the recorded rules has no field {field}, so it is not known which switches a \
         controller would reach; such rules cannot run in a lab"
    )]
    NoField {
        /// The kind of hosts.
        kind: String,
        /// The field.
        field: &'static str,
    },
    /// The state does not fit the rules.
    #[error(transparent)]
    Refused(#[from] RestoreError),
}

/// The switch that a host has from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The address of its tunnels; `None` if it stays.
    pub ip: Option<IpAddr>,
    /// Its OVSDB endpoint.
    pub ovsdb: String,
    /// The OpenFlow endpoint of its integration bridge.
    pub openflow: String,
    /// Its bridge on each physical network.
    pub bridge_mappings: BTreeMap<String, String>,
}

/// A recorded state: what the records up to some transaction add up to.
pub struct Recording<'a> {
    record: &'a Record,
    rules: &'a Rules,
    host_kind: &'a str,
    objects: ObjectStore,
    reports: Reports,
}

impl<'a> Recording<'a> {
    /// The state of a record with a [`Base`], and the rules that it was recorded with.
    ///
    /// # Errors
    /// The record has no base, or does not fit the rules; or these say nothing of hosts.
    pub fn of(record: &'a Record, rules: &'a Rules) -> Result<Self, RelocateError> {
        if record.base.is_none() {
            return Err(RelocateError::NoBase);
        }
        let host_kind = rules.host_kind().ok_or(RelocateError::NoHosts)?;
        let kind = rules.kinds().get(host_kind).ok_or(RelocateError::NoHosts)?;
        if let Some(field) = ENDPOINTS.into_iter().find(|field| kind.declared().field(field).is_none()) {
            return Err(RelocateError::NoField { kind: host_kind.to_owned(), field });
        }
        let mut reports = Reports::default();
        let restored = reports.restore(record);
        restored.map_err(|why| RestoreError::Record { txn: record.txn, why })?;
        Ok(Recording { record, rules, host_kind, objects: objects_of(record, rules.kinds())?, reports })
    }

    /// The objects.
    pub fn objects(&self) -> &ObjectStore {
        &self.objects
    }

    /// The objects that are hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.list(self.host_kind)
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(&ObjectKey::new(self.host_kind, name))
    }

    /// The interfaces that a host reported last, by the ids of their ports.
    pub fn interfaces(&self, host: &str) -> Vec<Interface> {
        self.reports.interfaces(host)
    }

    /// The objects that the rules give a place on a host.
    pub fn ports(&self) -> impl Iterator<Item = &Arc<Object>> {
        let objects = self.objects.iter().map(|(_, object)| object);
        objects.filter(|object| self.rules.has_place(object.kind().name()))
    }

    /// The state with other switches: hosts have those of `places`, and all others have sockets in the folder `nowhere`, which must not
    /// exist. A controller that is configured with other rules runs the recorded ones.
    ///
    /// # Errors
    /// The hosts do not fit the rules any more.
    pub fn at(
        &self,
        places: &BTreeMap<String, Place>,
        nowhere: &Path,
        configured: &Rules,
    ) -> Result<Record, RelocateError> {
        let base = self.record.base.as_ref().ok_or(RelocateError::NoBase)?;
        let moved = self.objects.iter().zip(1..).map(|((_, object), number)| {
            if object.kind().name() != self.host_kind {
                return ObjectText::of(object);
            }
            let mut fields = fields(object);
            match places.get(&**object.id()) {
                Some(place) => place.set(&mut fields, object),
                None => hide(&mut fields, nowhere, number),
            }
            Json::Object(fields).into()
        });
        let mut record = self.record.clone();
        record.objects.put = moved.collect();
        let revisions = self.objects.iter().map(|(_, object)| object.revision()).collect();
        record.base = Some(Box::new(Base {
            revisions,
            answered: Vec::new(),
            versions: self.versions(base, configured),
            ..(**base).clone()
        }));
        // In their canonical form, and checked again.
        let objects = objects_of(&record, self.rules.kinds())?;
        record.objects.put = objects.iter().map(|(_, object)| ObjectText::of(object)).collect();
        let rows = objects.list(self.host_kind).map(|host| host.row().iter().map(to_json).collect());
        record.insert.insert(self.host_kind.into(), rows.collect());
        Ok(record)
    }

    /// The recorded rules as those that were loaded in place of the configured ones, if they are others.
    fn versions(&self, base: &Base, configured: &Rules) -> RulesVersions {
        let instead_of = configured.version();
        let recorded = base.rules.clone().or_else(|| self.rules.text());
        match recorded.filter(|text| Some(text.fingerprint()) != instead_of) {
            None => RulesVersions::default(),
            Some(text) => RulesVersions::of(RulesVersion {
                txn: self.record.txn,
                at: self.record.at.clone(),
                by: self.record.by.clone(),
                instead_of,
                text: Arc::new(text),
            }),
        }
    }
}

/// The fields of an object in its document.
fn fields(object: &Object) -> Map<String, Json> {
    serde_json::from_str(&object.to_json())
        .unwrap_or_else(|error| unreachable!("an object prints as JSON: {error}"))
}

impl Place {
    fn set(&self, fields: &mut Map<String, Json>, host: &Object) {
        for (field, endpoint) in ENDPOINTS.into_iter().zip([&self.ovsdb, &self.openflow]) {
            fields.insert(field.to_owned(), endpoint.as_str().into());
        }
        if let Some(ip) = self.ip {
            fields.insert(IP.to_owned(), ip.to_string().into());
        }
        if host.value(MAPPINGS).is_some() {
            fields.insert(MAPPINGS.to_owned(), serde_json::json!(self.bridge_mappings));
        }
        let (datapath, userspace) = DATAPATH;
        if fields.get(datapath).is_some_and(|datapath| datapath != userspace) {
            fields.remove(datapath);
        }
    }
}

/// Gives a host endpoints that lead nowhere in the place of its own. Without any, it would count as a host that connects by itself.
fn hide(fields: &mut Map<String, Json>, nowhere: &Path, number: usize) {
    for field in ENDPOINTS {
        if let Some(endpoint) = fields.get_mut(field).filter(|endpoint| !endpoint.is_null()) {
            *endpoint = format!("unix:{}/{number}.{field}", nowhere.display()).into();
        }
    }
}
