//! Rules small enough to reason about, run by the reference evaluator.

pub(crate) mod drivers;
pub(crate) mod running;

use std::sync::Arc;

use controller::Rules;
use controller::core::{Accepted, AppliedTransaction, Core, History};
use controller::record::Record;
use network::Batch;
use nlog::Sources;
use nlog_data::{Evaluator, Tables};
use nlog_reference::Reference;
use std::time::{Duration, SystemTime};

/// All tables that the controller fills. Of the rules, one makes a flow for each interface of a known port, one a
/// tunnel for each encapsulation; four are there to fail: two switches of tenant `clash` derive one flow twice, and
/// so do two interfaces on a host of tenant `single`; a switch of tenant `beyond` derives a flow in a table that no
/// switch has; switches of tenant `reserved` are forbidden. A switch of tenant `odd` is a problem.
pub(crate) const RULES: &str = r#"
input table transport_node(node: string, role: string, ip: ip) key(node);
input table transport_node_encap(node: string, rank: int, encap: string) key(node, rank);
input table logical_switch(sw: string, tenant: string) key(sw);
input table logical_switch_port(port: string, sw: string) key(port);
input table port_mac(port: string, mac: mac) key(port, mac);
input table port_ip(port: string, ip: ip, mac: mac) key(port, ip);
table wants_datapath_label(sw: string);
wants_datapath_label(sw) :- logical_switch(sw, _);
input table datapath_label(sw: string, label: int) key(sw) from allocate(wants_datapath_label, first: 1, last: 0xffffff);
table wants_tunnel_label(use: string, id: string);
wants_tunnel_label("port", port) :- logical_switch_port(port, _);
wants_tunnel_label("port", port) :- localnet_port(port, _, _, _);
wants_tunnel_label(use, sw) :- logical_switch(sw, _), replication(use);
table replication(use: string);
replication("replication_all");
replication("replication_all_relay");
replication("replication_unknown");
replication("replication_unknown_relay");
input table tunnel_label(use: string, id: string, label: int) key(use, id) from allocate(wants_tunnel_label, first: 0x101, last: 0xffffff);
table port_label(port: string, label: int) key(port);
port_label(port, label) :- tunnel_label("port", port, label);
table wants_node_label(node: string);
wants_node_label(node) :- transport_node(node, _, _);
input table node_label(node: string, label: int) key(node) from allocate(wants_node_label, first: 1, last: 0xffffff);
input table transport_zone(zone: string, form: string, mtu: int) key(zone);
input table transport_node_zone(node: string, zone: string) key(node);
input table bridge_mapping(node: string, network: string, bridge: string) key(node, network);
input table port_parent(port: string, parent: string, tag: int) key(port);
input table port_security(port: string) key(port);
input table unknown_addresses(port: string) key(port);
input table localnet_port(port: string, sw: string, network: string, tag: int) key(port);
input table managed(hv: string) key(hv);
input table vif(hv: string, port: string, ofport: int, mac: string, since: int) key(hv, port);
input table tunnel_port(hv: string, tunnel: string, ofport: int) key(hv, tunnel);

output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table ovsdb_tunnel(hv: string, tunnel: string, encap: string, remote: string) key(hv, tunnel);
output table switch_mtu(sw: string, mtu: int) key(sw);
output table problem(kind: string, id: string, text: string);

## Nobody is tenant `reserved`.
forbid table reserved_tenant(sw: string);
reserved_tenant(sw) :- logical_switch(sw, "reserved");

switch_mtu(sw, mtu - 58) :- logical_switch(sw, _), transport_zone("", _, mtu);
problem("switch", sw, "its tenant is odd") :- logical_switch(sw, "odd");

of_flow(hv, 0, 100, match_reg0(label), flow_output_action(ofport)) :- vif(hv, port, ofport, _, _), port_label(port, label);
of_flow(hv, 1, 100, match_reg1(label), set_reg0(datapath)) :-
    transport_node(hv, _, _), logical_switch_port(port, sw), port_label(port, label), datapath_label(sw, datapath);
ovsdb_tunnel(node, "weft-" ++ encap, encap, "flow") :- transport_node_encap(node, _, encap);

of_flow(node, 9, 1, match_reg0(0), flow_output_action(label)) :-
    transport_node(node, _, _), logical_switch(sw, "clash"), datapath_label(sw, label);
of_flow(hv, 9, 2, match_reg0(0), flow_output_action(ofport)) :- vif(hv, port, ofport, _, _), logical_switch_port(port, sw), logical_switch(sw, "single");
of_flow(node, 300, 1, match_reg0(0), flow_output_action(label)) :-
    transport_node(node, _, _), logical_switch(sw, "beyond"), datapath_label(sw, label);
"#;

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

pub(crate) fn reference(rules: &Rules) -> Box<dyn Evaluator> {
    let make = |program, observe| {
        Ok(Box::new(Reference::new(program, observe).with_attribution()) as Box<dyn Evaluator>)
    };
    nlog_hooks::start(rules.program(), Tables::These(rules.observed()), make)
        .unwrap_or_else(|error| panic!("{error}"))
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

pub(crate) fn batch(text: &str) -> Batch {
    let mut batch = Batch::default();
    batch.add_document("net.yaml", text);
    batch
}

pub(crate) fn apply(core: &mut Core, text: &str) -> AppliedTransaction {
    let Accepted { transaction, .. } =
        core.apply(batch(text), "test", now()).unwrap_or_else(|error| panic!("{error}"));
    transaction.unwrap_or_else(|| panic!("nothing changes with {text}"))
}

/// The rows that a hook inserts into its table.
pub(crate) fn filled<'a>(record: &'a Record, table: &str) -> &'a [Vec<serde_json::Value>] {
    let rows = record.filled.as_ref().and_then(|filled| filled.insert.get(table));
    rows.unwrap_or_else(|| panic!("no row of {table} comes: {record:?}"))
}

/// A report of interfaces and tunnel ports, as `port@number`.
pub(crate) fn report(vifs: &[(&str, u16)], tunnels: &[(&str, u16)]) -> ovs_driver::Report {
    let vif =
        |&(port, ofport): &(&str, u16)| (port.to_owned(), ovs_driver::Vif { ofport, mac: String::new() });
    ovs_driver::Report {
        vifs: vifs.iter().map(vif).collect(),
        tunnels: tunnels.iter().map(|&(name, ofport)| (name.to_owned(), ofport)).collect(),
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
    let flows = desired.flows.iter().map(flow).chain(desired.groups.iter().map(bucket));
    flows.chain(tunnels).chain(patches).collect()
}
