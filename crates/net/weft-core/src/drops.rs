//! Why packets are dropped. The rules say which flows and meters count which cause ([`DropCauses`]); whose flows these are follows from
//! the universal flows ([`Scope`]), and meters are of whole hosts. The switches are asked for the counters when somebody wants to know
//! (`controller::flow_counts`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use nlog_data::Value;
use objects::ObjectKey;
use openflow_rs::Field;
use switch_model::{Desired, FlowKey};

use crate::core::Core;
use crate::derived::drop_causes::{Counters, DropCauses};
use crate::provenance::Provenance;
use crate::rules::Rules;

/// The name of the column by which a delivery names the port that it leads to.
const PORT: &str = "port";

/// Of what drops are counted.
#[derive(Debug)]
pub enum Scope {
    /// Of nothing.
    Nothing,
    /// Of all hosts.
    Network,
    /// Of a host.
    Host(String),
    /// Of an object that packets pass, and of those that refer to it.
    Object(OfObject),
}

/// An object that packets pass, such as a port or a switch.
#[derive(Debug)]
pub struct OfObject {
    /// The objects whose flows count: by id, their id spaces.
    owners: HashMap<Arc<str>, BTreeSet<String>>,
    /// The id of the object if it is no datapath: flows of its datapaths that lead to it count too.
    port: Option<Arc<str>>,
    /// The datapaths: their id spaces, their ids, and their numbers in metadata.
    datapaths: Vec<(String, Arc<str>, u64)>,
}

impl Scope {
    /// That of an object.
    pub fn of(core: &Core, kind: &str, id: &str) -> Scope {
        let rules = core.rules();
        let key = ObjectKey::new(kind, id);
        let Some(object) = core.objects().get(&key) else { return Scope::Nothing };
        if rules.host_kind() == Some(kind) {
            return Scope::Host(id.to_owned());
        }
        let provenance = core.provenance();
        let owning = |key: &ObjectKey| {
            let space = &rules.kinds().get(&key.kind)?.declared().id_space;
            let owns = rules.universal.iter().any(|form| form.space.as_ref() == Some(space));
            owns.then(|| (space.clone(), key.id.clone()))
        };
        let Some((space, own)) = owning(&key) else { return Scope::Nothing };
        let numbered = |(space, id): (String, Arc<str>)| {
            let label = provenance.datapath_label(&id)?;
            Some((space, id, label))
        };
        let named: Vec<_> = core.objects().references(object).iter().filter_map(owning).collect();
        // A port can have the id of a datapath. It is one that refers to another.
        let around: Vec<_> =
            named.into_iter().filter(|(other, _)| *other != space).filter_map(numbered).collect();
        if around.is_empty() {
            let referrers = core.objects().referrers(&key).filter_map(|key| owning(&key));
            let owners = by_id(referrers.chain([(space.clone(), own.clone())]));
            let datapaths = numbered((space, own)).into_iter().collect();
            return Scope::Object(OfObject { owners, port: None, datapaths });
        }
        let owners = by_id([(space, own.clone())]);
        Scope::Object(OfObject { owners, port: Some(own), datapaths: around })
    }

    /// What counts the packets of it that are dropped, by host; `None` if the rules name nothing.
    pub fn counters(
        &self,
        causes: &DropCauses,
        desired: &BTreeMap<String, Arc<Desired>>,
        provenance: &Provenance,
        rules: &Rules,
    ) -> Option<BTreeMap<String, Counters>> {
        let of_host = |(node, desired): (&String, &Arc<Desired>)| (node.clone(), causes.of_host(desired));
        match self {
            _ if causes.is_empty() => None,
            Scope::Nothing => None,
            Scope::Network => Some(desired.iter().map(of_host).collect()),
            Scope::Host(node) => Some(desired.get_key_value(node).into_iter().map(of_host).collect()),
            Scope::Object(object) => {
                let keys = object.flows(causes, provenance, rules);
                let drops = |desired: &Desired, key: &FlowKey| {
                    desired.flows.get(key).is_some_and(|flow| causes.drops(flow))
                };
                let here = |(node, desired): (&String, &Arc<Desired>)| {
                    let flows = keys.iter().filter(|key| drops(desired, key)).cloned().collect();
                    (node.clone(), Counters { flows, ..Counters::default() })
                };
                (!keys.is_empty()).then(|| desired.iter().map(here).collect())
            }
        }
    }
}

fn by_id(owners: impl IntoIterator<Item = (String, Arc<str>)>) -> HashMap<Arc<str>, BTreeSet<String>> {
    let mut spaces: HashMap<Arc<str>, BTreeSet<String>> = HashMap::new();
    for (space, id) in owners {
        spaces.entry(id).or_default().insert(space);
    }
    spaces
}

