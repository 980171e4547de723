//! Rows of these tables as typed values.

use std::net::IpAddr;
use std::sync::Arc;

use nlog_data::{Canonical, Row, Value};
use openflow_rs::{Actions, Field, MacAddr, Match};
use tunnel_encap::Encap;

/// A row of [`FLOWS`](crate::FLOWS).
#[derive(Debug, Clone)]
pub struct Flow {
    /// The host.
    pub host: Arc<str>,
    /// The table of its switch.
    pub table: u8,
    /// The priority.
    pub priority: u16,
    /// The match.
    pub matches: Arc<Canonical<Match>>,
    /// The actions.
    pub actions: Arc<Canonical<Actions>>,
}

/// A row of [`BUCKETS`](crate::BUCKETS).
#[derive(Debug, Clone)]
pub struct Bucket {
    /// The host.
    pub host: Arc<str>,
    /// The group.
    pub group: u32,
    /// The bucket's number in the group.
    pub id: u32,
    /// Its actions.
    pub actions: Arc<Canonical<Actions>>,
}

/// A row of [`GROUPS`](crate::GROUPS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The host.
    pub host: Arc<str>,
    /// The group.
    pub id: u32,
    /// The fields whose hash chooses a bucket; none for fast failover.
    pub select_by: Option<Vec<Field>>,
}

/// A row of [`CANDIDATES`](crate::CANDIDATES).
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The bucket, of a group of [`GROUPS`](crate::GROUPS).
    pub bucket: Bucket,
    /// Its weight; 0 in groups without weights.
    pub weight: u16,
    /// The port that must be live, if no group that the bucket watches is.
    pub watch_port: Option<u16>,
    /// The group that must be live, if no port that the bucket watches is.
    pub watch_group: Option<u32>,
}

/// A row of [`METERS`](crate::METERS).
#[derive(Debug, Clone)]
pub struct Meter {
    /// The host.
    pub host: String,
    /// The meter's number.
    pub id: u32,
    /// Packets a second.
    pub rate: u32,
    /// The packets that may pass at once.
    pub burst: u32,
}

/// A row of [`CONNTRACK_ZONES`](crate::CONNTRACK_ZONES).
#[derive(Debug, Clone)]
pub struct ConntrackZone {
    /// The host.
    pub host: String,
    /// The zone's number.
    pub id: u16,
    /// Whose connections it has.
    pub owner: String,
}

/// A row of [`TUNNELS`](crate::TUNNELS).
#[derive(Debug, Clone)]
pub struct Tunnel {
    /// The host.
    pub host: String,
    /// The name of the port.
    pub name: String,
    /// The encapsulation.
    pub encap: Encap,
    /// The peer; none if flows say it.
    pub remote: Option<IpAddr>,
}

/// A row of [`AWAITED_FLOWS`](crate::AWAITED_FLOWS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedFlow {
    /// The host.
    pub host: Arc<str>,
    /// The table of its switch.
    pub table: u8,
    /// The cookie of the learned flow.
    pub cookie: u64,
    /// The port whose interface announces itself.
    pub port: Arc<str>,
}

/// A row of [`ANNOUNCEMENTS`](crate::ANNOUNCEMENTS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The host.
    pub host: Arc<str>,
    /// The port that is reached through the host.
    pub port: Arc<str>,
    /// Its address.
    pub mac: MacAddr,
    /// The OpenFlow port to the physical network.
    pub ofport: u16,
    /// The VLAN there, 0 for untagged frames.
    pub tag: u16,
}

/// A row of [`PATCHES`](crate::PATCHES).
#[derive(Debug, Clone)]
pub struct Patch {
    /// The host.
    pub host: String,
    /// The name of the port.
    pub name: String,
    /// The bridge at the other end.
    pub bridge: String,
}

/// A row of [`VIF`](crate::VIF).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vif {
    /// The host.
    pub host: String,
    /// The port whose interface it is.
    pub port: String,
    /// The number of the port of the switch.
    pub ofport: u16,
    /// The number of the transaction in which it appeared.
    pub since: i64,
}

/// The first group number reserved for the driver, and the first invalid bucket number.
const GROUPS: u32 = 0x400_0000;
const BUCKETS: u32 = 0xffff_ff00;

/// The last number of a meter.
const METERS: u32 = 200_000;
/// The last number of an ordinary port.
pub const PORT: u16 = 65279;
/// The last table, and the last VLAN.
const TABLE: u8 = 254;
const VLAN: u16 = 4094;

/// The maximum length of a port's name, which is the name of a network device.
const NAME: usize = 15;

