//! Requirements of a lab, checked before the first namespace is made.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::command::{TOOL_PATH, run, tool};

/// Each tool, with the Debian package that contains it.
const TOOLS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("sysctl", "procps"),
    ("ping", "iputils-ping"),
    ("ovsdb-tool", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-switch"),
    ("ovs-appctl", "openvswitch-switch"),
];

/// Where packages install the database schema. `OVS_PKGDATADIR` takes precedence.
const SCHEMA_FOLDERS: &[&str] = &["/usr/share/openvswitch", "/usr/local/share/openvswitch"];

/// The requirements that the machine does not meet, with remedies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing requirements, one per entry.
    pub what: Vec<String>,
    /// Commands to run, or steps to take, in order.
    pub remedies: Vec<String>,
    /// Debian packages to install.
    pub packages: Vec<&'static str>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this machine cannot carry a lab: {}; remedy: {}",
            self.what.join("; "),
            self.remedies.join("; then ")
        )
    }
}

impl std::error::Error for Missing {}

/// Checks all requirements of a lab: privileges, tools, the schema, and that the kernel grants namespaces, veth pairs and
/// bridges, which it tries in a namespace that is removed at once.
pub fn preflight() -> Result<(), Missing> {
    let mut missing = inventory(rustix::process::geteuid().is_root(), has_tool, schema().is_some());
    if missing.what.is_empty()
        && let Err(error) = try_kernel()
    {
        missing.what.push(format!("the kernel refused a namespace with a veth pair and a bridge: {error}"));
        missing
            .remedies
            .push("run with CAP_SYS_ADMIN and CAP_NET_ADMIN (in a container: --privileged)".to_owned());
        missing.remedies.push("modprobe -a veth bridge tun".to_owned());
    }
    done(missing)
}

/// The cheap part of [`preflight`], which every creation of a lab runs.
pub(crate) fn tools() -> Result<(), Missing> {
    done(inventory(rustix::process::geteuid().is_root(), has_tool, schema().is_some()))
}

fn done(missing: Missing) -> Result<(), Missing> {
    if missing.what.is_empty() { Ok(()) } else { Err(missing) }
}

fn inventory(root: bool, has_tool: impl Fn(&str) -> bool, schema: bool) -> Missing {
    let mut missing = Missing { what: Vec::new(), remedies: Vec::new(), packages: Vec::new() };
    if !root {
        missing.what.push("not running as root".to_owned());
        missing.remedies.push("run it with sudo".to_owned());
    }
    let mut packages: Vec<&'static str> = Vec::new();
    for (tool, package) in TOOLS.iter().filter(|(tool, _)| !has_tool(tool)) {
        missing.what.push(format!("no {tool} in PATH"));
        packages.push(package);
    }
    if !schema {
        missing.what.push(format!("no vswitch.ovsschema in {}", SCHEMA_FOLDERS.join(" or ")));
        packages.push("openvswitch-switch");
    }
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        missing.remedies.push(format!("apt-get install -y {}", packages.join(" ")));
    }
    missing.packages = packages;
    missing
}

fn has_tool(name: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(TOOL_PATH.split(':'))
        .any(|folder| std::path::Path::new(folder).join(name).is_file())
}

/// The schema of the installed Open vSwitch, so that database and daemon agree.
pub(crate) fn schema() -> Option<PathBuf> {
    let named = std::env::var("OVS_PKGDATADIR").ok().map(PathBuf::from);
    let folders = named.into_iter().chain(SCHEMA_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join("vswitch.ovsschema")).find(|file| file.is_file())
}

fn try_kernel() -> Result<(), Error> {
    // Several threads of one process may check at the same time.
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let namespace =
        format!("weft-preflight-{}-{}", std::process::id(), TRIES.fetch_add(1, Ordering::Relaxed));
    let ip = |args: &[&str]| {
        let mut command = tool("ip");
        command.args(args);
        run("preflight", command)
    };
    ip(&["netns", "add", &namespace])?;
    let tried = ip(&["-n", &namespace, "link", "add", "name", "bridge0", "type", "bridge"]).and_then(|_| {
        ip(&["-n", &namespace, "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1"])
    });
    let removed = ip(&["netns", "del", &namespace]);
    tried.and(removed).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_exactly_what_is_missing_and_the_command_to_run() {
        let has = |tool: &str| !["ethtool", "ovs-vswitchd", "ovsdb-tool"].contains(&tool);
        let missing = inventory(false, has, false);
        assert_eq!(
            missing.to_string(),
            "this machine cannot carry a lab: not running as root; no ethtool in PATH; no ovsdb-tool in PATH; \
             no ovs-vswitchd in PATH; no vswitch.ovsschema in /usr/share/openvswitch or /usr/local/share/openvswitch; \
             remedy: run it with sudo; then apt-get install -y ethtool openvswitch-switch"
        );
        assert!(done(inventory(true, |_| true, true)).is_ok());
    }
}
