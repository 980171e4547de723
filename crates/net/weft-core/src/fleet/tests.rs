use std::time::SystemTime;

use switch_model::{Changes, Edits, Encap, Remote, Tunnel};

use super::*;
use crate::core::AddressChange;
use crate::levels::Difference;
use crate::receipt::{Receipt, SwitchReceipt};

mod order;

/// A fleet, and the addresses that it follows.
struct Setting {
    fleet: Fleet,
    addresses: BTreeMap<String, Arc<SwitchAddress>>,
    /// The OpenFlow endpoints of the drivers that run.
    drivers: BTreeMap<DriverId, String>,
    txn: u64,
    now: Now,
}

/// A transport node whose switch has its sockets in a folder.
type Node = (String, Arc<SwitchAddress>);

fn node(id: &str, folder: &str) -> Node {
    let endpoint = |name: &str| Some(format!("unix:{folder}/{name}"));
    let address = SwitchAddress { ovsdb: endpoint("db"), openflow: endpoint("of"), datapath_type: None };
    (id.to_owned(), Arc::new(address))
}

impl Setting {
    fn new(nodes: &[Node]) -> Setting {
        let now = Now { instant: Instant::now(), wall: SystemTime::now() };
        let fleet = Fleet::new(now);
        let (addresses, drivers) = (BTreeMap::new(), BTreeMap::new());
        let mut setting = Setting { fleet, addresses, drivers, txn: 0, now };
        setting.apply(nodes);
        setting
    }

    /// Time passes.
    fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.fleet.set_now(self.now);
        self.fleet.pass();
    }

    /// What drivers were told since the last call, by the addresses of their switches.
    fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        for order in self.fleet.take_told() {
            let (what, driver) = match order {
                DriverOrder::Start { driver, address, .. } => {
                    self.drivers.insert(driver, address.openflow.clone().unwrap());
                    ("start".to_owned(), driver)
                }
                DriverOrder::Give(driver, _) => ("give".to_owned(), driver),
                DriverOrder::Push { driver, txn, .. } => (format!("push {txn} to"), driver),
                DriverOrder::Leave(driver) => ("leave".to_owned(), driver),
                DriverOrder::Stop(driver) => ("end".to_owned(), driver),
                DriverOrder::Send { driver, .. } => ("send".to_owned(), driver),
                DriverOrder::Count { driver, .. } => ("count".to_owned(), driver),
            };
            told.push(format!("{what} {}", self.drivers[&driver]));
        }
        told
    }

    fn apply(&mut self, nodes: &[Node]) {
        let changes = self.changes(nodes);
        self.follow(&changes);
    }

    /// The changes that give these nodes these addresses.
    fn changes(&self, nodes: &[Node]) -> AddressChanges {
        let change = |(node, address): &Node| {
            let (before, after) = (self.addresses.get(node).cloned(), Some(address.clone()));
            (before != after).then(|| (node.clone(), AddressChange { before, after }))
        };
        nodes.iter().filter_map(change).collect()
    }

    /// The change that deletes a node.
    fn deletion(&self, node: &str) -> AddressChanges {
        let before = self.addresses.get(node).cloned();
        [(node.to_owned(), AddressChange { before, after: None })].into()
    }

    /// Deletes a transport node. The removal of its flows takes a transaction with the same number.
    fn delete(&mut self, node: &str, taken_away: Changes) -> Progress {
        let changes = self.deletion(node);
        let progress = self.push(node, taken_away);
        self.txn -= 1;
        self.follow(&changes);
        progress
    }

    fn follow(&mut self, changes: &AddressChanges) {
        for (node, change) in changes {
            match &change.after {
                Some(address) => drop(self.addresses.insert(node.clone(), address.clone())),
                None => drop(self.addresses.remove(node)),
            }
        }
        self.txn += 1;
        self.fleet.commit(self.txn, changes, |_| Given::default());
    }

    fn event(&mut self, node: &str, event: Event) {
        let draining = self.fleet.draining.iter().find(|draining| draining.node == node);
        let switch = draining.map_or_else(|| &self.fleet.switches[node], |draining| &draining.switch);
        let (node, driver) = (node.to_owned(), switch.driver);
        self.fleet.news(SwitchNews { node, driver, what: News::Event(event) });
    }

    /// What is observed of a switch and counts.
    fn difference(&mut self, node: &str) -> Option<Difference> {
        self.fleet.take_difference(node, 0)
    }

    fn connect(&mut self, node: &str, channel: Channel) {
        self.event(node, Event::Connected { channel });
    }

    fn disconnect(&mut self, node: &str, channel: Channel) {
        self.event(node, Event::Disconnected { channel, why: "broke".to_owned() });
    }

    fn confirm(&mut self, node: &str, txn: u64) {
        self.event(node, Event::Confirmed { txn, at: self.now.instant, sent: None });
    }

    /// Pushes the next transaction and keeps its receipt.
    fn push(&mut self, node: &str, changes: Changes) -> Progress {
        self.txn += 1;
        let receipt = self.fleet.push(self.txn, node, changes);
        let progress = receipt.progress.clone();
        self.keep_receipt([(node.to_owned(), receipt)].into());
        progress
    }

    /// Keeps the receipt of the last transaction.
    fn keep_receipt(&mut self, switches: BTreeMap<String, SwitchReceipt>) {
        self.fleet.receipts.add(Receipt {
            txn: self.txn,
            by: "test".to_owned(),
            at: String::new(),
            accepted: self.now.instant,
            computed: Duration::ZERO,
            journalled: Duration::ZERO,
            switches,
        });
    }

    fn progress(&self, txn: u64, node: &str) -> Progress {
        self.fleet.receipts.kept(txn).unwrap().switches[node].progress.clone()
    }

    fn status(&self) -> Vec<SwitchStatus> {
        let status = |node| self.fleet.status(node, DesiredCounts::default(), 0);
        self.fleet.nodes().filter_map(status).collect()
    }
}