/// Reads a row; none if no switch can have it.
pub fn flow(row: &Row) -> Option<Flow> {
    let [
        Value::String(host),
        Value::Int(table),
        Value::Int(priority),
        Value::Match(matches),
        Value::Actions(actions),
    ] = &row[..]
    else {
        return None;
    };
    let (table, priority) = (u8::try_from(*table).ok()?, u16::try_from(*priority).ok()?);
    Some(Flow { host: host.clone(), table, priority, matches: matches.clone(), actions: actions.clone() })
}

/// Reads a row; none if no switch can have it.
pub fn bucket(row: &Row) -> Option<Bucket> {
    let [Value::String(host), Value::Int(group), Value::Int(bucket), Value::Actions(actions)] = &row[..]
    else {
        return None;
    };
    let group = u32::try_from(*group).ok().filter(|group| *group < GROUPS)?;
    let id = u32::try_from(*bucket).ok().filter(|bucket| *bucket < BUCKETS)?;
    Some(Bucket { host: host.clone(), group, id, actions: actions.clone() })
}

/// Reads a row; none if no switch can have it.
pub fn group(row: &Row) -> Option<Group> {
    let [Value::String(host), Value::Int(group), Value::String(kind), Value::Set(fields)] = &row[..] else {
        return None;
    };
    let id = u32::try_from(*group).ok().filter(|group| *group < GROUPS)?;
    let field = |name: &Value| match name {
        Value::String(name) => Field::from_name(name).filter(|field| *field != Field::TunMetadata0),
        _ => None,
    };
    let fields: Vec<Field> = fields.iter().map(field).collect::<Option<_>>()?;
    let select_by = match (&**kind, fields.is_empty()) {
        (crate::SELECT, false) => Some(fields),
        (crate::FAST_FAILOVER, true) => None,
        _ => return None,
    };
    Some(Group { host: host.clone(), id, select_by })
}

/// Reads a row; none if no switch can have it.
pub fn candidate(row: &Row) -> Option<Candidate> {
    let [host, group, id, Value::Int(weight), Value::Int(port), Value::Int(watched), actions] = &row[..]
    else {
        return None;
    };
    let bucket = bucket(&vec![host.clone(), group.clone(), id.clone(), actions.clone()])?;
    let port = u16::try_from(*port).ok().filter(|port| *port <= PORT)?;
    let watch_port = Some(port).filter(|port| *port != 0);
    let watch_group = Some(u32::try_from(*watched).ok()?).filter(|group| *group != 0);
    Some(Candidate { bucket, weight: u16::try_from(*weight).ok()?, watch_port, watch_group })
}

/// Reads a row; none if no switch can have it.
pub fn meter(row: &Row) -> Option<Meter> {
    let [Value::String(host), Value::Int(id), Value::Int(rate), Value::Int(burst)] = &row[..] else {
        return None;
    };
    let number = |value: i64, last: u32| u32::try_from(value).ok().filter(|value| (1..=last).contains(value));
    let (id, rate, burst) = (number(*id, METERS)?, number(*rate, u32::MAX)?, number(*burst, u32::MAX)?);
    Some(Meter { host: host.to_string(), id, rate, burst })
}

/// Reads a row; none if no switch can have it.
pub fn conntrack_zone(row: &Row) -> Option<ConntrackZone> {
    let [Value::String(host), Value::Int(id), Value::String(owner)] = &row[..] else { return None };
    let id = u16::try_from(*id).ok().filter(|id| *id != 0)?;
    Some(ConntrackZone { host: host.to_string(), id, owner: owner.to_string() })
}

/// Reads a row; none if no switch can have it.
pub fn tunnel(row: &Row) -> Option<Tunnel> {
    let [Value::String(host), Value::String(name), Value::String(kind), Value::String(remote)] = &row[..]
    else {
        return None;
    };
    let remote = if **remote == *"flow" { None } else { Some(remote.parse().ok()?) };
    let (host, name) = (host.to_string(), Some(name.to_string()).filter(|name| name.len() <= NAME)?);
    Some(Tunnel { host, name, encap: kind.parse().ok()?, remote })
}

/// Reads a row; none if no switch can have it.
pub fn patch(row: &Row) -> Option<Patch> {
    let [Value::String(host), Value::String(name), Value::String(bridge), Value::String(peer)] = &row[..]
    else {
        return None;
    };
    let short = name.len() <= NAME && peer.len() <= NAME;
    short.then(|| Patch { host: host.to_string(), name: name.to_string(), bridge: bridge.to_string() })
}

/// Reads a row; none if no switch can have it.
pub fn awaited_flow(row: &Row) -> Option<AwaitedFlow> {
    let [Value::String(host), Value::Int(table), Value::Int(cookie), Value::String(port)] = &row[..] else {
        return None;
    };
    let table = u8::try_from(*table).ok().filter(|table| *table <= TABLE)?;
    let cookie = u64::try_from(*cookie).ok()?;
    Some(AwaitedFlow { host: host.clone(), table, cookie, port: port.clone() })
}

