use super::*;
use ovsdb_client::{Change, Datum};
use proptest::prelude::*;

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn map(pairs: &[(&str, &str)]) -> Datum {
    Datum::map(pairs.iter().copied())
}

/// A database with one bridge, built row by row.
struct Rows {
    changes: Vec<Change>,
    ports: Vec<Uuid>,
    bridge: Row,
}

impl Rows {
    fn new() -> Rows {
        let bridge = Row::new("Bridge")
            .with("name", "br-int")
            .with("datapath_type", "netdev")
            .with("datapath_id", Some("000000000000fa4e".to_owned()))
            .with("fail_mode", Some("secure".to_owned()))
            .with("protocols", "OpenFlow15")
            .with("external_ids", map(&[]))
            .with("flow_tables", Datum::map::<i64, Uuid>([]))
            .with("other_config", map(&[("disable-in-band", "true")]))
            .with("controller", Datum::set::<Uuid>([]));
        Rows { changes: Vec::new(), ports: Vec::new(), bridge }
    }

    fn add(&mut self, table: &str, uuid: Uuid, row: Row) {
        self.changes.push(Change { table: table.into(), uuid, old: None, new: Some(row) });
    }

    fn interface(&mut self, n: u128, name: &str, set: impl FnOnce(Row) -> Row) {
        let row = Row::new("Interface")
            .with("name", name)
            .with("type", "")
            .with("ofport", Some(n as i64))
            .with("error", None::<String>)
            .with("external_ids", map(&[]))
            .with("options", map(&[]))
            .with("mac_in_use", None::<String>)
            .with("link_state", Some("up".to_owned()));
        self.add("Interface", id(n), set(row));
        let port =
            Row::new("Port").with("name", name).with("interfaces", id(n)).with("external_ids", map(&[]));
        self.add("Port", id(1000 + n), port);
        self.ports.push(id(1000 + n));
    }

    fn view(mut self) -> View {
        let bridge = self.bridge.clone().with("ports", Datum::set(self.ports.clone()));
        self.add("Bridge", id(1), bridge);
        let mut replica = Replica::default();
        replica.apply(&self.changes);
        View::read(&replica, Support::default(), "br-int")
    }
}

fn config() -> Config {
    let endpoint = || "unix:/nowhere".parse().expect("an endpoint");
    Config {
        name: "hv1".to_owned(),
        ovsdb: endpoint(),
        openflow: endpoint(),
        bridge: "br-int".to_owned(),
        datapath_type: None,
        datapath_id: None,
        tunnel_option: None,
        learned_tables: BTreeSet::new(),
        watched_tables: BTreeSet::new(),
        conflict_tables: BTreeSet::new(),
        learned_limit: None,
        owner: None,
    }
}

fn tunnel(encap: &str, remote: &str) -> Wanted {
    Wanted::Tunnel(Tunnel {
        encap: encap.parse().expect("an encap"),
        remote: remote.parse().expect("a remote"),
    })
}

#[test]
fn a_report_tells_vifs_tunnels_and_problems_apart() {
    let mut rows = Rows::new();
    let vif = |id: &'static str| move |row: Row| row.with("external_ids", map(&[("iface-id", id)]));
    rows.interface(7, "tap7", vif("blue-1"));
    rows.interface(5, "tap5", vif("blue-1"));
    rows.interface(8, "tap8", |row| {
        row.with("external_ids", map(&[("iface-id", "blue-2"), ("attached-mac", "02:00:00:00:00:02")]))
    });
    // One that cannot be opened says nothing of a port that another one has.
    rows.interface(14, "gone-too", |row| vif("blue-2")(row).with("ofport", Some(-1)));
    rows.interface(9, "new", |row| vif("blue-3")(row).with("ofport", None::<i64>));
    rows.interface(10, "gone", |row| {
        vif("blue-4")(row).with("ofport", Some(-1)).with("error", Some("No such device".to_owned()))
    });
    rows.interface(65534, "br-int", vif("blue-5"));
    rows.interface(11, "uplink", |row| row);
    rows.interface(12, "gnv", |row| row.with("type", "geneve").with("external_ids", map(&[OWNER])));
    rows.interface(13, "theirs", |row| row.with("type", "geneve"));
    let report = rows.view().report(&config(), &Arrivals::default(), &Database::default());
    let vif = |ofport: u16, mac: &str| {
        let interface = InterfaceId(id(ofport.into()).as_u128());
        Vif { ofport, mac: mac.to_owned(), interface }
    };
    assert_eq!(
        report.vifs,
        [("blue-1".to_owned(), vif(7, "")), ("blue-2".to_owned(), vif(8, "02:00:00:00:00:02"))].into()
    );
    assert_eq!(report.tunnels, [("gnv".to_owned(), 12)].into());
    let why = |name: &str, error: &str| (name.to_owned(), error.to_owned());
    let unopened = [
        ("blue-4".to_owned(), why("gone", "No such device")),
        ("blue-5".to_owned(), why("br-int", "has the reserved port number 65534")),
    ];
    assert_eq!(report.unopened, unopened.into());
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "blue-1: tap7 and tap5 have the same iface-id; tap7 is used, because it was attached last: remove external_ids:iface-id from \
             the others",
            "br-int: has the reserved port number 65534",
            "gone: No such device",
            "gone-too: no reason given; see the log of ovs-vswitchd",
        ]
    );
}