fn tunnel() -> Changes {
    let tunnel = Tunnel { encap: Encap::Geneve, remote: Remote::Flow };
    Changes { tunnels: Edits::add([("weft-geneve".to_owned(), tunnel)]), ..Changes::default() }
}

#[test]
fn a_transaction_whose_connection_is_down_holds_nobody_up() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    setting.connect("hv1", Channel::OpenFlow);
    assert_eq!(setting.push("hv1", tunnel()), Progress::Offline);
    assert_eq!(setting.push("hv1", Changes::default()), Progress::Pending);
    setting.connect("hv1", Channel::Ovsdb);
    assert_eq!(setting.push("hv1", tunnel()), Progress::Pending);
    let (first, last) = (setting.txn - 2, setting.txn);
    // The database disconnects: transactions with tunnels go offline, the others do not.
    setting.disconnect("hv1", Channel::Ovsdb);
    assert_eq!(setting.progress(last - 1, "hv1"), Progress::Pending);
    assert_eq!(setting.progress(last, "hv1"), Progress::Offline);
    setting.confirm("hv1", last - 1);
    assert!(matches!(setting.progress(last - 1, "hv1"), Progress::Confirmed(_)));
    assert_eq!(setting.status()[0].pending, 2);
    // The database reconnects. The driver confirms both transactions with the last one; their receipts were final.
    setting.connect("hv1", Channel::Ovsdb);
    setting.confirm("hv1", last);
    assert_eq!(setting.status()[0].pending, 0);
    assert_eq!(setting.progress(first, "hv1"), Progress::Offline);
}

#[test]
fn a_switch_that_is_away_costs_the_same_however_much_is_pushed() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    setting.connect("hv1", Channel::OpenFlow);
    setting.push("hv1", Changes::default());
    setting.disconnect("hv1", Channel::OpenFlow);
    for _ in 0..200_000 {
        setting.push("hv1", Changes::default());
        // As the daemon does after each group.
        setting.fleet.receipts.take_changed();
    }
    assert_eq!(setting.fleet.switches["hv1"].pending.len(), 0);
    assert_eq!(setting.status()[0].pending, 200_001);
    setting.connect("hv1", Channel::OpenFlow);
    setting.confirm("hv1", setting.txn - 1);
    assert_eq!(setting.status()[0].pending, 200_001, "the last one counts");
    setting.confirm("hv1", setting.txn);
    assert_eq!((setting.status()[0].pending, setting.status()[0].confirmed_txn), (0, Some(setting.txn)));
}