impl OfObject {
    /// The flows that may drop packets of the object, as switches have them.
    fn flows(&self, causes: &DropCauses, provenance: &Provenance, rules: &Rules) -> BTreeSet<FlowKey> {
        let forms = &rules.universal;
        let space = |form: u8| forms.get(usize::from(form)).and_then(|form| form.space.as_deref());
        let is_own = |form: u8, id: &str| {
            space(form).is_some_and(|space| self.owners.get(id).is_some_and(|own| own.contains(space)))
        };
        let is_around = |form: u8, id: &str| {
            let of = |(own, of, _): &(String, Arc<str>, u64)| space(form) == Some(own) && **of == *id;
            self.port.is_some() && self.datapaths.iter().any(of)
        };
        let leads_here = |form: u8, rest: &Value| {
            let columns = forms.get(usize::from(form)).map(|form| form.rest(rest)).unwrap_or_default();
            let is_here =
                |value: &Value| matches!((value, &self.port), (Value::String(id), Some(port)) if id == port);
            columns.into_iter().any(|(name, value)| name == PORT && is_here(value))
        };
        let mut keys = BTreeSet::new();
        let found = provenance.flows(|form, id| is_own(form, id) || is_around(form, id));
        for ((table, priority, matching), (form, owner), origin) in found {
            if causes.cause_of(*table, *priority).is_none() {
                continue;
            }
            if !is_own(*form, owner) && !leads_here(*form, &origin.rest) {
                continue;
            }
            for (_, _, label) in &self.datapaths {
                let whole =
                    matching.get().with_masked(Field::Metadata, u128::from(*label), u128::from(u64::MAX));
                keys.extend(whole.ok().and_then(|whole| FlowKey::new(*table, *priority, &whole).ok()));
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use openflow_rs::FlowEntry;
    use switch_model::Flow;

    use super::*;

    /// Flows of table 1 with priorities 10 to 20 drop for `low`, and the one with the greatest priority for `high`.
    fn causes() -> DropCauses {
        let flow = |table, first, last, cause: &str| ((table, first), (last, cause.into()));
        DropCauses {
            ending: BTreeSet::new(),
            texts: BTreeMap::new(),
            flows: [flow(1, 10, 20, "low"), flow(1, u16::MAX, u16::MAX, "high")].into(),
            meters: [(7, "low".into()), (9, "high".into())].into(),
        }
    }

    fn flows(texts: &[&str]) -> Desired {
        let flow = |text: &&str| {
            let entry: FlowEntry = text.parse().unwrap();
            let key = FlowKey::new(entry.table, entry.priority, &entry.matches).unwrap();
            (key, Flow::new(7, &entry.actions).unwrap())
        };
        Desired { flows: texts.iter().map(flow).collect(), ..Desired::default() }
    }

    #[test]
    fn a_cause_is_that_of_the_table_and_the_priority() {
        let causes = causes();
        let cause = |table, priority| causes.cause_of(table, priority).map(|cause| &**cause);
        assert_eq!(
            [cause(1, 9), cause(1, 10), cause(1, 20), cause(1, 21)],
            [None, Some("low"), Some("low"), None]
        );
        assert_eq!([cause(1, u16::MAX), cause(2, 10), cause(0, 10)], [Some("high"), None, None]);
    }

    #[test]
    fn of_a_host_flows_without_actions_drop_packets_at_all_priorities_of_a_cause() {
        let desired = flows(&[
            "table=0,priority=10,actions=drop",
            "table=1,priority=9,actions=drop",
            "table=1,priority=10,in_port=1,actions=drop",
            "table=1,priority=10,in_port=2,actions=output:1",
            "table=1,priority=20,actions=drop",
            "table=1,priority=21,actions=drop",
            "table=1,priority=65535,actions=drop",
            "table=2,priority=0,actions=drop",
        ]);
        let found: Vec<(u8, u16)> =
            causes().of_host(&desired).flows.iter().map(|key| (key.table(), key.priority())).collect();
        assert_eq!(found, [(1, 10), (1, 20), (1, u16::MAX)]);
    }

    #[test]
    fn of_a_host_those_meters_count_that_it_has() {
        let meter = switch_model::Meter { rate: 1, burst: 1 };
        let desired = Desired { meters: [(7, meter), (8, meter)].into(), ..Desired::default() };
        let counters = causes().of_host(&desired);
        assert_eq!(counters, Counters { flows: BTreeSet::new(), meters: [7].into() });
        assert_eq!(causes().cause_of_meter(7).map(|cause| &**cause), Some("low"));
        assert_eq!(causes().cause_of_meter(8), None);
    }
}
