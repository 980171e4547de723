//! The vocabulary of the generated program: kinds of columns, areas of the network, words for
//! tables.

/// The class of a kind, which decides the use of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// The name of something; tables are joined on these.
    Entity,
    /// An integer of 24 bits at most.
    Label,
    /// A VLAN id.
    Vlan,
    /// An OpenFlow port.
    Port,
    /// A port of TCP.
    Service,
    /// Any integer.
    Number,
    /// An integer that rules write as a constant; comparing it would have a known result.
    Step,
    Flag,
    /// One of a few words.
    Choice(&'static [&'static str]),
    Mac,
    Ip,
    Net,
    Text,
    Match,
    Actions,
    Members,
}

/// A kind of column.
#[derive(Debug)]
pub(super) struct Kind {
    /// The column's and the variable's name.
    pub(super) name: &'static str,
    pub(super) class: Class,
    /// For documentation.
    pub(super) what: &'static str,
}

impl Kind {
    /// Its type in nlog.
    pub(super) fn ty(&self) -> &'static str {
        match self.class {
            Class::Entity | Class::Choice(_) | Class::Text => "string",
            Class::Label | Class::Vlan | Class::Port | Class::Service | Class::Number | Class::Step => "int",
            Class::Flag => "bool",
            Class::Mac => "mac",
            Class::Ip => "ip",
            Class::Net => "net",
            Class::Match => "match",
            Class::Actions => "actions",
            Class::Members => "set<string>",
        }
    }
}

const fn kind(name: &'static str, class: Class, what: &'static str) -> Kind {
    Kind { name, class, what }
}

/// The number of [`KINDS`] that are entities; they come first.
pub(super) const ENTITIES: usize = 14;

/// The names of each entity in the transaction are numbered below this.
pub(super) const OF_EACH: usize = 3;

pub(super) const KINDS: [Kind; 37] = [
    kind("lport", Class::Entity, "logical port"),
    kind("ldp", Class::Entity, "logical datapath"),
    kind("hv", Class::Entity, "hypervisor"),
    kind("gw", Class::Entity, "gateway"),
    kind("sn", Class::Entity, "service node"),
    kind("router", Class::Entity, "logical router"),
    kind("rport", Class::Entity, "router port"),
    kind("acl", Class::Entity, "access list"),
    kind("tenant", Class::Entity, "tenant"),
    kind("zone", Class::Entity, "transport zone"),
    kind("vip", Class::Entity, "virtual address"),
    kind("pool", Class::Entity, "pool of members"),
    kind("mirror", Class::Entity, "mirror session"),
    kind("queue", Class::Entity, "queue"),
    kind("label", Class::Label, "number in registers and tunnel keys"),
    kind("tag", Class::Label, "number in metadata"),
    kind("vlan", Class::Vlan, "VLAN id"),
    kind("ofport", Class::Port, "OpenFlow port"),
    kind("service", Class::Service, "TCP port"),
    kind("rank", Class::Number, "order of preference, least first"),
    kind("rate", Class::Number, "kbit/s at most"),
    kind("mtu", Class::Number, "longest packet"),
    kind("weight", Class::Number, "share of the load"),
    kind("since", Class::Number, "number of the transaction in which it appeared"),
    kind("total", Class::Number, "number of rows it was made of"),
    kind("level", Class::Step, "case or stage that it is"),
    kind("up", Class::Flag, "whether its heartbeats arrive"),
    kind("enabled", Class::Flag, "whether its owner wants it"),
    kind("mac", Class::Mac, "Ethernet address"),
    kind("ip", Class::Ip, "IP address"),
    kind("net", Class::Net, "prefix"),
    kind("encap", Class::Choice(&["geneve", "vxlan", "stt", "gre"]), "encapsulation"),
    kind("mode", Class::Choice(&["standard", "strict", "learning"]), "way of working"),
    kind("name", Class::Text, "name for people"),
    kind("expr", Class::Match, "match of the flow"),
    kind("actions", Class::Actions, "actions of the flow"),
    kind("members", Class::Members, "names of what belongs to it"),
];