#[test]
fn results_of_probes_are_reported_and_rubbish_is_not() {
    let mut rows = Rows::new();
    let long = format!("weft-probe-{}", "a".repeat(129));
    rows.bridge = rows.bridge.with(
        "external_ids",
        map(&[
            ("weft-probe-web:1", "up"),
            ("weft-probe-db", "down:http-503"),
            ("weft-probe-", "up"),
            ("weft-probe-a b", "up"),
            ("weft-probe-c", "UP"),
            ("weft-probe-d", "down:"),
            ("weft-probe-e", "down:a\nb"),
            (&long, "up"),
            ("weft-hold", "all"),
        ]),
    );
    let report = rows.view().report(&config(), &Arrivals::default(), &Database::default());
    let found = |up, cause: &str| ProbeFound { up, cause: cause.to_owned() };
    let wanted = [("web:1".to_owned(), found(true, "")), ("db".to_owned(), found(false, "http-503"))];
    assert_eq!(report.probes, wanted.into());
    // A database of somebody else's with more than any responder writes.
    let mut rows = Rows::new();
    let many: Vec<String> = (0..2 * PROBES_MAX).map(|number| format!("weft-probe-{number}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "up")).collect();
    rows.bridge = rows.bridge.with("external_ids", map(&many));
    let report = rows.view().report(&config(), &Arrivals::default(), &Database::default());
    assert_eq!(report.probes.len(), PROBES_MAX);
}

/// Two interfaces of one port, the older one with this port number; which of them are down, and the port number that counts.
fn counting(old: u16, new: u16, down: &[u16], seen: bool) -> u16 {
    let rows = |numbers: &[u16]| {
        let mut rows = Rows::new();
        for number in numbers {
            rows.interface((*number).into(), &format!("tap{number}"), |row| {
                let state = if down.contains(number) { "down" } else { "up" };
                row.with("external_ids", map(&[("iface-id", "blue-1")]))
                    .with("link_state", Some(state.to_owned()))
            });
        }
        rows.view()
    };
    let mut arrivals = Arrivals::default();
    if seen {
        arrivals.note(rows(&[old]).claims());
    }
    let both = rows(&[old, new]);
    arrivals.note(both.claims());
    let report = both.report(&config(), &arrivals, &Database::default());
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(report.contested.keys().collect::<Vec<_>>(), ["blue-1"]);
    report.vifs["blue-1"].ofport
}

#[test]
fn p3_of_two_interfaces_of_a_port_the_latest_that_is_up_counts() {
    for (old, new) in [(5, 7), (7, 5)] {
        assert_eq!(counting(old, new, &[], true), new, "the latest claim");
        assert_eq!(counting(old, new, &[old], true), new, "the former one is down");
        assert_eq!(counting(old, new, &[new], true), old, "the latest one is down");
        assert_eq!(
            counting(old, new, &[old, new], true),
            new,
            "both are down: the machine may not have started yet"
        );
        assert_eq!(
            counting(old, new, &[], false),
            7,
            "a driver that starts takes the greatest number for the latest"
        );
    }
}

#[test]
fn a_tunnel_without_a_port_number_is_pending_and_one_with_an_error_is_not() {
    let want: Ports = ["new", "bad", "good"].map(|name| (name.to_owned(), tunnel("gre", "flow"))).into();
    let mut rows = Rows::new();
    for (n, name, ofport) in [(3, "new", None), (4, "bad", Some(-1)), (5, "good", Some(5))] {
        let spec = ends(name, &want[name]).remove(0);
        rows.interface(n, name, |row| {
            let row = row.with("type", "gre").with("options", spec.options).with("ofport", ofport);
            row.with("external_ids", map(&[OWNER]))
        });
    }
    let plan = rows.view().port_plan(&want);
    let failed = ["bad".to_owned()].into();
    assert_eq!(plan, PortPlan { pending: vec!["new".to_owned()], failed, ..PortPlan::default() });
}

#[test]
fn both_ends_of_a_patch_are_made_and_go_and_those_of_others_stay() {
    let patch = |bridge: &str, peer: &str| Wanted::Patch(Patch { bridge: bridge.into(), peer: peer.into() });
    let want: Ports = [("p".to_owned(), patch("br-phys", "q"))].into();
    let plan = Rows::new().view().port_plan(&want);
    assert!(plan.missing.is_empty(), "{plan:?}");
    assert!(plan.unsupported["p"].starts_with("there is no bridge br-phys on this switch: create it"));
    let problems = Rows::new()
        .view()
        .report(&config(), &Arrivals::default(), &Database { ports: want.clone(), ..Database::default() })
        .problems;
    assert!(problems[0].to_string().starts_with("p: there is no bridge br-phys"), "{problems:?}");

    let mut rows = Rows::new();
    let end = |peer: &'static str, ours: bool| {
        let ids = if ours { map(&[PATCH_OWNER]) } else { map(&[]) };
        move |row: Row| {
            row.with("type", "patch").with("options", map(&[("peer", peer)])).with("external_ids", ids)
        }
    };
    rows.interface(3, "p", end("q", true));
    rows.interface(4, "theirs", end("other", false));
    rows.interface(5, "old", end("old-q", true));
    let ours = rows.ports.len();
    rows.interface(6, "q", end("p", true));
    rows.interface(7, "old-q", end("old", true));
    rows.interface(8, "other", end("theirs", false));
    let elsewhere = rows.ports.split_off(ours);
    let bridge = rows.bridge.clone().with("name", "br-phys").with("ports", Datum::set(elsewhere));
    rows.add("Bridge", id(2), bridge);
    let view = rows.view();
    let unwanted = [("br-int", "old"), ("br-phys", "old-q")];
    let unwanted: Vec<_> = unwanted.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    assert_eq!(view.port_plan(&want), PortPlan { unwanted, ..PortPlan::default() });
    let report = view.report(
        &config(),
        &Arrivals::default(),
        &Database { ports: want.clone(), ..Database::default() },
    );
    assert_eq!(report.patches, [("old".to_owned(), 5), ("p".to_owned(), 3)].into());
    assert_eq!(report.tunnels, BTreeMap::new());
    let moved: Ports = [("p".to_owned(), patch("br-phys", "r"))].into();
    let plan = view.port_plan(&moved);
    assert_eq!(plan.missing.len(), 1);
    assert!(plan.unwanted.contains(&("br-phys".to_owned(), "q".to_owned())), "{plan:?}");
}

#[test]
fn stt_is_a_problem_of_the_userspace_datapath_alone() {
    let want: Ports = [("s".to_owned(), tunnel("stt", "172.31.0.2"))].into();
    let view = Rows::new().view();
    let plan = view.port_plan(&want);
    assert!(plan.missing.is_empty() && plan.unsupported["s"].contains("netdev"));
    let problem = view
        .report(&config(), &Arrivals::default(), &Database { ports: want.clone(), ..Database::default() })
        .problems[0]
        .to_string();
    assert!(problem.starts_with("s: the userspace datapath (netdev) does not carry stt"), "{problem}");
    let mut rows = Rows::new();
    rows.bridge = rows.bridge.with("datapath_type", "");
    let view = rows.view();
    assert_eq!(view.port_plan(&want).missing.len(), 1);
    assert!(
        view.report(
            &config(),
            &Arrivals::default(),
            &Database { ports: want.clone(), ..Database::default() }
        )
        .problems
        .is_empty()
    );
}

#[test]
fn a_bridge_is_corrected_where_it_is_wrong_and_left_alone_where_it_is_right() {
    let corrected = |set: fn(Row) -> Row| {
        let mut rows = Rows::new();
        rows.bridge = set(rows.bridge);
        rows.view().correction(&config())
    };
    assert_eq!(corrected(|row| row), None);
    assert_eq!(corrected(|row| row.with("protocols", Datum::set(["OpenFlow13", "OpenFlow15"]))), None);
    assert_eq!(corrected(|row| row.with("datapath_type", "")), None);
    let further = |row: Row| {
        row.with("other_config", map(&[("disable-in-band", "true"), ("hwaddr", "02:00:00:00:00:01")]))
    };
    assert_eq!(corrected(further), None);
    let spec = corrected(|row| row.with("other_config", map(&[("disable-in-band", "false")])));
    let set: Vec<_> = spec.expect("a correction").other_config.into_iter().collect();
    assert_eq!(set, [("disable-in-band".to_owned(), "true".to_owned())]);
    let spec = corrected(|row| row.with("fail_mode", None::<String>)).expect("a correction");
    assert_eq!((spec.fail_mode.as_str(), spec.datapath_type.as_str()), ("secure", "netdev"));
    let spec = corrected(|row| row.with("protocols", Datum::set::<&str>([]))).expect("a correction");
    assert_eq!(spec.protocols, ["OpenFlow15".to_owned()].into());
    let spec = corrected(|row| row.with("protocols", "OpenFlow13")).expect("a correction");
    assert_eq!(spec.protocols, ["OpenFlow13".to_owned(), "OpenFlow15".to_owned()].into());
}

#[test]
fn the_tables_of_learned_flows_get_their_limit_and_others_keep_theirs() {
    let limit = FlowTable::evicting(1000, "OXM_OF_METADATA[]");
    let config = Config { learned_tables: [21].into(), learned_limit: Some(limit.clone()), ..config() };
    let corrected = |tables: &[(i64, Uuid)], settings: Row| {
        let mut rows = Rows::new();
        rows.bridge = rows.bridge.with("flow_tables", Datum::map(tables.iter().copied()));
        rows.add("Flow_Table", id(50), settings);
        rows.view().correction(&config).map(|spec| spec.flow_tables)
    };
    let wanted = Some([(21, limit.clone())].into());
    assert_eq!(corrected(&[(21, id(50)), (5, id(51))], limit.row()), None);
    assert_eq!(corrected(&[], limit.row()), wanted);
    assert_eq!(corrected(&[(5, id(50))], limit.row()), wanted);
    let other = FlowTable::evicting(1001, "OXM_OF_METADATA[]");
    assert_eq!(corrected(&[(21, id(50))], other.row()), wanted);
    let refusing = limit.row().with("overflow_policy", None::<String>);
    assert_eq!(corrected(&[(21, id(50))], refusing), wanted);
}

#[test]
fn a_missing_bridge_waits_until_the_switch_has_said_which_datapaths_it_has() {
    let with_types = |types: &[&str]| View {
        switch: Some(OpenVswitch {
            uuid: id(2),
            next_cfg: 0,
            cur_cfg: 0,
            external_ids: BTreeMap::new(),
            datapath_types: types.iter().map(|name| (*name).to_owned()).collect(),
            iface_types: BTreeSet::new(),
            ovs_version: None,
        }),
        ..View::default()
    };
    let chosen = |view: View, config: &Config| view.correction(config).map(|spec| spec.datapath_type);
    assert_eq!(chosen(with_types(&[]), &config()), None);
    assert_eq!(chosen(with_types(&["netdev"]), &config()).as_deref(), Some("netdev"));
    assert_eq!(chosen(with_types(&["netdev", "system"]), &config()).as_deref(), Some("system"));
    let fixed = Config { datapath_type: Some("netdev".to_owned()), ..config() };
    assert_eq!(chosen(with_types(&["netdev", "system"]), &fixed).as_deref(), Some("netdev"));
    assert_eq!(chosen(with_types(&[]), &fixed).as_deref(), Some("netdev"));
}

proptest! {
    #[test]
    fn the_plan_for_tunnels_leads_from_any_state_to_the_wanted_one(
        have in proptest::collection::btree_map(0u8..6, (0u8..3, any::<bool>()), 0..6),
        want in proptest::collection::btree_map(0u8..6, 0u8..3, 0..6),
    ) {
        let kind = |n: u8| tunnel(["geneve", "vxlan", "gre"][usize::from(n)], "172.31.0.9");
        let mut rows = Rows::new();
        for (name, (encap, ours)) in &have {
            let spec = ends(&name.to_string(), &kind(*encap)).remove(0);
            rows.interface(u128::from(*name) + 1, &name.to_string(), |row| {
                let ids = if *ours { map(&[OWNER]) } else { map(&[]) };
                row.with("type", spec.tunnel_type.as_str()).with("options", spec.options.clone()).with("external_ids", ids)
            });
        }
        let wanted = want.iter().map(|(name, encap)| (name.to_string(), kind(*encap))).collect();
        let plan = rows.view().port_plan(&wanted);
        let right = |name: &u8| have.get(name) == want.get(name).map(|encap| (*encap, true)).as_ref();
        let missing: Vec<String> = want.keys().filter(|name| !right(name)).map(ToString::to_string).collect();
        let unwanted: Vec<String> = have
            .iter()
            .filter(|(name, (_, ours))| *ours && !want.contains_key(*name))
            .map(|(name, _)| name.to_string())
            .collect();
        prop_assert_eq!(plan.missing.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>(), missing);
        let unwanted: Vec<_> = unwanted.into_iter().map(|name| ("br-int".to_owned(), name)).collect();
        prop_assert_eq!(plan.unwanted, unwanted);
    }
}
