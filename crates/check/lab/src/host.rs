//! One virtual host, a transport node: a namespace with an uplink, `br-phy` and two daemons.
//!
//! `br-phy` is a userspace bridge of the uplink and an internal port that holds the tunnel address; tunnel
//! packets of `br-int` leave through it (openvswitch "userspace datapath, native tunnelling").

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cleanup::CONTROLLER;
use crate::command::{ip_batch, run, tool, tool_in};
use crate::registry::{Kind, check_name, namespace};
use crate::{Error, Vswitch};

/// A host to make.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Its name: 1 to 24 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Its tunnel address in the underlay's subnet.
    pub ip: Ipv4Addr,
}

impl HostSpec {
    /// A host `name` with tunnel address `ip`.
    pub fn new(name: impl Into<String>, ip: impl Into<Ipv4Addr>) -> Self {
        HostSpec { name: name.into(), ip: ip.into() }
    }
}

/// A virtual host of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its Open vSwitch, with the host's name, namespace and folder.
    #[serde(flatten)]
    pub vswitch: Vswitch,
    /// Its tunnel address, on `br-phy`.
    pub ip: Ipv4Addr,
    /// Prefix length of the underlay's subnet.
    pub prefix: u8,
    /// MAC address of `br-phy`. It is fixed, because peers cache a neighbour for 900 s and do not notice a change.
    pub mac: String,
    /// Underlay MTU, bytes.
    pub mtu: u16,
}

impl Deref for Host {
    type Target = Vswitch;

    fn deref(&self) -> &Vswitch {
        &self.vswitch
    }
}

impl Host {
    pub(crate) fn plan(
        lab: &str,
        spec: &HostSpec,
        run_dir: &Path,
        prefix: u8,
        mtu: u16,
    ) -> Result<Host, Error> {
        check_name("host name", &spec.name)?;
        if spec.name == CONTROLLER {
            return Err(Error::invalid(
                "host name",
                CONTROLLER,
                "a lab's controller has the folder of this name",
            ));
        }
        let [a, b, c, d] = spec.ip.octets();
        Ok(Host {
            vswitch: Vswitch::plan(&spec.name, namespace(lab, Kind::Host, &spec.name), run_dir, &spec.name)?,
            ip: spec.ip,
            prefix,
            mac: format!("0e:fe:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
            mtu,
        })
    }

    /// Starts `ovs-vswitchd` and makes `br-phy` usable again. Flows are lost; the database is kept.
    pub fn start_vswitchd(&self) -> Result<(), Error> {
        self.start_vswitchd_with(&[])
    }

    /// The same with more options, such as `--ssl-protocols=TLSv1.2`.
    pub fn start_vswitchd_with(&self, options: &[&str]) -> Result<(), Error> {
        self.run_vswitchd(options)?;
        if self.vsctl(&["--no-wait", "list-br"])?.lines().any(|bridge| bridge == "br-phy") {
            self.address_br_phy()?;
        }
        Ok(())
    }

    /// Enters `peer`'s tunnel address and MAC address in this host's neighbour table, so that the first packet is not lost
    /// to ARP.
    pub(crate) fn learn_neighbour(&self, peer: &Host) -> Result<(), Error> {
        self.appctl(&["tnl/arp/set", "br-phy", &peer.ip.to_string(), &peer.mac]).map(drop)
    }

    /// Builds the host: namespace, uplink, daemons, `br-phy`. `number` names the underlay's end of the uplink.
    pub(crate) fn build(&self, underlay: &str, number: usize) -> Result<(), Error> {
        self.build_namespace(underlay, number)?;
        self.start()?;
        let address = format!("other_config:hwaddr=\"{}\"", self.mac);
        let mtu = format!("mtu_request={}", self.mtu);
        let mut arguments = vec!["add-br", "br-phy", "--", "set", "Bridge", "br-phy"];
        arguments.extend(["datapath_type=netdev", &address, "--", "set", "Interface", "br-phy", &mtu]);
        arguments.extend(["--", "add-port", "br-phy", "uplink"]);
        self.vsctl(&arguments)?;
        self.ofport("uplink")?;
        self.address_br_phy()
    }

    fn build_namespace(&self, underlay: &str, number: usize) -> Result<(), Error> {
        let mut add = tool("ip");
        add.args(["netns", "add", &self.namespace]);
        run(&self.name, add)?;
        let (mtu, there) = (self.mtu, format!("host{number}"));
        // Before any device is up, so that none ever uses IPv6 or answers ARP for br-phy: the kernel sees the uplink's
        // frames as Open vSwitch does.
        let mut settings = tool_in(&self.namespace, "sysctl");
        settings.args([
            "-e",
            "-qw",
            "net.ipv6.conf.all.disable_ipv6=1",
            "net.ipv6.conf.default.disable_ipv6=1",
        ]);
        settings.args(["net.ipv4.conf.all.arp_ignore=1"]);
        run(&self.name, settings)?;
        ip_batch(
            &self.name,
            &self.namespace,
            &[
                format!(
                    "link add name uplink mtu {mtu} type veth peer name {there} mtu {mtu} netns {underlay}"
                ),
                "link set lo up".to_owned(),
                "link set uplink up".to_owned(),
            ],
        )?;
        ip_batch(&self.name, underlay, &[format!("link set {there} master switch up")])?;
        self.checksum_offload_off("uplink")
    }

    fn address_br_phy(&self) -> Result<(), Error> {
        ip_batch(
            &self.name,
            &self.namespace,
            &[
                format!("addr replace {}/{} dev br-phy", self.ip, self.prefix),
                "link set br-phy up".to_owned(),
            ],
        )
    }
}