/// The kind of this name.
pub(super) fn named(name: &str) -> usize {
    KINDS.iter().position(|kind| kind.name == name).unwrap_or(0)
}

/// Parts of the network that rules are about: the files are named after them.
pub(super) const LOGICAL: [&str; 30] = [
    "log_switch",
    "log_port",
    "log_router",
    "port_security",
    "l2_learning",
    "l2_flood",
    "arp",
    "neighbour",
    "dhcp",
    "multicast",
    "acl_ingress",
    "acl_egress",
    "security_group",
    "stateful",
    "nat",
    "load_balancer",
    "static_route",
    "connected_route",
    "next_hop",
    "ecmp",
    "qos_marking",
    "qos_shaping",
    "mirror_session",
    "sflow",
    "counters",
    "l2_gateway",
    "l3_gateway",
    "attachment",
    "tenant_limits",
    "universal_flows",
];
pub(super) const PHYSICAL: [&str; 12] = [
    "location",
    "tunnel_mesh",
    "tunnel_health",
    "service_node_bundle",
    "gateway_election",
    "failover",
    "placement",
    "ingress",
    "egress",
    "encapsulation",
    "queues",
    "replication",
];
pub(super) const OUTPUTS: [&str; 4] = ["ovsdb", "openflow", "status", "statistics"];
/// The sources of input tables.
pub(super) const SOURCES: [&str; 9] = [
    "config_switching",
    "config_routing",
    "config_security",
    "config_services",
    "config_nodes",
    "config_quality",
    "report_ovsdb",
    "report_health",
    "allocated",
];

/// Words that distinguish tables.
pub(super) const ASPECTS: [&str; 48] = [
    "state",
    "binding",
    "candidate",
    "active",
    "effective",
    "desired",
    "reachable",
    "member",
    "uplink",
    "policy",
    "limit",
    "owner",
    "path",
    "entry",
    "exit",
    "classifier",
    "verdict",
    "bucket",
    "monitor",
    "heartbeat",
    "backup",
    "primary",
    "lease",
    "range",
    "scope",
    "neighbour",
    "stage",
    "pending",
    "settled",
    "choice",
    "offer",
    "demand",
    "view",
    "image",
    "anchor",
    "edge",
    "core",
    "trunk",
    "access",
    "remote",
    "local",
    "origin",
    "target",
    "shadow",
    "level",
    "summary",
    "detail",
    "index",
];

/// Stages of the pipeline, as constants.
pub(super) const STAGES: [&str; 16] = [
    "CLASSIFY",
    "DECAP",
    "SECURITY",
    "LEARN",
    "IN_TRACK",
    "IN_ACL",
    "ARP_REPLY",
    "L2",
    "ROUTE",
    "NEXT_HOP",
    "NEIGHBOUR",
    "OUT_PORT",
    "OUT_TRACK",
    "OUT_ACL",
    "OUTPUT",
    "TUNNEL",
];

/// Other constants: name, value, what for.
pub(super) const LIMITS: [(&str, &str, &str); 10] = [
    ("LEAST_RATE", "10", "Below this a queue is of no use."),
    ("MOST_RATE", "10000000", "What no link exceeds."),
    ("LEAST_MTU", "68", "RFC 791 asks for this much."),
    ("TUNNEL_OVERHEAD", "58", "What the outer headers of geneve over IPv4 take."),
    ("PREFERRED", "50", "Ranks below this are tried first."),
    ("DEFAULT_WEIGHT", "100", "The share of what says nothing else."),
    ("FLOOD_LABELS", "0xf00000", "Labels from here on name all ports of a datapath."),
    ("SPREAD", "0xff", "How many ways a hash is cut."),
    ("RECENT", "1000", "Transactions before this one are long ago."),
    ("MANAGED", "\"weft-\"", "How names of what we made begin."),
];
