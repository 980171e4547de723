use ovsdb_client::Change;
use proptest::prelude::*;

use super::*;

/// A database with a bridge `br-int`, which has these ports with these settings of BFD, and a bridge `br-phy` with an uplink.
struct Setting {
    ports: BTreeMap<&'static str, BTreeMap<String, String>>,
    remembered: Option<String>,
    uplinks: BTreeMap<&'static str, Option<&'static str>>,
}

const SESSION: (&str, &str) = ("enable", "true");
const HELD: (&str, &str) = ("cpath_down", "true");

fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn number(of: &str) -> Uuid {
    Uuid::from_u128(of.bytes().fold(1, |number, byte| number << 8 | u128::from(byte)))
}

impl Setting {
    /// Two tunnel ports with sessions, and a port of a machine.
    fn new() -> Setting {
        let ports = [("g1", settings(&[SESSION])), ("g2", settings(&[SESSION])), ("tap1", settings(&[]))];
        Setting { ports: ports.into(), remembered: None, uplinks: [("eth1", Some("up"))].into() }
    }

    fn replica(&self) -> Replica {
        let mut replica = Replica::default();
        let mut insert = |row: Row, uuid: Uuid| {
            let table = row.table().to_owned();
            replica.apply(&[Change { table: table.into(), uuid, old: None, new: Some(row) }]);
        };
        let mut bridge = |name: &str, ports: Vec<&str>, external: BTreeMap<String, String>| {
            let ids: BTreeSet<Uuid> = ports.iter().map(|port| number(&format!("p{port}"))).collect();
            for port in &ports {
                let interfaces: BTreeSet<Uuid> = [number(port)].into();
                insert(Row::new(PORT).with("interfaces", interfaces), number(&format!("p{port}")));
                let is_uplink = self.uplinks.contains_key(port);
                let state = self.uplinks.get(port).copied().unwrap_or(Some("up"));
                let row = Row::new(INTERFACE)
                    .with("name", *port)
                    .with("type", if is_uplink { "" } else { "geneve" })
                    .with("link_state", state.map(str::to_owned))
                    .with(BFD, Datum::map(self.ports.get(port).cloned().unwrap_or_default()));
                insert(row, number(port));
            }
            let row =
                Row::new(BRIDGE).with("name", name).with("ports", ids).with(EXTERNAL, Datum::map(external));
            insert(row, number(name));
        };
        let remembered = self.remembered.iter().map(|text| (REMEMBERED.to_owned(), text.clone()));
        let external = settings(&[("theirs", "1")]).into_iter().chain(remembered).collect();
        bridge("br-int", self.ports.keys().copied().collect(), external);
        bridge("br-phy", self.uplinks.keys().copied().collect(), BTreeMap::new());
        replica
    }

