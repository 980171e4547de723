//! What is on disk about a running lab: `/run/weft-lab/NAME/state.json`.
//!
//! The file is the only record, read anew by each call, so that several processes (a demo that owns a lab,
//! `weft lab ...` in another terminal) work on one lab. It is replaced as a whole, under a lock of its own
//! that is held for the change and not for the work that the change describes.

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
    /// Where the hosts' folders are.
    pub run_dir: PathBuf,
    /// Left running on purpose; not swept.
    pub kept: bool,
    /// MTU of the underlay, bytes.
    pub underlay_mtu: u16,
    /// Prefix length of the underlay's subnet.
    pub underlay_prefix: u8,
    /// Whether hosts come up with `br-int`.
    pub integration_bridge: bool,
    /// In order of creation.
    pub hosts: Vec<Host>,
    /// By name.
    pub vms: BTreeMap<String, Vm>,
    /// Physical networks, by name; each host has a bridge on each.
    #[serde(default)]
    pub physical: Vec<String>,
    /// Next number for an interface whose natural name is too long or taken.
    pub next_number: u32,
}

/// A virtual machine of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Its name.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// The host that has the other end of its eth0; of one behind another, that one's. Empty on a physical network.
    pub host: String,
    /// Whether that end is a port of a bridge: of `br-int`, if it is at a host.
    pub attached: bool,
    /// Name of that end, and of the port.
    pub port: String,
    /// `external_ids:iface-id`.
    pub iface_id: String,
    /// MAC of eth0 and `external_ids:attached-mac`, lower case with colons.
    pub mac: String,
    /// Addresses of eth0, with prefix length.
    pub addresses: Vec<IpNet>,
    /// Default routes, at most one of a family.
    pub gateways: Vec<IpAddr>,
    /// MTU of eth0, bytes.
    pub mtu: u16,
    /// What its eth0 is connected to.
    #[serde(default)]
    pub link: Link,
    /// Whether other machines can stand behind it.
    #[serde(default)]
    pub trunk: bool,
}

/// What a machine's eth0 is connected to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// `br-int` of its host.
    #[default]
    Host,
    /// Another machine, which sends its frames on with a VLAN tag, as a VM does with those of its containers.
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

    /// The machine that it stands behind, if it does.
    pub fn parent(&self) -> Option<&str> {
        match &self.link {
            Link::Tag { parent, .. } => Some(parent),
            Link::Host | Link::Physical { .. } => None,
        }
    }

    /// The address to reach it at: its first of IPv4, else its first.
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
        // Replaced by renaming: a reader, or a crash, sees the old state or the new one.
        std::fs::write(&new, text).map_err(Error::io("write", &new))?;
        std::fs::rename(&new, &path).map_err(Error::io("write", &path))
    }

    /// Changes the state on disk, alone; nothing is written if `change` fails.
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
