//! Rules small enough to reason about, run by the reference evaluator.

pub(crate) mod drivers;
pub(crate) mod running;
pub(crate) mod web;

use std::sync::{Arc, LazyLock};

use nlog::Sources;
use nlog_data::{Evaluator, Tables};
use nlog_reference::Hooked;
use objects::{Batch, Cancel, Kinds};
use std::time::{Duration, SystemTime};
use weft_core::Rules;
use weft_core::core::{Accepted, AppliedTransaction, Core, History};
use weft_core::record::{Record, RulesText};

/// The kinds of objects of [`RULES`].
macro_rules! objects {
    () => {
        r#"
type address = record {mac: mac, ips: list<ip>};
type mapping = record {network: string, bridge: string};

object transport_zone { tunnels: string = "flow"; mtu: int = 1500; }
object transport_node {
    role: string = "hypervisor";
    ip: ip;
    encaps: list<string> = ["geneve"];
    transport_zone: opt<ref transport_zone>;
    bridge_mappings: map<mapping> = {};
    ovsdb: opt<string>;
    openflow: opt<string>;
    datapath_type: opt<string>;
    unique(ip);
    unique(ovsdb);
    unique(openflow);
}
object switch { tenant: opt<string>; }
object switch_port {
    id_space port;
    switch: ref switch;
    addresses: list<address> = [];
    port_security: bool = false;
    unknown_addresses: bool = false;
    parent: opt<ref switch_port>;
    tag: opt<int>;
    unique(switch, addresses.mac);
    unique(switch, addresses.ips);
}
object localnet_port {
    id_space port;
    switch: ref switch;
    network: string;
    tag: int = 0;
    unique(switch);
}
"#
    };
}
pub(crate) use objects;

/// Where the switches of [`objects`] are, which the controller asks of all rules.
macro_rules! addresses {
    () => {
        "
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>,
                            datapath_type: opt<string>) key(hv);
switch_address(hv, ovsdb, openflow, datapath_type) :-
    transport_node(id: hv, ovsdb: ovsdb, openflow: openflow, datapath_type: datapath_type, ..);
"
    };
}
pub(crate) use addresses;

