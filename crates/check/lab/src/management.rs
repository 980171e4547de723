//! A management network: a cable from the namespace in which a controller runs to each host, by which it reaches the host's daemons
//! over TCP.
//!
//! The controller runs in the underlay's namespace, so nothing of a lab is in the namespace of this machine. The frames of machines and
//! tunnels do not take these cables.

use std::net::Ipv4Addr;

use crate::command::ip_batch;
use crate::{Error, Host, Lab};

/// The port where a host's database server listens.
const OVSDB_PORT: u16 = 6640;
/// The port that a transport node gives for `OpenFlow`. Nothing listens there until a controller has the bridge do so.
const OPENFLOW_PORT: u16 = 6653;

/// The device of a host's end.
const DEVICE: &str = "mgmt";

/// The cable between a controller and a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagementLink {
    /// The namespace of the controller.
    namespace: String,
    /// The controller's end.
    device: String,
    host: Host,
    /// The host's address on it.
    pub address: Ipv4Addr,
}

impl Lab {
    /// Lays a cable to each host, and lets the hosts' database servers listen there, as `ovs-vsctl set-manager` does. For a lab whose
    /// hosts have none.
    pub fn lay_management(&self) -> Result<(), Error> {
        for link in self.management_links()? {
            link.lay()?;
        }
        Ok(())
    }

    /// The cables to the hosts, in order, whether laid or not.
    pub fn management_links(&self) -> Result<Vec<ManagementLink>, Error> {
        let namespace = self.underlay_namespace();
        let link = |(host, number): (Host, u8)| ManagementLink {
            namespace: namespace.clone(),
            device: format!("{DEVICE}{number}"),
            host,
            address: [198, 18, number, 2].into(),
        };
        Ok(self.hosts()?.into_iter().zip(1..).map(link).collect())
    }
}

impl ManagementLink {
    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The OVSDB endpoint, `tcp:...`.
    pub fn ovsdb_endpoint(&self) -> String {
        format!("tcp:{}:{OVSDB_PORT}", self.address)
    }

    /// The `OpenFlow` endpoint of `br-int`, `tcp:...`.
    pub fn openflow_endpoint(&self) -> String {
        format!("tcp:{}:{OPENFLOW_PORT}", self.address)
    }

    /// Unplugs the cable.
    pub fn unplug(&self) -> Result<(), Error> {
        self.ip(&self.namespace, format!("link set {} down", self.device))
    }

    /// Plugs the cable in again.
    pub fn plug(&self) -> Result<(), Error> {
        self.ip(&self.namespace, format!("link set {} up", self.device))
    }

    /// Takes the host's address away.
    pub fn take_address(&self) -> Result<(), Error> {
        self.ip(&self.host.namespace, format!("addr del {}/30 dev {DEVICE}", self.address))
    }

    /// Gives the host its address again.
    pub fn give_address(&self) -> Result<(), Error> {
        self.ip(&self.host.namespace, format!("addr add {}/30 dev {DEVICE}", self.address))
    }

    fn lay(&self) -> Result<(), Error> {
        let [a, b, c, _] = self.address.octets();
        let (here, there) = (&self.device, &self.host.namespace);
        ip_batch(
            &self.host.name,
            &self.namespace,
            &[
                format!("link add name {here} type veth peer name {DEVICE} netns {there}"),
                format!("addr add {a}.{b}.{c}.1/30 dev {here}"),
                format!("link set {here} up"),
            ],
        )?;
        self.ip(there, format!("link set {DEVICE} up"))?;
        self.give_address()?;
        self.host.vsctl(&["set-manager", &format!("ptcp:{OVSDB_PORT}:{}", self.address)]).map(drop)
    }

    fn ip(&self, namespace: &str, line: String) -> Result<(), Error> {
        ip_batch(&self.host.name, namespace, &[line])
    }
}
