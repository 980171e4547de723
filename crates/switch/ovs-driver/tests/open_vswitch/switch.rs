//! A real Open vSwitch, and what it did.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use ovs_driver::Config;
use ovs_testing::{OpenVswitch, wait_until};

/// An Open vSwitch that logs every OpenFlow message. It has no bridge until the driver makes one.
pub(crate) struct Switch {
    ovs: OpenVswitch,
}

impl Switch {
    pub(crate) fn start() -> Switch {
        let mut switch = Switch { ovs: OpenVswitch::start_database_only() };
        switch.start_vswitchd();
        switch
    }

    pub(crate) fn start_vswitchd(&mut self) {
        self.ovs.start_vswitchd(&["-vvconn:file:dbg"]);
        self.appctl(&["vlog/disable-rate-limit"]);
    }

    /// Runs `ovs-ofctl`, which must succeed; `BRIDGE` stands for the bridge.
    pub(crate) fn ofctl(&self, arguments: &[&str]) -> String {
        let bridge = self.bridge("br-int");
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|argument| if *argument == "BRIDGE" { bridge.as_str() } else { *argument })
            .collect();
        self.try_ofctl(&arguments).unwrap_or_else(|errors| panic!("ovs-ofctl {arguments:?}: {errors}"))
    }

    /// The flows, as Open vSwitch prints them without counters, sorted.
    pub(crate) fn flows(&self) -> Vec<String> {
        let dump = self.ofctl(&["--no-stats", "dump-flows", "BRIDGE"]);
        let mut flows: Vec<String> = dump.lines().map(|line| line.trim().to_owned()).collect();
        flows.retain(|line| line.contains("actions="));
        flows.sort();
        flows
    }

    /// The groups, as Open vSwitch prints them, sorted.
    pub(crate) fn groups(&self) -> Vec<String> {
        let dump = self.ofctl(&["dump-groups", "BRIDGE"]);
        let mut groups: Vec<String> = dump.lines().map(|line| line.trim().to_owned()).collect();
        groups.retain(|line| line.starts_with("group_id"));
        groups.sort();
        groups
    }

    /// How many group modifications the switch has received, as with [`flow_mods`](Switch::flow_mods).
    pub(crate) fn group_mods(&self) -> usize {
        let is_group_mod =
            |line: &&str| line.starts_with("OFPT_GROUP_MOD") || line.contains("received: OFPT_GROUP_MOD");
        self.log().lines().filter(is_group_mod).count()
    }

    /// How many flow modifications the switch has received since it started, alone or in bundles, where the log shows
    /// them on lines of their own.
    pub(crate) fn flow_mods(&self) -> usize {
        let is_flow_mod =
            |line: &&str| line.starts_with("OFPT_FLOW_MOD") || line.contains("received: OFPT_FLOW_MOD");
        self.log().lines().filter(is_flow_mod).count()
    }

    /// The log of ovs-vswitchd up to now, with every OpenFlow message. The daemon writes it in the background, so this
    /// sends a request that nobody else makes and waits until the log has it.
    pub(crate) fn log(&self) -> String {
        static MARKS: AtomicU64 = AtomicU64::new(0xfeed_0000_0000);
        let mark = format!("metadata={:#x}", MARKS.fetch_add(1, Ordering::Relaxed));
        self.ofctl(&["dump-flows", "BRIDGE", &mark]);
        let mut log = String::new();
        wait_until("the daemon has written its log", || {
            let bytes = std::fs::read(self.ovs.path("vs.log")).expect("the log of ovs-vswitchd");
            log = String::from_utf8_lossy(&bytes).into_owned();
            log.contains(&mark)
        });
        log
    }

    pub(crate) fn config(&self) -> Config {
        let endpoint = |file| format!("unix:{}", self.ovs.path(file).display()).parse().expect("an endpoint");
        Config {
            name: "hv1".to_owned(),
            ovsdb: endpoint("db.sock"),
            openflow: endpoint("br-int.mgmt"),
            bridge: "br-int".to_owned(),
            datapath_type: None,
            datapath_id: None,
            tunnel_option: Some(crate::support::flows::TUNNEL_OPTION),
            learned_tables: BTreeSet::new(),
            watched_tables: BTreeSet::new(),
            conflict_tables: BTreeSet::new(),
            learned_limit: None,
            owner: None,
        }
    }
}

impl Deref for Switch {
    type Target = OpenVswitch;

    fn deref(&self) -> &OpenVswitch {
        &self.ovs
    }
}

impl DerefMut for Switch {
    fn deref_mut(&mut self) -> &mut OpenVswitch {
        &mut self.ovs
    }
}
