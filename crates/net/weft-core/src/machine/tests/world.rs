//! A controller without a daemon: its journal and its switches are what a test says.

use std::collections::BTreeMap;
use std::time::SystemTime;

use switch_model::{Event as SwitchEvent, FlowKey};

use super::super::*;
use super::published;
use crate::fleet::{DriverId, News};
use crate::record::Record;
use crate::rules::Rules;
use crate::status::Status;
use crate::test_core;

/// A flow for each host that is lost, each interface, and each announcement. No flow depends on when something happened.
pub(super) const RULES: &str = r#"
object transport_node { ip: ip; ovsdb: opt<string>; openflow: opt<string>; datapath_type: opt<string>; unique(ip); }
object switch_port { id_space port; number: int; }
object quiet_port { id_space port; limit: int = 7; }
object group { }
object placed_port { id_space port; group: ref group; }
state table place(placed_port: ref placed_port, node: string) key(placed_port);
place(port, hv) :- vif(hv, port, _, _, _), placed_port(port, _);
object hall { tenant: opt<string>; }
object door { hall: ref hall; group: ref group; locked: bool = false; }
state table door_locked(door: ref door, waits_for: string) key(door);
door_locked(door, "the door is locked") :- door(id: door, locked: true, ..);
table needs_up(kind: string, field: string) key(kind, field);
needs_up("door", "group");
object bundle { ports: list<ref placed_port> = []; }
object filter { port: opt<ref placed_port>; group: opt<ref group>; bundle: opt<ref bundle>; number: int; }
table applies_to(kind: string, field: string) key(kind, field);
applies_to("filter", "port");
applies_to("filter", "group");
applies_to("filter", "bundle");
applies_to("bundle", "ports");
table filtered(port: string, number: int);
filtered(port, number) :- filter(port: on, number: number, ..), value(on, port);
filtered(port, number) :- filter(group: on, number: number, ..), value(on, group), placed_port(port, group);
filtered(port, number) :-
    filter(bundle: on, number: number, ..), value(on, bundle), bundle(bundle, ports), element(ports, port);
of_flow(hv, 4, 1, match{metadata: number, in_port: ofport}, actions[]) :- vif(hv, port, ofport, _, _), filtered(port, number);
of_flow(hv, 3, 1, match{metadata: ofport}, actions[output(ofport)]) :- vif(hv, port, ofport, _, _), placed_port(port, _);
output table problem(kind: string, id: string, code: string, text: string);
problem("switch_port", port, "high", "its number is above 90") :- switch_port(port, number), number > 90;
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>,
                            datapath_type: opt<string>) key(hv);
switch_address(hv, ovsdb, openflow, datapath_type) :-
    transport_node(id: hv, ovsdb: ovsdb, openflow: openflow, datapath_type: datapath_type, ..);
input table managed(hv: string) key(hv);
input table vif(hv: string, port: string, ofport: int, mac: string, since: int) key(hv, port);
input table announced(hv: string, port: string, since: int) key(hv, port);
input table node_connection(hv: string, connected: bool, since: int) key(hv);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table awaited_flow(hv: string, table_id: int, cookie: int, port: string) key(hv, table_id, cookie);
of_flow(hv, 0, 1, match{metadata: 1}, actions[output(1)]) :- node_connection(hv, false, _);
of_flow(hv, 1, 1, match{metadata: number}, actions[output(ofport)]) :-
    vif(hv, port, ofport, _, _), switch_port(port, number);
of_flow(hv, 2, 1, match{metadata: number}, actions[output(1)]) :-
    announced(hv, port, _), switch_port(port, number);
awaited_flow(hv, 12, number, port) :- vif(hv, port, _, _, _), switch_port(port, number);
input table unopened(hv: string, port: string, interface: string, error: string) key(hv, port);
problem("switch_port", port, "unopened", interface ++ error) :-
    unopened(_, port, interface, error), switch_port(port, _);
