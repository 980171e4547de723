//! The desired state of a switch (flows, groups, meters, conntrack zones and their limits, sets of collectors, tunnel and patch
//! ports, BFD sessions), and changes of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tunnel_encap::Encap;

use crate::bfd::BfdSession;
use crate::collectors::CollectorSet;
use crate::flow::{Flow, FlowKey};
use crate::group::{Bucket, Choice};
use crate::limits::ZoneLimits;
use crate::meter::Meter;
use crate::zone::{self, ZoneOwner};

/// The desired state of the integration bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Desired {
    /// The flows; a switch has at most one for each key.
    pub flows: BTreeMap<FlowKey, Flow>,
    /// The buckets of groups that give a packet to all of them, by group number (at most
    /// [`GROUP_MAX`](crate::GROUP_MAX)) and bucket number (at most [`BUCKET_MAX`](crate::BUCKET_MAX)). A group exists while
    /// it has a bucket.
    pub groups: BTreeMap<(u32, u32), Bucket>,
    /// How the other groups choose one of their buckets. None of them has buckets in `groups`.
    pub choices: BTreeMap<u32, Choice>,
    /// The buckets of these groups, likewise.
    pub candidates: BTreeMap<(u32, u32), Bucket>,
    /// The meters, by number from 1 to [`METER_MAX`](crate::METER_MAX).
    pub meters: BTreeMap<u32, Meter>,
    /// The owners of conntrack zones, by zone. A zone is flushed before its owner gets it.
    pub zones: BTreeMap<u16, ZoneOwner>,
    /// What bounds the connections of zones. It is in force before the flows of its transaction.
    pub limits: BTreeMap<u16, ZoneLimits>,
    /// The sets of IPFIX collectors, by the number that actions `sample` name. They are in force before the flows of their
    /// transaction.
    pub collectors: BTreeMap<u32, CollectorSet>,
    /// The tunnel ports, by port name.
    pub tunnels: BTreeMap<String, Tunnel>,
    /// The BFD sessions of tunnel ports, by port name.
    pub bfd: BTreeMap<String, BfdSession>,
    /// The patch ports, by the name of the end on the integration bridge. Tunnel and patch ports share one space of
    /// names.
    pub patches: BTreeMap<String, Patch>,
    /// The learned flows to report, by table and cookie. The table is one of
    /// [`Config::watched_tables`](crate::Config::watched_tables).
    pub awaited: BTreeSet<(u8, u64)>,
}

/// The changes of one transaction. An addition replaces an existing object with the same key. A key should not be in
/// both an `add` and its `delete`; if it is, the addition wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Flows to add or to replace.
    pub flows_add: BTreeMap<FlowKey, Flow>,
    /// Flows to delete.
    pub flows_delete: BTreeSet<FlowKey>,
    /// Buckets to add or to replace.
    pub buckets_add: BTreeMap<(u32, u32), Bucket>,
    /// Buckets to delete.
    pub buckets_delete: BTreeSet<(u32, u32)>,
    /// Groups that choose one of their buckets, to add or to change. A switch replaces the type of a group without
    /// removing the flows that use it.
    pub choices_add: BTreeMap<u32, Choice>,
    /// Groups that do so no more.
    pub choices_delete: BTreeSet<u32>,
    /// Buckets of such groups to add or to replace.
    pub candidates_add: BTreeMap<(u32, u32), Bucket>,
    /// Buckets of such groups to delete.
    pub candidates_delete: BTreeSet<(u32, u32)>,
    /// Meters to add or to replace.
    pub meters_add: BTreeMap<u32, Meter>,
    /// Meters to delete.
    pub meters_delete: BTreeSet<u32>,
    /// Conntrack zones with a new owner.
    pub zones_add: BTreeMap<u16, ZoneOwner>,
    /// Conntrack zones that nobody owns any more.
    pub zones_delete: BTreeSet<u16>,
    /// Limits of zones to add or to replace.
    pub limits_add: BTreeMap<u16, ZoneLimits>,
    /// Zones without limits from now on.
    pub limits_delete: BTreeSet<u16>,
    /// Sets of collectors to add or to replace.
    pub collectors_add: BTreeMap<u32, CollectorSet>,
    /// Sets of collectors to remove.
    pub collectors_delete: BTreeSet<u32>,
    /// Tunnel ports to create, or to change.
    pub tunnels_add: BTreeMap<String, Tunnel>,
    /// Tunnel ports to remove.
    pub tunnels_delete: BTreeSet<String>,
    /// BFD sessions of tunnel ports to begin, or to change.
    pub bfd_add: BTreeMap<String, BfdSession>,
    /// BFD sessions of tunnel ports to end.
    pub bfd_delete: BTreeSet<String>,
    /// Patch ports to create, or to change.
    pub patches_add: BTreeMap<String, Patch>,
    /// Patch ports to remove.
    pub patches_delete: BTreeSet<String>,
    /// Learned flows to report from now on.
    pub awaited_add: BTreeSet<(u8, u64)>,
    /// Learned flows not to report any more.
    pub awaited_delete: BTreeSet<(u8, u64)>,
    /// Frames to send once the transaction is in force: at once and a few times more. They have names, so that later
    /// transactions can end that, and are no part of the desired state.
    pub frames_add: BTreeMap<String, Frame>,
    /// Frames not to be sent any more.
    pub frames_delete: BTreeSet<String>,
}