#[test]
fn drivers_that_exchange_their_switches_all_end_before_one_starts() {
    let mut setting = Setting::new(&[node("hv1", "/a"), node("hv2", "/b"), node("hv3", "/c")]);
    setting.told();
    setting.apply(&[node("hv1", "/b"), node("hv2", "/a")]);
    assert_eq!(setting.told(), ["end unix:/a/of", "end unix:/b/of", "start unix:/b/of", "start unix:/a/of"]);
}

#[test]
fn a_switch_that_leaves_ends_before_another_node_takes_it_over() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    setting.connect("hv1", Channel::OpenFlow);
    setting.push("hv1", Changes::default());
    let earlier = setting.txn;
    assert_eq!(setting.delete("hv1", Changes::default()), Progress::Pending);
    setting.told();
    setting.apply(&[node("hv9", "/a")]);
    assert_eq!(setting.told(), ["end unix:/a/of", "start unix:/a/of"]);
    assert_eq!(setting.progress(earlier, "hv1"), Progress::Offline);
}

#[test]
fn a_farewell_that_is_not_answered_ends_all_the_same() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    setting.connect("hv1", Channel::OpenFlow);
    setting.push("hv1", Changes::default());
    let earlier = setting.txn;
    // The database is down, so the tunnel cannot be removed.
    assert_eq!(setting.delete("hv1", tunnel()), Progress::Offline);
    assert_eq!(setting.fleet.draining.len(), 1);
    setting.confirm("hv1", earlier);
    assert!(matches!(setting.progress(earlier, "hv1"), Progress::Confirmed(_)));
    setting.told();
    setting.pass(DRAIN_MAX);
    assert_eq!((setting.fleet.draining.len(), setting.told()), (0, vec!["end unix:/a/of".to_owned()]));
}

#[test]
fn d26_a_controller_that_ends_before_a_farewell_is_answered_says_what_stays() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    setting.connect("hv1", Channel::OpenFlow);
    setting.delete("hv1", tunnel());
    let unfinished: Vec<(&str, String)> = setting.fleet.unfinished().collect();
    let [("hv1", why)] = unfinished.as_slice() else { panic!("{unfinished:?}") };
    assert!(
        why.starts_with("left unchanged: the controller ends before it has confirmed the removal"),
        "{why}"
    );
    assert!(why.contains("by hand, or apply the node again"), "{why}");
}

#[test]
fn a_farewell_ends_when_it_is_answered_and_also_when_the_database_was_away_for_a_while() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    setting.connect("hv1", Channel::OpenFlow);
    setting.delete("hv1", tunnel());
    let txn = setting.txn;
    setting.connect("hv1", Channel::Ovsdb);
    setting.confirm("hv1", txn);
    // The bridge still has the mark of the controller, and listens for it until it is told not to.
    setting.disconnect("hv1", Channel::OpenFlow);
    assert_eq!(setting.fleet.draining.len(), 1);
    setting.event("hv1", Event::Left);
    assert_eq!(setting.fleet.draining.len(), 0);
    // A switch that is not connected needs no removal.
    setting.apply(&[node("hv2", "/b")]);
    assert_eq!(setting.delete("hv2", tunnel()), Progress::Offline);
    assert_eq!((setting.fleet.draining.len(), setting.fleet.switches.len()), (0, 0));
}

#[test]
fn what_a_switch_reports_when_its_node_is_about_to_be_elsewhere_is_not_credited_to_the_new_one() {
    let mut setting = Setting::new(&[node("hv1", "/a"), node("hv2", "/b")]);
    let report = || switch_model::Report::default();
    let learned = || Event::Learned { table: 12, cookie: 5, is_new: true };
    let reported = Some(Difference::Report(Box::new(report())));
    let known = Some(Difference::Learned { table: 12, cookie: 5, is_new: true });
    let changes = setting.changes(&[node("hv1", "/c"), node("hv2", "/b")]);
    assert_eq!(setting.fleet.prepare(&changes), Vec::<String>::new());
    for node in ["hv1", "hv2"] {
        setting.event(node, Event::Report(report()));
        setting.event(node, learned());
    }
    assert_eq!(setting.difference("hv1"), None);
    assert_eq!([setting.difference("hv2"), setting.difference("hv2")], [reported.clone(), known.clone()]);
    assert_eq!(setting.fleet.differing(), ["hv1"]);
    // The change is rolled back: it counts after all.
    setting.fleet.roll_back();
    assert_eq!([setting.difference("hv1"), setting.difference("hv1")], [reported.clone(), known]);
    assert_eq!(setting.fleet.differing(), [] as [&str; 0]);
    // The change is committed: what the new switch reports counts.
    setting.fleet.prepare(&changes);
    setting.event("hv1", learned());
    setting.follow(&changes);
    assert_eq!(setting.difference("hv1"), None);
    setting.event("hv1", Event::Report(report()));
    assert_eq!(setting.difference("hv1"), reported);
}