input table probe_result(hv: string, probe: string, up: bool, cause: string, since: int) key(hv, probe);
problem("transport_node", hv, probe, to_string(up) ++ " " ++ cause ++ " " ++ to_string(since)) :-
    probe_result(hv, probe, up, cause, since);
input table address_conflict(hv: string, label: int, ip: ip) key(hv, label, ip);
problem("transport_node", hv, "conflict", to_string(label) ++ " " ++ to_string(ip)) :- address_conflict(hv, label, ip);
state table port_unattached(switch_port: ref switch_port, unattached: string) key(switch_port);
table attached(port: string, is: bool) key(port);
default attached(port, false) :- switch_port(port, _);
attached(port, true) :- vif(_, port, _, _, _), switch_port(port, _);
port_unattached(port, "it has none") :- attached(port, false);
"#;

pub(super) const HOSTS: [&str; 3] = ["hv1", "hv2", "hv3"];
pub(super) const PORTS: [&str; 2] = ["p1", "p2"];

pub(super) const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:/1/db', openflow: 'unix:/1/of'}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, ovsdb: 'unix:/2/db', openflow: 'unix:/2/of'}
---
{kind: transport_node, id: hv3, ip: 172.16.0.3, ovsdb: 'unix:/3/db', openflow: 'unix:/3/of'}
---
{kind: switch_port, id: p1, number: 1}
---
{kind: switch_port, id: p2, number: 2}
";

/// A controller, its journal, and the drivers that it has told to start.
pub(super) struct World {
    pub(super) machine: Option<Machine>,
    pub(super) published: Published,
    /// A client that follows what is published.
    pub(super) watcher: published::Watcher,
    pub(super) rules: Arc<Rules>,
    pub(super) patience: Patience,
    pub(super) now: Now,
    pub(super) records: Vec<Record>,
    /// Whether the journal can be written.
    pub(super) works: bool,
    pub(super) drivers: BTreeMap<String, DriverId>,
    /// All that drivers were told, as text.
    pub(super) orders: Vec<String>,
}

impl World {
    pub(super) fn new(patience: Patience) -> World {
        World::at(Now { instant: Instant::now(), wall: SystemTime::now() }, patience)
    }

    /// A controller that begins at this time.
    pub(super) fn at(now: Now, patience: Patience) -> World {
        let mut world = World {
            machine: None,
            published: Published::default(),
            watcher: published::Watcher::default(),
            rules: test_core::rules(RULES),
            patience,
            now,
            records: Vec::new(),
            works: true,
            drivers: BTreeMap::new(),
            orders: Vec::new(),
        };
        world.start();
        world.apply(NETWORK).unwrap();
        world
    }

    /// The state that the records of the journal add up to, without those that are left out.
    pub(super) fn restored(&self, is_kept: impl Fn(&Record) -> bool) -> Core {
        test_core::core(&self.rules, self.records.iter().filter(|record| is_kept(record)), self.now.wall)
    }

    /// Starts the controller, again if it ran.
    pub(super) fn start(&mut self) {
        (self.published, self.watcher) = Default::default();
        let core = self.restored(|_| true);
        let policy = Policy { patience: self.patience, ..Policy::default() };
        let (machine, orders) = Machine::start(core, &policy, self.published.clone(), self.now);
        self.machine = Some(machine);
        self.drivers.clear();
        self.carry_out(orders.into_iter().map(Effect::Order).collect());
        self.publish();
    }

    pub(super) fn publish(&mut self) {
        self.machine().publish();
        self.watcher.follow(&self.published);
    }

