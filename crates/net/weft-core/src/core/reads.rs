//! Reads of the state: what objects, rules and switches are at this moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{CommitError, Memories};
use objects::{ObjectStore, Rows};
use serde_json::{Map, Value as Json};
use switch_model::{Desired, FlowKey};

use super::{Core, DesiredCounts, Given, NodeDesired, ObjectStatus, Problem, SwitchAddress};
use crate::derived::DesiredStates as _;
use crate::derived::drop_causes::DropCauses;
use crate::derived::listings::Listings;
use crate::derived::probe_plan::ProbePlan;
use crate::neighbourhood::{Neighbourhood, Search};
use crate::provenance::Provenance;
use crate::rules::Rules;

impl Core {
    /// The objects in force.
    pub fn objects(&self) -> &ObjectStore {
        &self.objects
    }

    /// The loaded rules.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// The desired state of a transport node's switch.
    pub fn desired(&self, node: &str) -> Arc<Desired> {
        self.desired.get(node).map(|desired| desired.state.clone()).unwrap_or_default()
    }

    /// The cookie of a flow of a transport node's switch, if it has the flow.
    pub(crate) fn cookie(&self, node: &str, key: &FlowKey) -> Option<u64> {
        self.desired.cookie(node, key)
    }

    /// What a driver of a transport node's switch begins with: the desired state, and what is to be announced.
    pub(crate) fn given(&self, node: &str) -> Given {
        Given { desired: self.desired(node), announcing: self.announcements.of(node) }
    }

    /// The size of the desired state of a transport node's switch. Takes constant time.
    pub fn desired_counts(&self, node: &str) -> DesiredCounts {
        let Some(NodeDesired { state, groups }) = self.desired.get(node) else {
            return DesiredCounts::default();
        };
        DesiredCounts {
            flows: state.flows.len(),
            groups: *groups,
            tunnels: state.tunnels.len(),
            patches: state.patches.len(),
        }
    }

    /// A snapshot of the logical rules behind flows that the physical rules only placed. Cheap.
    pub fn provenance(&self) -> Provenance {
        self.derived.provenance.clone()
    }

    /// The rows of listings and of tables of counters.
    pub(crate) fn listings(&self) -> &Listings {
        &self.derived.listings
    }

    /// The flows whose packets are counted for an object, as switches have them.
    pub fn flows_counted_for(&self, kind: &str, id: &str) -> BTreeSet<FlowKey> {
        self.derived.listings.flows_of(&self.rules, kind, id)
    }

    /// What the rules say of drops.
    pub fn drop_causes(&self) -> &Arc<DropCauses> {
        &self.derived.drop_causes
    }

    /// What the rules say of probes.
    pub(crate) fn probe_plan(&self) -> &ProbePlan {
        &self.derived.probes
    }

    /// The state of an object, by the names of the columns in which the rules say it.
    pub fn state_of(&self, kind: &str, id: &str) -> Map<String, Json> {
        self.derived.status.state_of(kind, id, &self.rules)
    }

    /// The states of all objects.
    pub(crate) fn object_status(&self) -> &ObjectStatus {
        &self.derived.status
    }

    /// The addresses of all managed switches, by transport node.
    pub fn addresses(&self) -> impl Iterator<Item = (&String, &Arc<SwitchAddress>)> {
        self.derived.addresses.iter()
    }

    /// Whether the switch of a transport node is managed.
    pub fn is_managed(&self, node: &str) -> bool {
        self.derived.addresses.contains(node)
    }

    /// Requests of objects that the network currently cannot fulfil, ordered by the objects' kind and id.
    pub fn problems(&self) -> impl Iterator<Item = &Arc<Problem>> {
        self.derived.status.problems()
    }

    /// The input rows that concern ports with these ids; all of a network with at most `whole_max` objects.
    ///
    /// # Errors
    /// The engine fails.
    pub(crate) fn neighbourhood(
        &mut self,
        ports: &[String],
        whole_max: usize,
    ) -> Result<Neighbourhood, CommitError> {
        let Core { evaluator, rules, objects, reports, .. } = self;
        let evaluator = &mut **evaluator;
        Search { rules, objects, reports, evaluator, whole_max }.around(ports)
    }

    /// What hooks remember.
    pub fn memories(&self) -> Memories {
        self.evaluator.memories()
    }

    /// The rows of what the switch of a transport node has reported, as inserted ones.
    pub(crate) fn reported(&self, node: &str) -> Rows {
        self.reports.rows_of(node)
    }

    /// The desired states of all switches that have one, by transport node. Shared.
    pub fn all_desired(&self) -> BTreeMap<String, Arc<Desired>> {
        self.desired.iter().map(|(node, desired)| (node.clone(), desired.state.clone())).collect()
    }

    /// The number of virtual interfaces that a transport node has reported.
    pub fn vif_count(&self, node: &str) -> usize {
        self.reports.vif_count(node)
    }

    /// The number of the last transaction; 0 if there is none.
    pub fn last_txn(&self) -> u64 {
        self.last_txn
    }
}