#[test]
fn changes_of_others_and_failures_of_the_driver_are_shown_until_they_are_put_right() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    for channel in [Channel::OpenFlow, Channel::Ovsdb] {
        setting.connect("hv1", channel);
    }
    setting.event("hv1", Event::Synced { flow_mods: 0, tunnels_changed: 0 });
    assert!(setting.status()[0].synced);
    let first = vec![switch_model::ForeignChange { what: "deleted F".to_owned(), why: "by hand".to_owned() }];
    let foreign = |repair_in| Event::ForeignChanges { count: 3, first: first.clone(), repair_in };
    setting.event("hv1", foreign(Duration::ZERO));
    let status = &setting.status()[0];
    assert_eq!((status.synced, status.foreign_changes), (false, 3));
    assert_eq!(status.last_error, "another client changed this switch: deleted F (by hand) (and 2 more)");
    setting.event("hv1", Event::Repaired { flow_mods: 3 });
    let status = &setting.status()[0];
    assert_eq!((status.synced, status.last_error.as_str()), (true, ""));
    assert!(status.last_foreign_change.ends_with("Z deleted F (by hand) (and 2 more)"), "{status:?}");
    setting.event("hv1", foreign(Duration::from_secs(5)));
    let error = &setting.status()[0].last_error;
    assert!(error.ends_with("; this keeps happening, so it is undone in 5.0 s"), "{error}");
    setting.event("hv1", Event::Repaired { flow_mods: 3 });

    setting
        .event("hv1", Event::Failed { why: "panic: so".to_owned(), restart_in: Duration::from_millis(50) });
    let status = &setting.status()[0];
    assert_eq!((status.synced, status.driver_restarts), (false, 1));
    assert!(status.last_error.contains("failed and is started again in 0.1 s: panic: so"), "{status:?}");
    assert!(status.last_driver_failure.ends_with("Z panic: so"), "{status:?}");
    setting.event("hv1", Event::Synced { flow_mods: 0, tunnels_changed: 0 });
    let status = &setting.status()[0];
    assert_eq!((status.synced, status.last_error.as_str(), status.driver_restarts), (true, "", 1));
}

#[test]
fn who_deletes_a_node_whose_switch_is_away_is_told_what_stays() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    let told = |setting: &mut Setting| {
        let changes = setting.deletion("hv1");
        setting.fleet.prepare(&changes)
    };
    let by_hand = "transport node hv1: its switch: left unchanged: not connected; delete the flows and groups of br-int \
                   and the ports with external_ids:weft by hand, or apply the node again";
    assert_eq!(told(&mut setting), [by_hand]);
    setting.connect("hv1", Channel::OpenFlow);
    assert!(told(&mut setting)[0].contains("its database is not connected"));
    setting.connect("hv1", Channel::Ovsdb);
    assert_eq!(told(&mut setting), Vec::<String>::new());
}

#[test]
fn a_switch_whose_database_comes_after_its_openflow_is_in_order_only_when_it_was_compared_with_both() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    let synced = |setting: &Setting| setting.status()[0].synced;
    let compared = || Event::Synced { flow_mods: 0, tunnels_changed: 0 };
    setting.connect("hv1", Channel::OpenFlow);
    setting.event("hv1", compared());
    setting.connect("hv1", Channel::Ovsdb);
    assert!(!synced(&setting), "tunnels and vNICs were not looked at");
    setting.event("hv1", compared());
    assert!(synced(&setting));
}