    pub(super) fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().unwrap()
    }

    /// Drivers do nothing: the tests say what happens. Returns the answers.
    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) -> Vec<Result<Applied, Refusal>> {
        let mut answers = Vec::new();
        for effect in effects {
            if let Effect::Order(order) = &effect {
                self.orders.push(format!("{order:?}"));
            }
            match effect {
                Effect::Answer(_, result) => answers.push(*result),
                Effect::Order(DriverOrder::Start { node, driver, .. }) => {
                    self.drivers.insert(node, driver);
                }
                Effect::Order(_) => {}
            }
        }
        answers
    }

    pub(super) fn step(&mut self, event: Event) -> Vec<Result<Applied, Refusal>> {
        let now = self.now;
        let mut effects = self.machine().step(now, event).unwrap();
        while let Some(task) = self.machine().next_task(now, &|_| false) {
            effects.extend(self.machine().step(now, Event::Task(task)).unwrap());
        }
        self.carry_out(effects)
    }

    /// A group of one event, after which no other waits.
    pub(super) fn group(&mut self, event: Option<Event>) -> Vec<Result<Applied, Refusal>> {
        self.group_before(event, true)
    }

    /// A group of one event, after which news of switches may wait.
    pub(super) fn group_before(
        &mut self,
        event: Option<Event>,
        heard_all: bool,
    ) -> Vec<Result<Applied, Refusal>> {
        for event in event.into_iter().chain([Event::Look { heard_all }]) {
            assert_eq!(self.step(event), [], "nothing is answered before it is on disk");
        }
        let event = if self.works {
            let records: Vec<Record> = self.machine().records().map(NewRecord::journalled).collect();
            self.records.extend(records);
            Event::Journalled
        } else if self.machine().records().next().is_some() {
            Event::Unwritten("the disk is full".to_owned())
        } else {
            Event::Journalled
        };
        let answers = self.step(event);
        self.publish();
        answers
    }

    pub(super) fn request(&mut self, change: Change) -> Result<Applied, Refusal> {
        self.request_on(Terms::default(), change)
    }

    pub(super) fn request_on(&mut self, terms: Terms, change: Change) -> Result<Applied, Refusal> {
        let (id, by, accepted, gone) = (RequestId(1), "test".into(), self.now.instant, Cancel::default());
        let mut answers = self.group(Some(Event::Request(Request { id, change, terms, by, accepted, gone })));
        answers.pop().unwrap()
    }

    /// Applies objects, as a client does.
    pub(super) fn apply(&mut self, text: &str) -> Result<Applied, Refusal> {
        self.request(Change::Apply(Box::new(self.batch(text))))
    }

    pub(super) fn batch(&self, text: &str) -> Batch {
        let mut batch = Batch::new(self.rules.kinds(), Cancel::default());
        batch.add_document("net.yaml", text);
        batch
    }

    /// A switch tells something, and the controller looks.
    pub(super) fn event(&mut self, host: &str, event: SwitchEvent) {
        self.tell(host, event);
        self.group(None);
    }

    /// A switch tells something, and more may come before the controller looks.
    pub(super) fn tell(&mut self, host: &str, event: SwitchEvent) {
        let news = SwitchNews { node: host.to_owned(), driver: self.drivers[host], what: News::Event(event) };
        assert_eq!(self.step(Event::News(news)), []);
    }

    pub(super) fn status(&self) -> Status {
        self.published.read(&BTreeSet::new())
    }

    /// Time passes, and then the controller looks as often as it wants to. The journal has rested.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.wall += time;
        let machine = self.machine();
        machine.retry_at = machine.retry_at.map(|_| Moment::ZERO);
        for _ in 0..20 {
            self.group(None);
        }
    }

    /// The flows of all hosts.
    pub(super) fn flows(&mut self) -> BTreeMap<String, Vec<String>> {
        let flow = |(key, flow): (&FlowKey, &switch_model::Flow)| {
            format!("{} {:?} {:?}", key.table(), key.matching(), flow.actions())
        };
        let all = self.machine().core.all_desired();
        all.into_iter().map(|(host, desired)| (host, desired.flows.iter().map(flow).collect())).collect()
    }

    pub(super) fn is_lost(&mut self, host: &str) -> bool {
        self.machine().core.is_lost(host)
    }
}