/// All tables that the controller fills. Of the rules, one makes a flow for each interface of a known port, one a
/// tunnel for each encapsulation; four are there to fail: two switches of tenant `clash` derive one flow twice, and
/// so do two interfaces on a host of tenant `single`; a switch of tenant `beyond` derives a flow in a table that no
/// switch has; switches of tenant `reserved` are forbidden. A switch of tenant `odd` is a problem.
pub(crate) const RULES: &str = concat!(
    objects!(),
    addresses!(),
    r#"
table wants_datapath_label(sw: string);
wants_datapath_label(sw) :- switch(sw, _);
input table datapath_label(sw: string, label: int) key(sw) from allocate(wants_datapath_label, first: 1, last: 0xffffff);
table wants_tunnel_label(use: string, id: string);
wants_tunnel_label("port", port) :- switch_port(id: port, ..);
wants_tunnel_label("port", port) :- localnet_port(id: port, ..);
wants_tunnel_label(use, sw) :- switch(sw, _), replication(use);
table replication(use: string);
replication("replication_all");
replication("replication_all_relay");
replication("replication_unknown");
replication("replication_unknown_relay");
input table tunnel_label(use: string, id: string, label: int) key(use, id) from allocate(wants_tunnel_label, first: 0x101, last: 0xffffff);
table port_label(port: string, label: int) key(port);
port_label(port, label) :- tunnel_label("port", port, label);
table wants_node_label(node: string);
wants_node_label(node) :- transport_node(id: node, ..);
input table node_label(node: string, label: int) key(node) from allocate(wants_node_label, first: 1, last: 0xffffff);
input table managed(hv: string) key(hv);
input table vif(hv: string, port: string, ofport: int, mac: string, since: int) key(hv, port);
input table tunnel_port(hv: string, tunnel: string, ofport: int) key(hv, tunnel);

table logical_switch(sw: string, tenant: string) key(sw);
logical_switch(sw, or_else(tenant, "")) :- switch(sw, tenant);
table logical_switch_port(port: string, sw: string) key(port);
logical_switch_port(port, sw) :- switch_port(id: port, switch: sw, ..);
## The ports of a switch. They are on any host.
listing table switch_members(switch: ref switch, port: string) key(port) else "the switch has no ports";
switch_members(sw, port) :- logical_switch_port(port, sw);

output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table ovsdb_tunnel(hv: string, tunnel: string, encap: string, remote: string) key(hv, tunnel);
state table switch_state(switch: ref switch, mtu: int) key(switch);
output table problem(kind: string, id: string, code: string, text: string);

## Nobody is tenant `reserved`.
forbid table reserved_tenant(sw: string);
reserved_tenant(sw) :- logical_switch(sw, "reserved");

switch_state(sw, 1500 - 58) :- logical_switch(sw, _);
problem("switch", sw, "odd", "its tenant is odd") :- logical_switch(sw, "odd");

of_flow(hv, 0, 100, match_reg0(label), flow_output_action(ofport)) :- vif(hv, port, ofport, _, _), port_label(port, label);
of_flow(hv, 1, 100, match_reg1(label), set_reg0(datapath)) :-
    transport_node(id: hv, ..), logical_switch_port(port, sw), port_label(port, label), datapath_label(sw, datapath);
ovsdb_tunnel(node, "weft-" ++ encap, encap, "flow") :- transport_node(id: node, encaps: encaps, ..), element(encaps, encap);

of_flow(node, 9, 1, match_reg0(0), flow_output_action(label)) :-
    transport_node(id: node, ..), logical_switch(sw, "clash"), datapath_label(sw, label);
of_flow(hv, 9, 2, match_reg0(0), flow_output_action(ofport)) :- vif(hv, port, ofport, _, _), logical_switch_port(port, sw), logical_switch(sw, "single");
of_flow(node, 300, 1, match_reg0(0), flow_output_action(label)) :-
    transport_node(id: node, ..), logical_switch(sw, "beyond"), datapath_label(sw, label);
"#
);

/// Two hosts, two switches, three ports.
pub(crate) const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:/run/hv1/db.sock', openflow: 'unix:/run/hv1/br-int.mgmt'}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, encaps: [vxlan, gre], ovsdb: 'unix:/run/hv2/db.sock', openflow: 'unix:/run/hv2/br-int.mgmt'}
---
{kind: switch, id: blue, tenant: acme}
---
{kind: switch, id: red}
---
{kind: switch_port, id: blue-1, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
---
{kind: switch_port, id: blue-2, switch: blue, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.0.2]}]}
---
{kind: switch_port, id: red-1, switch: red}
";