/// Reads a row; none if no switch can have it.
pub fn announcement(row: &Row) -> Option<Announcement> {
    let [Value::String(host), Value::String(port), Value::Mac(mac), Value::Int(ofport), Value::Int(tag)] =
        &row[..]
    else {
        return None;
    };
    let ofport = u16::try_from(*ofport).ok().filter(|ofport| (1..=PORT).contains(ofport))?;
    let tag = u16::try_from(*tag).ok().filter(|tag| *tag <= VLAN)?;
    Some(Announcement { host: host.clone(), port: port.clone(), mac: *mac, ofport, tag })
}

/// Reads a row of [`PORT_HOMES`](crate::PORT_HOMES): a port and its host.
pub fn port_home(row: &Row) -> Option<(Arc<str>, Arc<str>)> {
    let [Value::String(port), Value::String(host)] = &row[..] else { return None };
    Some((port.clone(), host.clone()))
}

/// Reads a row; none if no switch can have it.
pub fn vif(row: &Row) -> Option<Vif> {
    let [Value::String(host), Value::String(port), Value::Int(ofport), Value::String(_), Value::Int(since)] =
        &row[..]
    else {
        return None;
    };
    let ofport = u16::try_from(*ofport).ok()?;
    Some(Vif { host: host.to_string(), port: port.to_string(), ofport, since: *since })
}

/// Reads a row of [`TUNNEL_PORT`](crate::TUNNEL_PORT) or [`PATCH_PORT`](crate::PATCH_PORT): host, name and number of a port.
pub fn port(row: &Row) -> Option<((String, String), u16)> {
    let [Value::String(host), Value::String(name), Value::Int(ofport)] = &row[..] else { return None };
    Some(((host.to_string(), name.to_string()), u16::try_from(*ofport).ok()?))
}

/// Reads a row of [`ENDPOINTS`](crate::ENDPOINTS): a host and its address.
pub fn endpoint(row: &Row) -> Option<(String, IpAddr)> {
    let [Value::String(host), Value::Ip(ip)] = &row[..] else { return None };
    Some((host.to_string(), *ip))
}

/// Reads a row of [`BRIDGES`](crate::BRIDGES): a host, a physical network, and the bridge to it.
pub fn bridge(row: &Row) -> Option<(String, String, String)> {
    let [Value::String(host), Value::String(network), Value::String(bridge)] = &row[..] else { return None };
    Some((host.to_string(), network.to_string(), bridge.to_string()))
}

/// Reads a row of [`PARENTS`](crate::PARENTS): a port, its parent, and the VLAN tag.
pub fn parent(row: &Row) -> Option<(String, String, u16)> {
    let [Value::String(port), Value::String(parent), Value::Int(tag)] = &row[..] else { return None };
    Some((port.to_string(), parent.to_string(), u16::try_from(*tag).ok()?))
}

/// Reads a row of [`LOCALNETS`](crate::LOCALNETS): a port, its physical network, and the VLAN tag, 0 for untagged frames.
pub fn localnet(row: &Row) -> Option<(String, String, u16)> {
    let [Value::String(port), _, Value::String(network), Value::Int(tag)] = &row[..] else { return None };
    Some((port.to_string(), network.to_string(), u16::try_from(*tag).ok()?))
}

/// Reads a row of [`MACS`](crate::MACS): a port and its MAC address.
pub fn port_mac(row: &Row) -> Option<(&str, MacAddr)> {
    let [Value::String(port), Value::Mac(mac)] = &row[..] else { return None };
    Some((port, *mac))
}

/// Reads a row of [`IPS`](crate::IPS): a port, its IP address, and the MAC address there.
pub fn port_ip(row: &Row) -> Option<(&str, IpAddr, MacAddr)> {
    let [Value::String(port), Value::Ip(ip), Value::Mac(mac)] = &row[..] else { return None };
    Some((port, *ip, *mac))
}

/// A row of [`MANAGED`](crate::MANAGED).
pub fn managed_row(host: &str) -> Row {
    vec![text(host)]
}

/// The row of an interface without a MAC address.
pub fn vif_row(vif: &Vif) -> Row {
    let Vif { host, port, ofport, since } = vif;
    vec![text(host), text(port), Value::Int((*ofport).into()), text(""), Value::Int(*since)]
}

/// The row of a tunnel or patch port that exists.
pub fn port_row((host, name): &(String, String), ofport: u16) -> Row {
    vec![text(host), text(name), Value::Int(ofport.into())]
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}