    /// Does what the plan says.
    fn carry_out(&mut self, known: &Known) -> Plan {
        let plan = Plan::new(&self.replica(), "br-int", known).unwrap();
        for operation in &plan.operations {
            let Operation::Mutate { table, conditions, mutations } = operation else {
                panic!("{operation:?}")
            };
            assert!(!mutations.is_empty());
            let port = self.ports.keys().copied().find(|port| conditions == &[Condition::uuid(number(port))]);
            for mutation in mutations {
                let mut bridge = BTreeMap::new();
                let map = match port {
                    Some(port) => self.ports.get_mut(port).unwrap(),
                    None => &mut bridge,
                };
                assert_eq!(
                    (table.as_str(), mutation.column.as_str()),
                    if port.is_some() { (INTERFACE, BFD) } else { (BRIDGE, EXTERNAL) }
                );
                match (mutation.mutator, port) {
                    (Mutator::Delete, Some(_)) => drop(map.remove(DOWN).unwrap()),
                    (Mutator::Insert, Some(_)) => drop(map.insert(DOWN.to_owned(), "true".to_owned())),
                    (Mutator::Delete, None) => self.remembered = None,
                    (Mutator::Insert, None) => {
                        let all = [EVERY, "g1", "g2", "g1,g2"];
                        let is = |text: &&&str| mutation.value == Datum::map([(REMEMBERED, **text)]);
                        self.remembered = Some((*all.iter().find(is).unwrap()).to_owned());
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let again = Plan::new(&self.replica(), "br-int", known).unwrap();
        assert_eq!(again.operations, [], "it is done");
        // What is not remembered is nobody's business, so others may have set it.
        assert!(self.remembered.is_none() || self.held().len() == plan.held);
        plan
    }

    fn held(&self) -> Vec<&'static str> {
        self.ports.iter().filter(|(_, bfd)| bfd.contains_key(DOWN)).map(|(name, _)| *name).collect()
    }
}

fn ready(settings: &[&str]) -> Known {
    let instruction = packet_answers::Instruction::from_settings(
        "ready",
        settings.iter().copied(),
        openflow_rs::Actions::drop(),
    );
    let packet_answers::Ask::Ready(readiness) = instruction.unwrap().ask else { panic!("readiness") };
    Known::Ready(Arc::new(readiness))
}

#[test]
fn a_switch_of_which_nothing_is_remembered_is_left_alone() {
    let mut setting = Setting::new();
    setting.ports.insert("g2", settings(&[SESSION, HELD]));
    for known in [Known::NotReady, ready(&[]), ready(&["uplink=nothing"])] {
        assert!(setting.carry_out(&known).operations.is_empty());
    }
    assert!(Plan::new(&setting.replica(), "br-none", &Known::NotReady).is_none());
}

#[test]
fn what_is_held_is_remembered_and_held_until_the_flows_are_in() {
    for (hold, remembered, held) in [("hold=all", "all", vec!["g1", "g2"]), ("hold=g2", "g2", vec!["g2"])] {
        let mut setting = Setting::new();
        let first = setting.carry_out(&ready(&[hold]));
        assert_eq!((setting.held(), first.is_release), (vec![], false));
        assert_eq!(setting.remembered.as_deref(), Some(remembered));
        assert!(!setting.carry_out(&Known::NotReady).is_release);
        assert_eq!(setting.held(), held);
        assert!(setting.carry_out(&ready(&[hold])).is_release);
        assert_eq!(setting.held(), [""; 0]);
    }
}

#[test]
fn ports_that_come_while_all_are_held_are_held_too_and_those_without_a_session_are_not() {
    let mut setting = Setting::new();
    setting.remembered = Some(EVERY.to_owned());
    setting.ports.insert("g2", settings(&[("enable", "false"), HELD]));
    setting.carry_out(&Known::NotReady);
    assert_eq!(setting.held(), ["g1"]);
    setting.ports.insert("g2", settings(&[SESSION]));
    setting.ports.insert("g3", settings(&[SESSION, ("cpath_down", "false")]));
    setting.carry_out(&Known::NotReady);
    assert_eq!(setting.held(), ["g1", "g2", "g3"]);
}

#[test]
fn a_switch_that_nobody_chooses_any_more_is_let_go_and_forgotten() {
    let mut setting = Setting::new();
    setting.carry_out(&ready(&["hold=g1", "hold=g2"]));
    setting.carry_out(&Known::NotReady);
    // Of one tunnel.
    setting.carry_out(&ready(&["hold=g1", "uplink=nothing"]));
    assert_eq!(setting.held(), ["g1"]);
    assert!(setting.carry_out(&ready(&[])).is_release);
    assert_eq!((setting.held(), setting.remembered.as_deref()), (vec![], None));
}

#[test]
fn an_uplink_that_is_down_holds() {
    for uplink in ["uplink=eth1", "uplink=br-phy"] {
        let mut setting = Setting::new();
        let known = ready(&["hold=g1", uplink]);
        for (state, held) in [(Some("up"), 0), (Some("down"), 1), (None, 1), (Some("up"), 0)] {
            setting.uplinks.insert("eth1", state);
            let plan = setting.carry_out(&known);
            assert_eq!(plan.held, held, "{uplink} {state:?}");
            assert_eq!(plan.why.contains(&uplink[7..]), held > 0, "{}", plan.why);
        }
        // One of two is enough for a bridge.
        setting.uplinks = [("eth1", Some("down")), ("eth2", Some("up"))].into();
        assert_eq!(setting.carry_out(&known).held, usize::from(uplink.ends_with("eth1")));
        setting.uplinks.clear();
        // A bridge without interfaces says nothing of the network behind it. An interface that is not there carries nothing.
        assert_eq!(setting.carry_out(&known).held, usize::from(uplink.ends_with("eth1")));
    }
}

fn known() -> impl Strategy<Value = Known> {
    let hold =
        proptest::collection::vec(proptest::sample::select(vec!["hold=g1", "hold=g2", "hold=all"]), 0..3);
    let uplink = proptest::option::of(proptest::sample::select(vec!["uplink=eth1", "uplink=br-phy"]));
    let of = (hold, uplink).prop_map(|(mut hold, uplink)| {
        hold.sort_unstable();
        hold.dedup();
        hold.extend(uplink);
        ready(&hold)
    });
    prop_oneof![Just(Known::NotReady), of]
}

proptest! {
    /// Whenever the responder dies and begins again, the database says enough: the same plan follows from it alone. Keys of others stay.
    #[test]
    fn the_last_of_many_changes_decides(
        steps in proptest::collection::vec((known(), proptest::bool::ANY), 1..12)
    ) {
        let mut setting = Setting::new();
        for (known, is_up) in steps {
            setting.uplinks.insert("eth1", Some(if is_up { "up" } else { "down" }));
            let before = setting.remembered.clone();
            setting.carry_out(&known);
            let held = setting.held();
            match &known {
                Known::NotReady => prop_assert_eq!(held.is_empty(), before.is_none()),
                Known::Ready(ready) => {
                    let is_down = !is_up && !ready.uplinks.is_empty();
                    prop_assert_eq!(held.is_empty(), !is_down || ready.hold == Tunnels::These(vec![]));
                    prop_assert_eq!(&setting.remembered, &written(&ready.hold));
                }
            }
            prop_assert_eq!(setting.ports["g1"].get("enable").map(String::as_str), Some("true"));
        }
    }
}
