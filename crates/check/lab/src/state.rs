//! The state of a running lab on disk: `/run/weft-lab/NAME/state.json`.
//!
//! The file is the only record. Each call reads it again, so several processes (a demo that owns a lab, `weft lab ...` in
//! another terminal) can work on one lab. It is replaced atomically, under a lock that is held while the file changes, but
//! not during the work that the change describes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Error, Host, registry};

/// A running lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// The lab's name.
    pub name: String,
    /// The folder of the hosts' folders.
    pub run_dir: PathBuf,
    /// Whether the lab was left running on purpose. Such a lab is not swept.
    pub kept: bool,
    /// MTU of the underlay, bytes.
    pub underlay_mtu: u16,
    /// Prefix length of the underlay's subnet.
    pub underlay_prefix: u8,
    /// Whether the lab makes `br-int` on each host.
    pub integration_bridge: bool,
    /// Its hosts, in order of creation.
    pub hosts: Vec<Host>,
    /// Its virtual machines, by name.
    pub vms: BTreeMap<String, Vm>,
    /// Its physical networks, by name. Each host has a bridge for each of them.
    #[serde(default)]
    pub physical: Vec<String>,
    /// The next number for an interface whose regular name is too long.
    pub next_number: u32,
}

/// A virtual machine of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Its name.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// The host with the other end of its eth0, or, behind another machine, that machine's host. Empty on a physical
    /// network.
    pub host: String,
    /// Whether that end is a port of a bridge; on a host, the bridge is `br-int`.
    pub attached: bool,
    /// The name of that end and of the port.
    pub port: String,
    /// `external_ids:iface-id`.
    pub iface_id: String,
    /// The MAC address of eth0 and `external_ids:attached-mac`, in lower case with colons.
    pub mac: String,
    /// The IP addresses of eth0, with prefix length.
    pub addresses: Vec<IpNet>,
    /// Default routes, at most one per address family.
    pub gateways: Vec<IpAddr>,
    /// The OpenFlow port number that it asks for.
    #[serde(default)]
    pub ofport: Option<u16>,
    /// The MTU of eth0, bytes.
    pub mtu: u16,
    /// The other end of its eth0.
    #[serde(default)]
    pub link: Link,
    /// Whether other machines can be behind it.
    #[serde(default)]
    pub trunk: bool,
}

/// The other end of a virtual machine's eth0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// `br-int` of its host.
    #[default]
    Host,
    /// Another machine, which forwards its frames with a VLAN tag, as a VM does for its containers.
    Tag {
        /// The other machine.
        parent: String,
        /// The VLAN id, 1 to 4094.
        tag: u16,
    },
    /// The switch of a physical network.
    Physical {
        /// The network.
        network: String,
        /// The VLAN id, 0 for untagged.
        tag: u16,
    },
}

impl Vm {
    /// All its addresses.
    pub fn ips(&self) -> BTreeSet<IpAddr> {
        self.addresses.iter().map(IpNet::addr).collect()
    }

    /// The machine that it is behind, if any.
    pub fn parent(&self) -> Option<&str> {
        match &self.link {
            Link::Tag { parent, .. } => Some(parent),
            Link::Host | Link::Physical { .. } => None,
        }
    }

    /// Its first IPv4 address, or else its first address.
    pub fn ip(&self) -> Option<IpAddr> {
        let v4 = self.addresses.iter().find(|net| net.addr().is_ipv4());
        v4.or(self.addresses.first()).map(IpNet::addr)
    }
}

impl State {
    /// Reads the state of lab `name`.
    pub fn load(name: &str) -> Result<State, Error> {
        registry::check_name("lab name", name)?;
        let path = state_path(name);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoLab(name.to_owned()));
            }
            other => other.map_err(Error::io("read", &path))?,
        };
        serde_json::from_slice(&text).map_err(|source| Error::State { path, source })
    }

    /// The host named `name`.
    pub fn host(&self, name: &str) -> Result<&Host, Error> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| {
            self.unknown("host", name, self.hosts.iter().map(|host| host.name.as_str()).collect())
        })
    }

    /// The virtual machine named `name`.
    pub fn vm(&self, name: &str) -> Result<&Vm, Error> {
        self.vms.get(name).ok_or_else(|| {
            self.unknown("virtual machine", name, self.vms.keys().map(String::as_str).collect())
        })
    }

    fn unknown(&self, kind: &'static str, name: &str, known: Vec<&str>) -> Error {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::Unknown { lab: self.name.clone(), kind, name: name.to_owned(), known }
    }

    pub(crate) fn save(&self) -> Result<(), Error> {
        let path = state_path(&self.name);
        let new = path.with_extension("json.new");
        let text =
            serde_json::to_vec_pretty(self).map_err(|source| Error::State { path: path.clone(), source })?;
        // Replaced by renaming: after a crash, and for readers, the state is either the old one or the new one.
        std::fs::write(&new, text).map_err(Error::io("write", &new))?;
        std::fs::rename(&new, &path).map_err(Error::io("write", &path))
    }

    /// Changes the state on disk under its lock. Nothing is written if `change` fails.
    pub(crate) fn update<T>(
        name: &str,
        change: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _alone = lock(name)?;
        let mut state = State::load(name)?;
        let result = change(&mut state)?;
        state.save()?;
        Ok(result)
    }
}

fn state_path(name: &str) -> PathBuf {
    registry::folder(name).join("state.json")
}

fn lock(name: &str) -> Result<File, Error> {
    let path = registry::folder(name).join("state.lock");
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::NoLab(name.to_owned()));
        }
        other => other.map_err(Error::io("create", &path))?,
    };
    file.lock().map_err(Error::io("lock", &path))?;
    Ok(file)
}
