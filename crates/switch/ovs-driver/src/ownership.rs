//! Whose a switch is: one bridge belongs to one transport node of one controller, in its latest start.
//!
//! The bridge's external ids say so, and outlive both. The driver compares this *mark* with its own [`Owner`] before it writes
//! anything else, takes the server's lock [`LOCK`], which every later transaction asserts, and writes its mark. A driver that finds the
//! mark of another controller, of a later start of the same one, or of another node that has the switch, writes nothing. Over
//! OpenFlow, the epoch is the generation with which the driver asks to be the primary controller.
//!
//! A switch without a mark belongs to the first driver that finds it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ovsdb_client::open_vswitch::Bridge;
use ovsdb_client::{Condition, Datum, Mutation, Mutator, Operation, Row};
use uuid::Uuid;

/// The lock of the database server that the owner of a bridge holds.
pub(crate) const LOCK: &str = "weft";

/// The keys of the mark in a bridge's external ids.
pub(crate) const KEYS: [&str; 5] = [CONTROLLER, EPOCH, HOST, NODE, SINCE];
const CONTROLLER: &str = "weft-controller";
const EPOCH: &str = "weft-epoch";
const HOST: &str = "weft-host";
const NODE: &str = "weft-node";
const SINCE: &str = "weft-since";

/// A controller, as its switches know it, and which of its transport nodes has which switch. Its drivers share it.
#[derive(Debug)]
pub struct Owner {
    controller: String,
    host: String,
    since: String,
    take_over: bool,
    nodes: Mutex<Nodes>,
}

#[derive(Debug, Default)]
struct Nodes {
    /// The number of the present start. It grows beyond the epochs of other controllers whose switches this one gets, because a
    /// switch that has had a primary controller takes no lower generation.
    epoch: u64,
    /// The transport nodes, each with the switch that its driver has found.
    found: BTreeMap<String, Option<SwitchId>>,
    /// By switch, the node that has it.
    claims: BTreeMap<SwitchId, String>,
}

/// A switch, by whatever address it is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SwitchId {
    /// The row of the bridge.
    pub(crate) bridge: Uuid,
    /// The OpenFlow datapath id of the bridge. Hosts made from one image have equal rows.
    pub(crate) datapath_id: u64,
    /// `external_ids:system-id` of the host.
    pub(crate) system_id: Option<String>,
}

/// Why a driver may not write to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Whose the switch is, and the remedy.
    pub(crate) why: String,
    /// Whether it is the switch of another node of the same controller.
    pub(crate) by_node: bool,
}

/// The result of comparing a mark with the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The mark is the owner's.
    Marked,
    /// The owner may write its mark.
    Free,
}

impl Owner {
    /// A controller: what identifies its journal, the number of its present start, which is greater than those of all earlier
    /// ones, the name of its host, and when it started.
    pub fn new(
        controller: impl Into<String>,
        epoch: u64,
        host: impl Into<String>,
        since: impl Into<String>,
    ) -> Owner {
        Owner {
            controller: controller.into(),
            host: host.into(),
            since: since.into(),
            take_over: false,
            nodes: Mutex::new(Nodes { epoch, ..Nodes::default() }),
        }
    }

    /// Whether it takes the switches of other controllers.
    #[must_use]
    pub fn taking_over(mut self, take_over: bool) -> Owner {
        self.take_over = take_over;
        self
    }

    /// The generation with which its drivers ask to be the primary controller.
    pub(crate) fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    /// Announces transport nodes whose drivers start soon. A switch that is marked for one of them waits for it.
    pub fn expect(&self, nodes: impl IntoIterator<Item = String>) {
        let mut known = self.lock();
        for node in nodes {
            known.found.entry(node).or_default();
        }
    }

