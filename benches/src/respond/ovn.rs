//! OVN with the network of this benchmark: its databases, northd and controller, on a host of the lab like ours.
//!
//! All run in the host's network namespace with sockets in the host's folder, so the lab ends and removes them.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use lab::{Host, Lab, Options, VmSpec};
use openflow_rs::MacAddr;

use super::{ASKS, Client, FAR, mac};

/// The network of this benchmark without the machine that floods, as arguments of `ovn-nbctl`.
const NETWORK: &str = "
ls-add a -- ls-add b -- lr-add r
-- lrp-add r r-a 02:00:00:00:30:f1 10.30.1.254/24 -- lrp-add r r-b 02:00:00:00:30:f2 10.30.2.254/24
-- lsp-add a a-r -- lsp-set-type a-r router -- lsp-set-addresses a-r router -- lsp-set-options a-r router-port=r-a
-- lsp-add b b-r -- lsp-set-type b-r router -- lsp-set-addresses b-r router -- lsp-set-options b-r router-port=r-b
-- lsp-add a asks -- lsp-add b far
-- --id=@a-4 create DHCP_Options cidr=10.30.1.0/24 options:server_id=10.30.1.253 options:server_mac=\"02:00:00:00:30:fd\"
options:lease_time=3600 options:router=10.30.1.254 options:dns_server=10.30.1.53
-- set Logical_Switch_Port asks dhcpv4_options=@a-4";

pub(crate) struct Ovn {
    /// Ends before the lab does.
    pub(crate) client: Client,
    lab: Lab,
}

impl Ovn {
    pub(crate) fn start() -> Result<Ovn> {
        let name = format!("respond-ovn-{}", std::process::id());
        let lab = Lab::create(Options::new(name).hosts(1).with_integration_bridge())?;
        let host = lab.host("hv1")?;
        for database in ["nb", "sb"] {
            let schema = format!("/usr/share/ovn/ovn-{database}.ovsschema");
            ensure!(Path::new(&schema).exists(), "{schema}: Debian's package ovn-common has it");
            let file = in_folder(&host, &format!("ovn-{database}.db"));
            run(&host, &["ovsdb-tool", "create", &file, &schema])?;
            let remote = format!("--remote=p{}", socket(&host, database));
            daemon(&host, database, &["ovsdb-server", &file, &remote])?;
        }
        let [nb, sb] = ["nb", "sb"].map(|database| socket(&host, database));
        daemon(&host, "northd", &["ovn-northd", &format!("--ovnnb-db={nb}"), &format!("--ovnsb-db={sb}")])?;
        let remote = format!("external_ids:ovn-remote={sb}");
        let address = format!("external_ids:ovn-encap-ip={}", host.ip);
        host.vsctl(&[
            "set",
            "Open_vSwitch",
            ".",
            "external_ids:system-id=hv1",
            &remote,
            "external_ids:ovn-encap-type=geneve",
            &address,
            "external_ids:ovn-bridge-datapath-type=netdev",
        ])?;
        daemon(&host, "controller", &["ovn-controller", &host.ovsdb_endpoint()])?;
        nbctl(&host, &NETWORK.split_whitespace().collect::<Vec<_>>())?;
        let addresses = [
            (ASKS, format!("{} 10.30.1.1 10.30.1.2", MacAddr(mac(1)))),
            (FAR, format!("{} 10.30.2.1", MacAddr(mac(2)))),
        ];
        for (port, addresses) in &addresses {
            nbctl(&host, &["lsp-set-addresses", port, addresses])?;
            nbctl(&host, &["lsp-set-port-security", port, addresses])?;
        }
        let machine = |name: &str, n| VmSpec::new(name, "hv1", name, MacAddr(mac(n)).to_string());
        lab.add_vms(&[
            machine(ASKS, 1).address("10.30.1.1/24").address("10.30.1.2/24").gateway([10, 30, 1, 254]),
            machine(FAR, 2).address("10.30.2.1/24").gateway([10, 30, 2, 254]),
        ])?;
        for (port, _) in &addresses {
            nbctl(&host, &["wait-until", "Logical_Switch_Port", port, "up=true"])?;
        }
        nbctl(&host, &["--wait=hv", "sync"])?;
        host.flush_datapath()?;
        let client = Client::start(&lab)
            .with_context(|| format!("OVN; its logs are in {}", host.run_dir.display()))?;
        Ok(Ovn { client, lab })
    }

    /// The versions of its programs.
    pub(crate) fn version(&self) -> Result<String> {
        let host = self.lab.host("hv1")?;
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let controller = first(run(&host, &["ovn-controller", "--version"])?);
        let switch = first(run(&host, &["ovs-vswitchd", "--version"])?);
        Ok(format!("{controller}, {switch}"))
    }
}

fn in_folder(host: &Host, file: &str) -> String {
    host.run_dir.join(file).display().to_string()
}

fn socket(host: &Host, database: &str) -> String {
    format!("unix:{}", in_folder(host, &format!("ovn-{database}.sock")))
}

/// Starts a daemon; returns when it is at work.
fn daemon(host: &Host, name: &str, argv: &[&str]) -> Result<()> {
    let files = [("pidfile", "pid"), ("log-file", "log")]
        .map(|(option, ending)| format!("--{option}={}", in_folder(host, &format!("ovn-{name}.{ending}"))));
    let mut argv = argv.to_vec();
    argv.extend(files.iter().map(String::as_str));
    argv.extend(["-vconsole:off", "-vsyslog:off", "--detach", "--no-chdir"]);
    run(host, &argv).map(drop)
}

fn nbctl(host: &Host, arguments: &[&str]) -> Result<()> {
    let database = format!("--db={}", socket(host, "nb"));
    let mut argv = vec!["ovn-nbctl", &database, "--timeout=60"];
    argv.extend(arguments);
    run(host, &argv).map(drop)
}

fn run(host: &Host, argv: &[&str]) -> Result<String> {
    let (program, arguments) = argv.split_first().context("no program")?;
    // Where OVN's daemons make their control sockets.
    let done = host.command(program).args(arguments).env("OVN_RUNDIR", &host.run_dir).output()?;
    ensure!(
        done.status.success(),
        "{argv:?} ({}; Debian's packages ovn-central and ovn-host have OVN's programs): {}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
