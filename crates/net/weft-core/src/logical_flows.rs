//! The universal flows of a datapath: what the logical network does, before the physical rules place it on hosts.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use nlog_data::Value;
use objects::ObjectKey;
use serde_json::{Map, Value as Json};

use crate::core::Core;
use crate::provenance::{Origin, Provenance};
use crate::rules::Rules;
use crate::universal::{Key, Universal};

/// The flows of a datapath, not yet listed.
#[derive(Debug, Clone)]
pub struct LogicalFlows {
    /// The object with the id.
    pub datapath: ObjectKey,
    /// The rules, to be looked up by fingerprint.
    pub rules: Arc<Rules>,
    provenance: Provenance,
    /// The owners of the flows: id spaces and ids.
    owners: BTreeSet<(String, Arc<str>)>,
}

/// A universal flow, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct LogicalFlow {
    /// The table of the rules that has it.
    pub form: String,
    /// The id space of its owner; empty if it has none.
    pub space: String,
    /// The id of the object that it is of.
    pub owner: String,
    /// The flow table.
    pub table: u8,
    /// The name of its stage; empty if it has none.
    pub stage: String,
    /// The priority.
    pub priority: u16,
    /// Its name; empty if it has none.
    pub priority_name: String,
    /// The match.
    pub matches: String,
    /// The actions, if they do not depend on the host.
    pub actions: Option<String>,
    /// The other columns, by name.
    pub columns: Map<String, Json>,
    /// The fingerprint of the rule that derived it.
    pub rule: u64,
}

impl LogicalFlows {
    /// The flows of the object with this id and of the objects that refer to it. None if no object that owns universal
    /// flows has the id.
    pub fn of(core: &Core, id: &str) -> Option<LogicalFlows> {
        let rules = core.rules();
        let owning = |key: &ObjectKey| {
            let space = &rules.kinds().get(&key.kind)?.declared().id_space;
            let owns = rules.universal.iter().any(|form| form.space.as_ref() == Some(space));
            owns.then(|| (space.clone(), key.id.clone()))
        };
        let named = rules.kinds().iter().map(|kind| ObjectKey::new(kind.name(), id));
        let mut named = named.filter(|key| core.objects().get(key).is_some() && owning(key).is_some());
        // A port can have the id of a switch. The datapath is the one that others refer to.
        let first = named.next()?;
        let refers = |key: &ObjectKey| core.objects().referrers(key).next().is_some();
        let datapath = if refers(&first) { first } else { named.find(refers).unwrap_or(first) };
        let referrers = core.objects().referrers(&datapath);
        let owners = std::iter::once(datapath.clone()).chain(referrers).filter_map(|key| owning(&key));
        let owners = owners.collect();
        Some(LogicalFlows { datapath, rules: rules.clone(), provenance: core.provenance(), owners })
    }

    /// The flows in reading order.
    pub fn list(&self) -> Vec<LogicalFlow> {
        let forms = &self.rules.universal;
        let owns = |form: u8, id: &str| match &forms[usize::from(form)].space {
            None => true,
            Some(space) => self.owners.contains(&(space.clone(), Arc::from(id))),
        };
        let found = self.provenance.flows(owns);
        let flows = found
            .map(|(key, (form, owner), origin)| self.flow(&forms[usize::from(*form)], key, owner, origin));
        let mut flows: Vec<LogicalFlow> = flows.collect();
        flows.sort_by(|a, b| {
            let order = |flow: &LogicalFlow| (flow.table, Reverse(flow.priority));
            let rest = |flow: &LogicalFlow| (flow.matches.clone(), flow.owner.clone(), flow.form.clone());
            order(a).cmp(&order(b)).then_with(|| rest(a).cmp(&rest(b)))
        });
        flows
    }

    fn flow(
        &self,
        form: &Universal,
        (table, priority, matching): &Key,
        owner: &str,
        origin: &Origin,
    ) -> LogicalFlow {
        let names = self.rules.names();
        let mut actions = None;
        let mut columns = Map::new();
        for (name, value) in form.rest(&origin.rest) {
            match value {
                Value::Actions(list) => actions = Some(names.actions_text(&list.get())),
                Value::String(text) => drop(columns.insert(name.to_owned(), Json::from(&**text))),
                other => drop(columns.insert(name.to_owned(), Json::from(other.to_string()))),
            }
        }
        LogicalFlow {
            form: form.name.clone(),
            space: form.space.clone().unwrap_or_default(),
            owner: owner.to_owned(),
            table: *table,
            stage: names.stage_name(*table).unwrap_or_default().to_owned(),
            priority: *priority,
            priority_name: names.priority_name(*table, *priority).unwrap_or_default().to_owned(),
            matches: names.match_text(&matching.get()),
            actions,
            columns,
            rule: origin.rule,
        }
    }
}