    /// Forgets a node whose driver has ended.
    pub(crate) fn forget(&self, node: &str) {
        let mut nodes = self.lock();
        nodes.found.remove(node);
        nodes.claims.retain(|_, by| by != node);
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mark for a node's switch.
    pub(crate) fn mark(&self, node: &str) -> BTreeMap<String, String> {
        let epoch = self.epoch().to_string();
        let values = [&self.controller, &epoch, &self.host, node, &self.since];
        KEYS.iter().zip(values).map(|(key, value)| ((*key).to_owned(), value.to_owned())).collect()
    }

    /// Claims a switch with these external ids of its bridge for a node. The claim holds until the node finds another switch or is
    /// forgotten.
    pub(crate) fn claim(
        &self,
        node: &str,
        switch: &SwitchId,
        external_ids: &BTreeMap<String, String>,
    ) -> Result<Verdict, Refused> {
        let says = |key: &str| external_ids.get(key).map_or("", String::as_str);
        let mut nodes = self.lock();
        nodes.found.insert(node.to_owned(), Some(switch.clone()));
        nodes.claims.retain(|claimed, by| by != node || claimed == switch);
        let epoch: u64 = says(EPOCH).parse().unwrap_or(0);
        let controller = external_ids.get(CONTROLLER);
        if controller.is_none_or(|controller| *controller != self.controller) {
            if controller.is_some() && !self.take_over {
                return Err(other_controller(external_ids));
            }
            nodes.claim(node, switch, None)?;
            nodes.epoch = nodes.epoch.max(epoch.saturating_add(1));
            return Ok(Verdict::Free);
        }
        if epoch > nodes.epoch {
            return Err(later_start(external_ids));
        }
        nodes.claim(node, switch, Some(says(NODE)))?;
        drop(nodes);
        let is_marked = self.mark(node).iter().all(|(key, value)| external_ids.get(key) == Some(value));
        Ok(if is_marked { Verdict::Marked } else { Verdict::Free })
    }
}

/// The operations that mark a bridge, as long as its external ids are those that were read.
pub(crate) fn marking(bridge: &Bridge, mark: &BTreeMap<String, String>) -> [Operation; 2] {
    let as_read = Row::new(Bridge::TABLE).with("external_ids", bridge.external_ids.clone());
    // An insert keeps the value of an existing key, so former values are deleted first.
    let mutations = vec![
        Mutation::new("external_ids", Mutator::Delete, Datum::set(KEYS)),
        Mutation::new("external_ids", Mutator::Insert, mark.clone()),
    ];
    let here = vec![Condition::uuid(bridge.uuid)];
    [Operation::guard(bridge.uuid, as_read), Operation::mutate(Bridge::TABLE, here, mutations)]
}

/// Two owners are equal if switches cannot tell them apart.
impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        (&self.controller, self.epoch()) == (&other.controller, other.epoch())
    }
}

impl Eq for Owner {}

impl Nodes {
    /// Claims a switch for a node, unless another one has it, or had it last (`marked`) and may come for it.
    fn claim(&mut self, node: &str, switch: &SwitchId, marked: Option<&str>) -> Result<(), Refused> {
        if let Some(by) = self.claims.get(switch) {
            return if by == node { Ok(()) } else { Err(other_node(node, by, switch)) };
        }
        if let Some(marked) = marked.filter(|marked| *marked != node) {
            match self.found.get(marked) {
                Some(None) => return Err(awaited_node(node, marked, switch)),
                Some(Some(found)) if found == switch => return Err(other_node(node, marked, switch)),
                // It is gone, or it has another switch now.
                _ => {}
            }
        }
        self.claims.insert(switch.clone(), node.to_owned());
        Ok(())
    }
}

/// What a mark says, for people. Whoever may write to the database may have written it.
fn shown(ids: &BTreeMap<String, String>, key: &str) -> String {
    printable(ids.get(key).map_or("?", String::as_str))
}

fn other_controller(ids: &BTreeMap<String, String>) -> Refused {
    let says = |key: &str| shown(ids, key);
    let why = format!(
        "it belongs to another controller: the one of host {}, since {}, as transport node {} ({CONTROLLER} {}); nothing is sent to it. \
         Delete that node there, or if that controller is gone for good, let this one take over: `ovs-vsctl remove bridge br-int \
         external_ids {CONTROLLER}` on the switch's host, or `take_over = true` in the configuration for all switches",
        says(HOST),
        says(SINCE),
        says(NODE),
        says(CONTROLLER),
    );
    Refused { why, by_node: false }
}

fn later_start(ids: &BTreeMap<String, String>) -> Refused {
    let says = |key: &str| shown(ids, key);
    let why = format!(
        "a later start of this controller has taken it over: on host {}, since {} ({EPOCH} {}); nothing is sent to it any more. Two \
         controllers run with copies of one journal: stop one of them. The one that is started last has the switches",
        says(HOST),
        says(SINCE),
        says(EPOCH),
    );
    Refused { why, by_node: false }
}

fn name(switch: &SwitchId) -> String {
    let system_id = switch.system_id.as_deref().unwrap_or("not set");
    format!("datapath id {:016x}, system-id {}", switch.datapath_id, printable(system_id))
}

fn other_node(node: &str, other: &str, switch: &SwitchId) -> Refused {
    let why = format!(
        "transport nodes {other} and {node} lead to one switch ({}), which is {other}'s; nothing is sent to it for {node}: delete one of \
         the two nodes, or correct `ovsdb` and `openflow` of {node}",
        name(switch)
    );
    Refused { why, by_node: true }
}