impl Changes {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        let flows = self.flows_add.is_empty() && self.flows_delete.is_empty();
        let groups = self.buckets_add.is_empty() && self.buckets_delete.is_empty() && !self.touches_choices();
        let meters = self.meters_add.is_empty() && self.meters_delete.is_empty();
        let zones = self.zones_add.is_empty() && self.zones_delete.is_empty();
        let awaited = self.awaited_add.is_empty() && self.awaited_delete.is_empty();
        let frames = self.frames_add.is_empty() && self.frames_delete.is_empty();
        flows && groups && meters && zones && awaited && frames && !self.touches_database()
    }

    /// Whether any group that chooses one of its buckets is added, changed or removed.
    pub fn touches_choices(&self) -> bool {
        let choices = !self.choices_add.is_empty() || !self.choices_delete.is_empty();
        choices || !self.candidates_add.is_empty() || !self.candidates_delete.is_empty()
    }

    /// The numbers of all groups that are added, changed or removed.
    pub fn touched_groups(&self) -> BTreeSet<u32> {
        let deleted = self.buckets_delete.iter().chain(&self.candidates_delete);
        let buckets = self.buckets_add.keys().chain(self.candidates_add.keys()).chain(deleted);
        let choices = self.choices_add.keys().chain(&self.choices_delete);
        buckets.map(|(group, _)| group).chain(choices).copied().collect()
    }

    /// Whether the switch's database changes: any tunnel or patch port, any BFD session, the limits of any zone, or any
    /// set of collectors.
    pub fn touches_database(&self) -> bool {
        let tunnels = !self.tunnels_add.is_empty() || !self.tunnels_delete.is_empty();
        let patches = !self.patches_add.is_empty() || !self.patches_delete.is_empty();
        let limits = !self.limits_add.is_empty() || !self.limits_delete.is_empty();
        let collectors = !self.collectors_add.is_empty() || !self.collectors_delete.is_empty();
        let bfd = !self.bfd_add.is_empty() || !self.bfd_delete.is_empty();
        tunnels || patches || bfd || limits || collectors
    }
}

impl Desired {
    /// Applies the changes to this state.
    pub fn apply(&mut self, changes: &Changes) {
        for key in &changes.flows_delete {
            self.flows.remove(key);
        }
        self.flows.extend(changes.flows_add.iter().map(|(key, flow)| (key.clone(), flow.clone())));
        for key in &changes.buckets_delete {
            self.groups.remove(key);
        }
        self.groups.extend(changes.buckets_add.iter().map(|(key, bucket)| (*key, bucket.clone())));
        for group in &changes.choices_delete {
            self.choices.remove(group);
        }
        self.choices.extend(changes.choices_add.iter().map(|(group, choice)| (*group, choice.clone())));
        for key in &changes.candidates_delete {
            self.candidates.remove(key);
        }
        self.candidates.extend(changes.candidates_add.iter().map(|(key, bucket)| (*key, bucket.clone())));
        for meter in &changes.meters_delete {
            self.meters.remove(meter);
        }
        self.meters.extend(&changes.meters_add);
        for zone in &changes.zones_delete {
            self.zones.remove(zone);
        }
        self.zones.extend(changes.zones_add.iter().map(|(zone, owner)| (*zone, owner.clone())));
        for zone in &changes.limits_delete {
            self.limits.remove(zone);
        }
        self.limits.extend(&changes.limits_add);
        for set in &changes.collectors_delete {
            self.collectors.remove(set);
        }
        self.collectors.extend(changes.collectors_add.iter().map(|(id, set)| (*id, set.clone())));
        for name in &changes.patches_delete {
            self.patches.remove(name);
        }
        self.patches.extend(changes.patches_add.iter().map(|(name, patch)| (name.clone(), patch.clone())));
        for name in &changes.tunnels_delete {
            self.tunnels.remove(name);
        }
        self.tunnels.extend(changes.tunnels_add.iter().map(|(name, tunnel)| (name.clone(), tunnel.clone())));
        for name in &changes.bfd_delete {
            self.bfd.remove(name);
        }
        self.bfd.extend(changes.bfd_add.iter().map(|(name, session)| (name.clone(), *session)));
        for source in &changes.awaited_delete {
            self.awaited.remove(source);
        }
        self.awaited.extend(&changes.awaited_add);
    }
}