pub(crate) fn rules(text: &str) -> Arc<Rules> {
    let compilation = nlog::compile(&Sources::from_texts([("test.nlog", text)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
    Arc::new(Rules::new(program).unwrap_or_else(|error| panic!("{error}")))
}

/// The same, with their text, as those that are read from files.
pub(crate) fn rules_of_text(text: &str) -> Arc<Rules> {
    let files = [("test.nlog".into(), text.to_owned())].into();
    let text = RulesText { packages: vec!["test.nlog".to_owned()], files };
    Arc::new(Rules::of_text(&text).unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) fn reference(rules: &Rules) -> Box<dyn Evaluator> {
    Box::new(Hooked::reference(rules.program(), Tables::These(rules.observed()), true))
}

/// A moment; the same in every run.
pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
}

pub(crate) fn core(rules: &Arc<Rules>, records: &[Record]) -> (Core, Option<Record>) {
    Core::restore(reference(rules), rules.clone(), history(rules, records), now())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The state after these records.
pub(crate) fn history(rules: &Rules, records: &[Record]) -> History {
    let mut history = History::new(rules);
    for record in records {
        history.add(record).unwrap_or_else(|error| panic!("{error}"));
    }
    history
}

/// Objects of the kinds of [`RULES`].
pub(crate) fn batch(text: &str) -> Batch {
    static KINDS: LazyLock<Kinds> = LazyLock::new(|| rules(RULES).kinds().clone());
    batch_of(&KINDS, text)
}

/// Objects of these kinds.
pub(crate) fn batch_of(kinds: &Kinds, text: &str) -> Batch {
    let mut batch = Batch::new(kinds, Cancel::default());
    // A file has objects; a request may have none.
    if !text.is_empty() {
        batch.add_document("net.yaml", text);
    }
    batch
}

pub(crate) fn apply(core: &mut Core, text: &str) -> AppliedTransaction {
    let batch = batch_of(core.rules().kinds(), text);
    let Accepted { transaction, .. } =
        core.apply(batch, "test", now()).unwrap_or_else(|error| panic!("{error}"));
    transaction.unwrap_or_else(|| panic!("nothing changes with {text}"))
}

/// The rows that a hook inserts into its table.
pub(crate) fn filled<'a>(record: &'a Record, table: &str) -> &'a [Vec<serde_json::Value>] {
    let rows = record.filled.as_ref().and_then(|filled| filled.insert.get(table));
    rows.unwrap_or_else(|| panic!("no row of {table} comes: {record:?}"))
}

/// A report of interfaces and tunnel ports, as `port@number`. Each port keeps its interface.
pub(crate) fn report(vifs: &[(&str, u16)], tunnels: &[(&str, u16)]) -> ovs_driver::Report {
    let interfaces: Vec<(&str, &str, Option<u16>)> =
        vifs.iter().map(|&(port, ofport)| (port, port, Some(ofport))).collect();
    let tunnels = tunnels.iter().map(|&(name, ofport)| (name.to_owned(), ofport)).collect();
    ovs_driver::Report { tunnels, ..report_of(&interfaces) }
}

/// A report of interfaces: each has the port's id, the interface's name, and the port number if it has one and counts.
pub(crate) fn report_of(interfaces: &[(&str, &str, Option<u16>)]) -> ovs_driver::Report {
    let id = |name: &str| {
        let bytes = name.bytes().fold(0, |id: u128, byte| id.wrapping_mul(257).wrapping_add(byte.into()));
        ovs_driver::InterfaceId(bytes)
    };
    let vif = |&(port, name, ofport): &(&str, &str, Option<u16>)| {
        Some((port.to_owned(), ovs_driver::Vif { ofport: ofport?, mac: String::new(), interface: id(name) }))
    };
    ovs_driver::Report {
        vifs: interfaces.iter().filter_map(vif).collect(),
        interfaces: interfaces.iter().map(|(port, name, _)| ((*port).to_owned(), id(name))).collect(),
        ..ovs_driver::Report::default()
    }
}

/// What a switch should have, as text.
pub(crate) fn shown(desired: &ovs_driver::Desired) -> Vec<String> {
    let flow = |(key, flow): (&ovs_driver::FlowKey, &ovs_driver::Flow)| {
        let (table, priority) = (key.table(), key.priority());
        let matching = key.matching().map(|matching| matching.to_string());
        let actions = flow.actions().map(|actions| actions.to_string());
        format!("{table} {priority} {} {}", matching.unwrap_or_default(), actions.unwrap_or_default())
    };
    let bucket =
        |((group, bucket), what): (&(u32, u32), &ovs_driver::Bucket)| format!("{group}/{bucket} {what:?}");
    let tunnels = desired.tunnels.iter().map(|(name, tunnel)| format!("{name}: {tunnel}"));
    let patches = desired.patches.iter().map(|(name, patch)| format!("{name}: {patch}"));
    let flows = desired.flows.iter().map(flow).chain(desired.buckets.iter().map(bucket));
    flows.chain(tunnels).chain(patches).collect()
}