/// A switch that dials in as this node gives itself another name.
pub(crate) fn other_system_id(node: &str, system_id: Option<&str>) -> Refused {
    let says = match system_id {
        Some(system_id) => format!("its external_ids:system-id is {}", printable(system_id)),
        None => "it has no external_ids:system-id".to_owned(),
    };
    let why = format!(
        "the switch has dialled in with the certificate of {node}, but {says}; nothing is sent to it. If it is {node}, run `ovs-vsctl set \
         open_vswitch . external_ids:system-id={node}` on its host; Debian's packages keep the id in /etc/openvswitch/system-id.conf \
         as well, and restore it from there"
    );
    // What this controller knew of the node stays: this may be no switch of its own at all.
    Refused { why, by_node: false }
}

/// A text of a switch that can be shown.
fn printable(text: &str) -> String {
    const LENGTH_MAX: usize = 80;
    text.chars().filter(|character| !character.is_control()).take(LENGTH_MAX).collect()
}

fn awaited_node(node: &str, other: &str, switch: &SwitchId) -> Refused {
    let why = format!(
        "this switch ({}) was last that of transport node {other}, which has not connected yet; nothing is sent to it for {node} until \
         {other} has connected to another switch or is deleted",
        name(switch)
    );
    Refused { why, by_node: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(n: u64) -> SwitchId {
        SwitchId { bridge: Uuid::from_u64_pair(0, n), datapath_id: n, system_id: None }
    }

    fn owner(controller: &str, epoch: u64) -> Owner {
        Owner::new(controller, epoch, "ctl", "2026-11-25T00:00:00Z")
    }

    #[test]
    fn d18_the_first_node_keeps_a_switch_also_over_restarts() {
        let first = owner("a", 1);
        let none = BTreeMap::new();
        assert_eq!(first.claim("hv2", &switch(1), &none), Ok(Verdict::Free));
        let why = first.claim("hv1", &switch(1), &none).expect_err("it is hv2's").why;
        assert!(why.contains("hv1 and hv2") || why.contains("hv2 and hv1"), "{why}");
        assert_eq!(first.claim("hv1", &switch(2), &none), Ok(Verdict::Free), "another switch");

        // After a restart, whoever connects first.
        let mark = first.mark("hv2");
        for hv2_first in [false, true] {
            let again = owner("a", 2);
            again.expect(["hv1".to_owned(), "hv2".to_owned()]);
            if hv2_first {
                assert_eq!(again.claim("hv2", &switch(1), &mark), Ok(Verdict::Free));
            }
            let refused = again.claim("hv1", &switch(1), &mark).expect_err("hv2 has it");
            assert!(refused.by_node && refused.why.contains("hv2"), "{refused:?}");
            assert_eq!(again.claim("hv2", &switch(1), &mark), Ok(Verdict::Free));
            let marked = again.mark("hv2");
            assert_eq!(again.claim("hv2", &switch(1), &marked), Ok(Verdict::Marked));
            again.forget("hv2");
            assert_eq!(again.claim("hv1", &switch(1), &marked), Ok(Verdict::Free), "hv2 is deleted");
        }
    }

    #[test]
    fn d18_nodes_that_exchange_their_switches_do_not_wait_for_each_other_for_ever() {
        let former = owner("a", 1);
        let (first, second) = (former.mark("hv1"), former.mark("hv2"));
        let owner = owner("a", 2);
        owner.expect(["hv1".to_owned(), "hv2".to_owned()]);
        assert!(owner.claim("hv1", &switch(2), &second).is_err(), "hv2 may be there too");
        assert_eq!(owner.claim("hv2", &switch(1), &first), Ok(Verdict::Free));
        assert_eq!(owner.claim("hv1", &switch(2), &second), Ok(Verdict::Free));
    }

    #[test]
    fn d19_d30_the_latest_start_of_one_controller_has_a_switch() {
        let mark = owner("a", 5).mark("hv1");
        let claim = |owner: &Owner| owner.claim("hv1", &switch(1), &mark);
        assert_eq!(claim(&owner("a", 5)), Ok(Verdict::Marked));
        assert_eq!(claim(&owner("a", 6)), Ok(Verdict::Free));
        let why = claim(&owner("a", 4)).expect_err("a later start").why;
        assert!(why.contains("later start") && why.contains("ctl"), "{why}");
        let why = claim(&owner("b", 9)).expect_err("another journal").why;
        assert!(
            why.contains("another controller") && why.contains("2026-11-25") && why.contains("remove"),
            "{why}"
        );
        let heir = owner("b", 1).taking_over(true);
        assert_eq!(claim(&heir), Ok(Verdict::Free));
        assert_eq!(heir.epoch(), 6, "a switch takes no lower generation than before");
        let mut removed = mark.clone();
        removed.remove(CONTROLLER);
        assert_eq!(owner("b", 1).claim("hv1", &switch(1), &removed), Ok(Verdict::Free), "removed on purpose");
    }
}