/// A frame that leaves the switch through a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The OpenFlow number of the port.
    pub ofport: u16,
    /// The frame, from its destination address on, with its VLAN tag if it has one.
    pub bytes: Arc<[u8]>,
}

/// A tunnel port. Flows set the key of each packet (`options:key=flow`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tunnel {
    /// The encapsulation.
    pub encap: Encap,
    /// The other end.
    pub remote: Remote,
}

/// A pair of patch ports between the integration bridge and another bridge. A packet that leaves through one end
/// enters through the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Patch {
    /// The other bridge, which the driver does not create.
    pub bridge: String,
    /// The name of the port on the other bridge.
    pub peer: String,
}

/// A port of the driver, of either kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Port {
    Tunnel(Tunnel),
    Patch(Patch),
}

/// The ports of both kinds, by name.
pub(crate) type Ports = BTreeMap<String, Port>;

impl Desired {
    /// The flows, and the marks of zones.
    pub(crate) fn flows_and_marks(&self) -> Cow<'_, BTreeMap<FlowKey, Flow>> {
        if self.zones.is_empty() {
            return Cow::Borrowed(&self.flows);
        }
        let mut flows = self.flows.clone();
        flows.extend(self.zones.iter().map(|(zone, owner)| (zone::key(*zone), owner.mark())));
        Cow::Owned(flows)
    }

    pub(crate) fn ports(&self) -> Ports {
        ports(&self.tunnels, &self.patches).collect()
    }
}

impl Changes {
    /// The ports to create or to change.
    pub(crate) fn ports_add(&self) -> impl Iterator<Item = (String, Port)> {
        ports(&self.tunnels_add, &self.patches_add)
    }

    /// The ports to remove, except those to be created again as the other kind.
    pub(crate) fn ports_delete(&self) -> impl Iterator<Item = &String> {
        let gone =
            |name: &&String| !self.tunnels_add.contains_key(*name) && !self.patches_add.contains_key(*name);
        self.tunnels_delete.iter().chain(&self.patches_delete).filter(gone)
    }
}

fn ports(
    tunnels: &BTreeMap<String, Tunnel>,
    patches: &BTreeMap<String, Patch>,
) -> impl Iterator<Item = (String, Port)> {
    let tunnels = tunnels.iter().map(|(name, tunnel)| (name.clone(), Port::Tunnel(tunnel.clone())));
    tunnels.chain(patches.iter().map(|(name, patch)| (name.clone(), Port::Patch(patch.clone()))))
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to {} of {}", self.peer, self.bridge)
    }
}

impl Port {
    /// The port as readable text.
    pub(crate) fn show(&self, name: &str) -> String {
        match self {
            Port::Tunnel(tunnel) => format!("tunnel {name}: {tunnel}"),
            Port::Patch(patch) => format!("patch {name}: {patch}"),
        }
    }
}

/// The remote end of a tunnel port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remote {
    /// The flow that outputs to the port sets `tun_dst`.
    Flow,
    /// One host.
    Address(IpAddr),
}

/// A text that is neither an IP address nor `flow`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the remote end of a tunnel; use an IPv4 or IPv6 address, or `flow`")]
pub struct RemoteError(String);

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Flow => f.write_str("flow"),
            Remote::Address(address) => write!(f, "{address}"),
        }
    }
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        match text {
            "flow" => Ok(Remote::Flow),
            _ => text.parse().map(Remote::Address).map_err(|_| RemoteError(text.to_owned())),
        }
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.encap, self.remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_read_as_they_print() {
        for text in ["flow", "172.31.0.2", "2001:db8::1"] {
            assert_eq!(text.parse::<Remote>().map(|remote| remote.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("hv2".parse::<Remote>(), Err(RemoteError("hv2".to_owned())));
    }
}