#[test]
fn d18_a_switch_that_is_another_nodes_says_so_and_is_left_alone() {
    let mut setting = Setting::new(&[node("hv1", "/a"), node("hv2", "/b")]);
    let why = "transport nodes hv1 and hv2 lead to one switch";
    setting.event("hv2", Event::Withheld { why: Some(why.to_owned()) });
    setting.disconnect("hv2", Channel::OpenFlow);
    let status = setting.status();
    assert_eq!((status[1].last_error.as_str(), status[1].synced), (why, false));
    // Nobody is told to clean up by hand what belongs to hv1.
    let deletion = setting.deletion("hv2");
    assert_eq!(setting.fleet.prepare(&deletion), Vec::<String>::new());
    setting.delete("hv2", Changes::default());
    assert_eq!(setting.fleet.draining.len(), 0);
}

#[test]
fn d29_a_long_list_of_problems_is_cut_with_a_count() {
    let mut setting = Setting::new(&[node("hv1", "/a")]);
    let problem = |number: usize| switch_model::Problem {
        what: format!("vif{number:04}"),
        why: "has no device".to_owned(),
    };
    let problems = (0..1500).map(problem).collect();
    setting.event("hv1", Event::Report(switch_model::Report { problems, ..switch_model::Report::default() }));
    assert_eq!(
        setting.status()[0].last_error,
        "vif0000: has no device; vif0001: has no device; vif0002: has no device; and 1,497 more"
    );
}

/// A fleet that a controller has just started, with both connections to its switch.
fn started() -> Setting {
    let mut setting = Setting::new(&[]);
    let (id, address) = node("hv1", "/1");
    setting.addresses.insert(id, address);
    setting.fleet.start(setting.addresses.iter());
    for channel in [Channel::Ovsdb, Channel::OpenFlow] {
        setting.connect("hv1", channel);
    }
    assert_eq!(setting.told(), ["start unix:/1/of"]);
    setting
}

#[test]
fn a_switch_that_has_not_reported_gets_nothing_even_if_its_state_is_derived_again() {
    let mut setting = started();
    setting.fleet.correct("hv1", |_| Given::default());
    setting.fleet.begin_to_write(|_| true, |_| Given::default());
    assert_eq!(setting.told(), [""; 0]);
    setting.event("hv1", Event::Report(switch_model::Report::default()));
    setting.fleet.begin_to_write(|_| true, |_| Given::default());
    assert_eq!(setting.told(), [""; 0], "its report is not taken");
    setting.difference("hv1").unwrap();
    setting.fleet.begin_to_write(|_| false, |_| Given::default());
    assert_eq!(setting.told(), [""; 0], "the rules refuse it");
    setting.fleet.begin_to_write(|_| true, |_| Given::default());
    setting.fleet.correct("hv1", |_| Given::default());
    assert_eq!(setting.told(), ["give unix:/1/of", "give unix:/1/of"]);
    setting.fleet.begin_to_write(|_| true, |_| Given::default());
    assert_eq!(setting.told(), [""; 0], "once");
}

#[test]
fn a_switch_that_has_not_reported_is_cleared_all_the_same_when_its_node_is_deleted() {
    let mut setting = started();
    assert_eq!(setting.delete("hv1", tunnel()), Progress::Offline);
    assert_eq!(setting.told(), ["push 2 to unix:/1/of", "give unix:/1/of", "leave unix:/1/of"]);
    setting.event("hv1", Event::Left);
    assert_eq!(setting.told(), ["end unix:/1/of"]);
}

#[test]
fn what_a_switch_is_to_get_once_it_has_reported_does_not_add_up() {
    let mut setting = started();
    for _ in 0..1000 {
        assert_eq!(setting.push("hv1", Changes::default()), Progress::Offline);
    }
    assert!(setting.fleet.switches["hv1"].pending.is_empty());
    setting.event("hv1", Event::Report(switch_model::Report::default()));
    setting.difference("hv1").unwrap();
    setting.fleet.begin_to_write(|_| true, |_| Given::default());
    assert_eq!(setting.push("hv1", Changes::default()), Progress::Pending);
    let last = setting.txn;
    setting.confirm("hv1", last - 1);
    setting.confirm("hv1", last);
    assert_eq!(setting.status()[0].pending, 0);
}
