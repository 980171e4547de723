//! The tables that rules and Rust share besides those of the kinds: reports of switches, what the controller shows, and what
//! rules say of places.

use nlog_data::Role;

use crate::table::{
    ACTIONS, BOOL, ColumnType, INT, IP, MAC, MATCH, NET, REFERENCE, STRING, SwitchTable, TEXT, TEXT_LIST,
};
use crate::tunnel::ENCAP;

const ROUTE_KIND: ColumnType = ColumnType::Name(|| vec!["connected", "static", "discard"]);

/// Declares tables as constants.
macro_rules! tables {
    ($($(#[doc = $doc:literal])* $constant:ident = $role:ident $name:literal [$($column:literal: $ty:expr),*];)*) => {
        $($(#[doc = $doc])* pub const $constant: SwitchTable =
            SwitchTable { name: $name, role: Role::$role, columns: &[$(($column, $ty)),*] };)*
    };
}

tables! {
    /// The hosts whose flows are computed.
    MANAGED = Input "managed" ["hv": STRING];
    /// Labels of objects.
    OBJECT_LABELS = Input "object_label" ["kind": STRING, "id": STRING, "label": STRING, "value": STRING];
    /// Interfaces of ports.
    VIF = Input "vif" ["hv": STRING, "port": STRING, "ofport": INT, "mac": STRING, "since": INT];
    /// Interfaces that have announced themselves.
    ANNOUNCED = Input "announced" ["hv": STRING, "port": STRING, "since": INT];
    /// Ports that several interfaces of one host claim.
    CONTESTED = Input "contested" ["hv": STRING, "port": STRING, "interfaces": STRING];
    /// Interfaces of ports that Open vSwitch could not open.
    UNOPENED = Input "unopened" ["hv": STRING, "port": STRING, "interface": STRING, "error": STRING];
    /// What probes of hosts have found.
    PROBE_RESULT = Input "probe_result"
        ["hv": STRING, "probe": STRING, "up": BOOL, "cause": STRING, "since": INT];
    /// Machines that are going to use the address of somebody else.
    ADDRESS_CONFLICT = Input "address_conflict" ["hv": STRING, "label": INT, "ip": IP];
    /// Tunnel ports that exist.
    TUNNEL_PORT = Input "tunnel_port" ["hv": STRING, "tunnel": STRING, "ofport": INT];
    /// Patch ports that exist.
    PATCH_PORT = Input "patch_port" ["hv": STRING, "patch": STRING, "ofport": INT];
    /// Whether the controller has a switch again that it had lost.
    NODE_CONNECTION = Input "node_connection" ["hv": STRING, "connected": BOOL, "since": INT];

    /// The hosts on which ports live.
    PORT_HOMES = Output "port_home" ["port": STRING, "hv": STRING];
    /// Where switches are. The kind that the first column refers to is that of transport nodes.
    ADDRESSES = Output "switch_address"
        ["hv": REFERENCE, "ovsdb": TEXT, "openflow": TEXT, "datapath_type": TEXT];
    /// The largest IP packets that the network between hosts carries, by sender.
    UNDERLAY_MTUS = Output "underlay_mtu" ["node": STRING, "mtu": INT];
    /// What objects ask and the network cannot do.
    PROBLEMS = Output "problem" ["kind": STRING, "id": STRING, "code": STRING, "text": STRING];

    /// What numbers in fields stand for.
    STANDS_FOR = Internal "stands_for" ["field": STRING, "number": INT, "role": STRING, "id": STRING];
    /// Which objects behind a flow decide about packets.
    DECIDES = Internal "decides" ["kind": STRING, "table_id": INT, "first": INT, "last": INT];

    /// What objects need to work and do not have.
    LACKS = Internal "lacks" ["kind": STRING, "id": STRING, "text": TEXT_LIST, "names": TEXT_LIST];

    /// Why packets are dropped.
    DROP_CAUSES = Output "drop_cause" ["cause": STRING, "text": STRING];
    /// The flows that drop packets, and why.
    DROPPING_FLOWS = Output "dropping_flow" ["cause": STRING, "table_id": INT, "first": INT, "last": INT];
    /// The actions of flows that drop packets besides none.
    DROPPING_ACTIONS = Output "dropping_actions" ["actions": ACTIONS];
    /// The meters of what is dropped, and why.
    DROPPING_METERS = Output "dropping_meter" ["cause": STRING, "meter": INT];

    /// The hosts whose tunnels are measured.
    PROBE_HOSTS = Output "probe_host" ["hv": STRING, "ip": IP, "mtu": INT, "interval": INT];
    /// The probes that they send.
    TUNNEL_PROBES = Output "tunnel_probe"
        ["hv": STRING, "peer": STRING, "encap": ENCAP, "bytes": INT, "actions": ACTIONS];
    /// The flows that count the probes that arrive.
    PROBE_COUNTERS = Output "probe_counter" ["table_id": INT, "match": MATCH];

    /// Routes of routers as they take effect.
    ROUTING_TABLE = Output "routing_table"
        ["router": REFERENCE, "destination": NET, "kind": ROUTE_KIND, "by": STRING, "next_hop": STRING, "port": STRING,
            "mac": STRING, "why": STRING];

    /// The number of each datapath in metadata.
    DATAPATH_LABELS = Input "datapath_label" ["datapath": STRING, "label": INT];
    /// The addresses of hosts on the underlay.
    ENDPOINTS = Internal "tunnel_endpoint" ["node": STRING, "ip": IP];
    /// The bridges of hosts to physical networks.
    BRIDGES = Internal "node_bridge" ["node": STRING, "network": STRING, "bridge": STRING];
    /// Ports behind the interface of a parent, told apart by a VLAN tag.
    PARENTS = Internal "port_parent" ["port": STRING, "parent": STRING, "tag": INT];
    /// Ports that are a VLAN of a physical network.
    LOCALNETS = Internal "localnet" ["port": STRING, "sw": STRING, "network": STRING, "tag": INT];
    /// The MAC addresses of ports.
    MACS = Internal "port_mac" ["port": STRING, "mac": MAC];
    /// The IP addresses of ports.
    IPS = Internal "port_ip" ["port": STRING, "ip": IP, "mac": MAC];
}

/// All that the controller does with tables besides those of objects, of their state and of the kinds: inputs that it fills, and
/// outputs that it shows.
pub const INTERFACE: &[SwitchTable] = &[
    MANAGED,
    OBJECT_LABELS,
    VIF,
    ANNOUNCED,
    CONTESTED,
    UNOPENED,
    PROBE_RESULT,
    ADDRESS_CONFLICT,
    TUNNEL_PORT,
    PATCH_PORT,
    NODE_CONNECTION,
    PORT_HOMES,
    ADDRESSES,
    UNDERLAY_MTUS,
    PROBLEMS,
    DROP_CAUSES,
    DROPPING_FLOWS,
    DROPPING_ACTIONS,
    DROPPING_METERS,
    PROBE_HOSTS,
    TUNNEL_PROBES,
    PROBE_COUNTERS,
];
