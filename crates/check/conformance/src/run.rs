//! Runs a history in the rules and in the model, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use network_spec::{Arrival, Model, Problem, Transition, World};
use nlog::Program;
use nlog::program::{Expr, HeadTerm, Rule};
use nlog_data::{Row, Value};
use test_random::Random;

use crate::generate::{History, Place, Step, given_frame};
use crate::oracle;
use crate::rehearsal::Filtered;
use crate::responder::{self, Saying};
use crate::silence::silence;
use crate::simulation::{Hosts, Out, Passage, Simulation};
use crate::world::{Change, NumberedWorld};

/// A disagreement between rules and model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The rules refuse a change, or ask hosts for something impossible.
    Change(String),
    /// A fault of the flow tables lost a frame.
    Lost(String),
    /// Rules and model deliver different frames.
    Frames {
        /// The frames that the model delivers.
        model: Vec<Out>,
        /// The frames that the rules deliver.
        rules: Vec<Out>,
    },
    /// Rules and model agree on the frames, and then say different things about them, or to others.
    Messages {
        /// What the model says.
        model: Vec<Saying>,
        /// What the rules say.
        rules: Vec<Saying>,
    },
    /// While hosts change one after another, frames arrive that must not.
    Meanwhile(Box<Meanwhile>),
    /// Rules and model send other numbers of copies of a frame between hosts.
    Copies {
        /// The copies by the model.
        model: Copies,
        /// The copies by the rules.
        rules: Copies,
    },
    /// The rules choose replication trees, relays or addresses that cannot be right.
    Choices(Vec<String>),
    /// Rules and model disagree about the tunnel and patch ports that hosts must have.
    Ports(OneSided),
    /// The hosts of the rules and those of the model have heard other announcements.
    Announcements(OneSided),
    /// Rules and model disagree about the problems to show.
    Problems(OneSided),
    /// Rules and model disagree about the MTU of a switch.
    Mtu {
        /// The switch.
        switch: String,
        /// The MTU by the model.
        model: Option<i64>,
        /// The MTU by the rules.
        rules: Option<i64>,
    },
}

/// The number of copies of a frame from one host to another.
pub type Copies = BTreeMap<(String, String), u64>;

/// Texts of things that only one side has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneSided {
    /// Those of the model alone.
    pub model: Vec<String>,
    /// Those of the rules alone.
    pub rules: Vec<String>,
}

impl OneSided {
    /// What only one of these has, if anything.
    fn of(model: &BTreeSet<String>, rules: &BTreeSet<String>) -> Option<OneSided> {
        let but = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect();
        (model != rules).then(|| OneSided { model: but(model, rules), rules: but(rules, model) })
    }
}

/// Frames that arrive while hosts change one after another, and must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meanwhile {
    /// The place of the sender.
    pub from: Place,
    /// The frame.
    pub bytes: Vec<u8>,
    /// The hosts that have changed.
    pub changed: Vec<String>,
    /// The arrivals.
    pub arrivals: Vec<Out>,
    /// The traces of the frame.
    pub trace: String,
}

impl Difference {
    /// Whether both are of one kind, so that shrinking may replace one by the other.
    pub(crate) fn is_like(&self, other: &Difference) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// A disagreement, and the step at which it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step of the history.
    pub step: usize,
    /// The world at that step.
    pub world: NumberedWorld,
    /// The disagreement.
    pub difference: Difference,
}

/// The amount of comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Histories.
    pub histories: u64,
    /// Steps of all kinds.
    pub steps: u64,
    /// Changes of the world.
    pub changes: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Frames that were delivered.
    pub out: u64,
    /// Frames that were not delivered at all.
    pub dropped: u64,
    /// Packets sent to tunnel endpoints by those who may not, and dropped.
    pub refused: u64,
    /// Copies that crossed between hosts.
    pub copies: u64,
    /// Frames that were sent while hosts changed one after another.
    pub meanwhile: u64,
    /// Frames that routers sent on their way, at least once.
    pub routed: u64,
    /// Those of them that arrived.
    pub routed_out: u64,
    /// Those that arrived while a relay was silent.
    pub past_silent: u64,
    /// Frames of which routers dropped a packet.
    pub undeliverable: u64,
    /// Frames of which somebody heard.
    pub answered: u64,
    /// Requests that a DHCP server or a DNS zone answered.
    pub served: u64,
    /// Frames from or to machines whose addresses the rules have given.
    pub given: u64,
    /// Frames that gateways have translated.
    pub translated: u64,
    /// What ACLs have done with frames.
    pub filtered: Filtered,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.histories += other.histories;
        self.steps += other.steps;
        self.changes += other.changes;
        self.sent += other.sent;
        self.out += other.out;
        self.dropped += other.dropped;
        self.refused += other.refused;
        self.copies += other.copies;
        self.meanwhile += other.meanwhile;
        self.routed += other.routed;
        self.routed_out += other.routed_out;
        self.past_silent += other.past_silent;
        self.undeliverable += other.undeliverable;
        self.answered += other.answered;
        self.served += other.served;
        self.given += other.given;
        self.translated += other.translated;
        self.filtered += other.filtered;
    }
}

/// Runs histories one after another, each from an empty world.
pub struct Runner {
    program: Arc<Program>,
    simulation: Simulation,
}

impl Runner {
    /// A runner that has run nothing.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn new(program: Arc<Program>) -> Result<Runner, String> {
        Ok(Runner { simulation: Simulation::new(program.clone())?, program })
    }

    /// A runner of the same rules that has run nothing.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn fresh(&self) -> Result<Runner, String> {
        Runner::new(self.program.clone())
    }

    /// The rules and hosts in the state in which the last history failed.
    pub fn simulation(&mut self) -> &mut Simulation {
        &mut self.simulation
    }

    /// Runs a history until rules and model disagree, then removes everything. After a failure the state stays for
    /// [`Runner::simulation`].
    ///
    /// # Errors
    /// They disagree.
    pub fn run(&mut self, history: &History) -> Result<Count, Box<Failure>> {
        let mut life = Life::new(history.scattered);
        let mut count = Count { histories: 1, ..Count::default() };
        for (number, step) in history.steps.iter().enumerate() {
            count.steps += 1;
            let done = life.step(&mut self.simulation, step, &mut count);
            done.map_err(|difference| {
                Box::new(Failure { step: number, world: life.world.clone(), difference })
            })?;
        }
        let end = Failure {
            step: history.steps.len(),
            world: life.world,
            difference: Difference::Change(String::new()),
        };
        let failed = |why| Box::new(Failure { difference: Difference::Change(why), ..end.clone() });
        self.clear().map_err(failed)?;
        Ok(count)
    }

    /// Removes everything, and starts a new engine if that fails.
    ///
    /// # Errors
    /// Rows are left over.
    pub fn clear(&mut self) -> Result<(), String> {
        let empty = NumberedWorld::new(false);
        let cleared = self.simulation.change(&empty, &|_| true).and_then(|()| {
            let contents = self.simulation.contents()?;
            let left = |(table, rows): (&String, &BTreeSet<Row>)| {
                Some((table.clone(), rows.iter().find(|row| !is_fact(&self.program, table, row))?.clone()))
            };
            match contents.iter().find_map(left) {
                Some((table, row)) => Err(format!("with everything gone, table {table} still has {row:?}")),
                None => Ok(()),
            }
        });
        if cleared.is_err() {
            self.simulation = Simulation::new(self.program.clone())?;
        }
        cleared
    }
}

/// Whether a row follows from nothing.
fn is_fact(program: &Program, table: &str, row: &Row) -> bool {
    let says =
        |term: &HeadTerm, value: &Value| matches!(term, HeadTerm::Value(Expr::Constant(own)) if own == value);
    let is_row = |rule: &Rule| {
        rule.body.is_empty() && rule.terms.iter().zip(row).all(|(term, value)| says(term, value))
    };
    program.schema.find(table).is_some_and(|table| program.rules_of(table).any(|(_, rule)| is_row(rule)))
}

/// A world and its model in the middle of a history.
struct Life {
    world: NumberedWorld,
    /// The states of the model that the rules may be in, at least one: it is not always seen which next hop a packet took.
    models: Vec<Model>,
}

/// The most states of the model to follow. Flows that differ in their next hop alone are one.
const STATES: usize = 64;

impl Life {
    fn new(scattered: bool) -> Life {
        Life { world: NumberedWorld::new(scattered), models: vec![Model::default()] }
    }

    /// A state of the model; where all are alike, it does not matter which.
    fn model(&self) -> &Model {
        &self.models[0]
    }

    /// Changes the world of the model.
    fn change(&mut self, change: impl Fn(&mut World)) {
        self.models.iter_mut().for_each(|model| model.apply(&change));
    }

    fn step(
        &mut self,
        simulation: &mut Simulation,
        step: &Step,
        count: &mut Count,
    ) -> Result<(), Difference> {
        match step {
            Step::Change(changes) => {
                let old = self.model().world().clone();
                count.changes += self.apply(changes);
                simulation.change(&self.world, &|_| true).map_err(Difference::Change)?;
                self.take_given(&old, simulation)?;
                self.compare_state(simulation)
            }
            Step::OneByOne { changes, order, frames } => {
                let old = self.model().world().clone();
                count.changes += self.apply(changes);
                let derived = simulation.derive(&self.world).map_err(Difference::Change)?;
                self.take_given(&old, simulation)?;
                let mut transition = Transition::new(old, self.model().world().clone());
                let random = &mut Random::new(*order);
                simulation.follow_one_by_one(&self.world, derived, random, |hosts, changed| {
                    for host in changed {
                        transition.change(host);
                    }
                    for (place, bytes) in frames.iter().filter(|(place, _)| self.exists(place)) {
                        count.meanwhile += 1;
                        meanwhile(&transition, hosts, changed, (place, bytes))?;
                    }
                    Ok::<(), Difference>(())
                })?;
                self.compare_state(simulation)
            }
            Step::Wait(seconds) => {
                let time = Duration::from_secs(*seconds);
                simulation.wait(time);
                self.models.iter_mut().for_each(|model| model.advance(time));
                Ok(())
            }
            Step::Send(place, bytes) => self.send(simulation, place, bytes, count),
            Step::SendGiven(seed) => match given_frame(&self.world, *seed) {
                Some((place, bytes)) => {
                    count.given += 1;
                    self.send(simulation, &place, &bytes, count)
                }
                None => Ok(()),
            },
            Step::Forge(host, forged) if self.model().world().refuses(host, forged.from) => {
                let rules = simulation.hosts_mut().send_tunnelled(host, forged).map_err(Difference::Lost)?;
                count.refused += 1;
                if rules.is_empty() { Ok(()) } else { Err(Difference::Frames { model: Vec::new(), rules }) }
            }
            Step::Forge(..) => Ok(()),
        }
    }

    /// Makes changes in the worlds of rules and model. Returns how many were valid.
    fn apply(&mut self, changes: &[Change]) -> u64 {
        let valid = changes.iter().map(|change| u64::from(self.world.apply(change))).sum();
        let world = oracle::world(&self.world);
        self.change(|now| now.clone_from(&world));
        valid
    }

    /// Takes over the addresses that the rules have given to ports, and checks that they may.
    fn take_given(&mut self, old: &World, simulation: &Simulation) -> Result<(), Difference> {
        let given = simulation.given();
        if given.is_empty() && self.world.ports.values().all(|port| port.dynamic.is_empty()) {
            return Ok(());
        }
        self.world.take_given(&given);
        let ports = self.world.network.ports.clone();
        self.change(|now| now.ports.clone_from(&ports));
        let faults = self.model().world().given_faults(old);
        if faults.is_empty() { Ok(()) } else { Err(Difference::Choices(faults)) }
    }

    /// Compares the rows that do not concern one frame, and takes over the replication trees that the rules have chosen.
    fn compare_state(&mut self, simulation: &Simulation) -> Result<(), Difference> {
        self.change(|world| simulation.trees(&mut world.trees));
        let mut faults = self.model().world().tree_faults();
        faults.extend(self.model().world().relay_faults(&simulation.relays()));
        if !faults.is_empty() {
            return Err(Difference::Choices(faults));
        }
        self.compare_announcements(simulation)?;
        self.compare_ports(simulation)?;
        self.compare_mtus(simulation)?;
        self.compare_problems(simulation)
    }

    /// Whether frames can be sent from a place.
    fn exists(&self, place: &Place) -> bool {
        match place {
            Place::Vnic(host, port) => self.world.vnics.contains_key(&(host.clone(), port.clone())),
            Place::Tap(_) => true,
        }
    }

    fn send(
        &mut self,
        simulation: &mut Simulation,
        place: &Place,
        bytes: &[u8],
        count: &mut Count,
    ) -> Result<(), Difference> {
        if !self.exists(place) || (self.world.is_filtered() && is_to_itself(bytes)) {
            return Ok(());
        }
        // Of gateways, the model says which one works, and here all do.
        let has_gateways = self.world.router_ports.values().any(|port| !port.gateways.is_empty());
        let turn = (!has_gateways).then_some(count.sent);
        let silent = silence(simulation.hosts_mut(), turn);
        let outcomes = self.outcomes(place, bytes);
        let Passage { out: mut rules, mut copies, handed } =
            simulation.pass(place, bytes).map_err(Difference::Lost)?;
        let answers = responder::respond(simulation.hosts_mut(), handed).map_err(Difference::Lost)?;
        for (hop, more) in answers.copies {
            *copies.entry(hop).or_default() += more;
        }
        rules.extend(answers.went_on);
        rules.sort();
        let said = responder::of_hosts(&answers.said);
        count.sent += 1;
        count.copies += copies.values().sum::<u64>();
        count.out += rules.len() as u64;
        count.dropped += u64::from(rules.is_empty());
        let first = outcomes.first().map(|(_, out)| out.clone()).unwrap_or_default();
        let seen: Vec<Model> =
            outcomes.into_iter().filter(|(_, out)| *out == rules).map(|(model, _)| model).collect();
        let Some(model) = seen.first() else { return Err(Difference::Frames { model: first, rules }) };
        let first = responder::of_model(model.messages());
        let translates_ipv6 = self.world.nats.values().any(|nat| nat.kind.external().0.is_ipv6());
        let compared = |all| if translates_ipv6 { responder::undamaged(all) } else { all };
        let (said, heard) = (compared(said.clone()), said);
        let says_it = |model: &Model| compared(responder::of_model(model.messages())) == said;
        let seen: Vec<Model> = seen.into_iter().filter(says_it).collect();
        let Some(model) = seen.first() else {
            return Err(Difference::Messages { model: first, rules: heard });
        };
        count.answered += u64::from(!said.is_empty());
        count.served += u64::from(said.iter().any(|(_, said)| said.is_of_server()));
        count.routed += u64::from(model.routed() > 0);
        count.routed_out += u64::from(model.routed() > 0 && !rules.is_empty());
        count.past_silent += u64::from(silent && model.routed() > 0 && !rules.is_empty());
        count.translated += u64::from(model.translated() > 0);
        count.undeliverable += u64::from(!model.dropped().is_empty());
        count.filtered += Filtered { out: u64::from(!rules.is_empty()), ..Filtered::of(model) };
        // Who relays what routers send is for the rules to choose.
        let for_routers = model.met_router();
        let relayed = self.world.relays() && for_routers;
        let expected = model.copies().clone();
        let seen: Vec<Model> =
            seen.into_iter().filter(|model| relayed || *model.copies() == copies).collect();
        if seen.is_empty() {
            return Err(Difference::Copies { model: expected, rules: copies });
        }
        self.models = Model::unite(seen);
        if self.models.len() > STATES {
            return Err(Difference::Change(format!("the model is in one of {} states", self.models.len())));
        }
        self.compare_announcements(simulation)
    }

    /// What may become of a frame, by the model: its states afterwards, each with what arrives.
    fn outcomes(&mut self, place: &Place, bytes: &[u8]) -> Vec<(Model, Vec<Out>)> {
        let tap = oracle::tap(place);
        let sorted = |arrivals: Vec<Arrival>| {
            let out = |arrival: Arrival| Out { at: oracle::place(&arrival.at), bytes: arrival.frame };
            let mut all: Vec<Out> = arrivals.into_iter().map(out).collect();
            all.sort();
            all
        };
        let states = std::mem::take(&mut self.models);
        let outcomes = states.into_iter().flat_map(|mut model| {
            if !self.world.routers.is_empty() || self.world.is_filtered() {
                return model.outcomes(&tap, bytes);
            }
            let arrivals = model.inject(&tap, bytes);
            vec![(model, arrivals)]
        });
        outcomes.map(|(model, arrivals)| (model, sorted(arrivals))).collect()
    }

    /// The hosts must have heard the announcements that those of the model have heard, so that the controller can read them.
    fn compare_announcements(&self, simulation: &Simulation) -> Result<(), Difference> {
        let texts = |heard: BTreeSet<(String, String)>| -> BTreeSet<String> {
            heard.into_iter().map(|(host, port)| format!("{port} on {host}")).collect()
        };
        let rules = simulation.heard().map_err(Difference::Change)?;
        let difference = OneSided::of(&texts(self.model().heard()), &texts(rules));
        difference.map_or(Ok(()), |difference| Err(Difference::Announcements(difference)))
    }

    /// The rules must want the ports that the model says hosts have: neither more nor fewer.
    fn compare_ports(&self, simulation: &Simulation) -> Result<(), Difference> {
        let model = oracle::wanted_ports(self.model().world());
        let rules = oracle::asked_ports(&self.world, simulation.hosts());
        OneSided::of(&model, &rules).map_or(Ok(()), |difference| Err(Difference::Ports(difference)))
    }

    /// The rules must show the problems of the model, and no others.
    fn compare_problems(&self, simulation: &Simulation) -> Result<(), Difference> {
        let text = |kind: &str, id: &str, code: &str| format!("{kind} {id}: {code}");
        let model = self.model().world().problems();
        let model = model.iter().map(|Problem { kind, id, code }| text(kind, id, code)).collect();
        let rules = simulation.problems();
        let rules = rules.iter().map(|(kind, id, code)| text(kind, id, code)).collect();
        OneSided::of(&model, &rules).map_or(Ok(()), |difference| Err(Difference::Problems(difference)))
    }

    /// The rules must report the MTU of each switch as the model does.
    fn compare_mtus(&self, simulation: &Simulation) -> Result<(), Difference> {
        for switch in self.world.switches.keys() {
            let model = self.model().world().mtu(switch).map(i64::from);
            let rules = simulation.mtu(switch);
            if model != rules {
                return Err(Difference::Mtu { switch: switch.clone(), model, rules });
            }
        }
        Ok(())
    }
}

/// Whether a frame is for its own source. Where the switch learns, it looks such a frame up before it has learned the source, or, if
/// conntrack takes the frame up again, after that.
fn is_to_itself(frame: &[u8]) -> bool {
    frame.get(..6).is_some_and(|to| frame.get(6..12) == Some(to))
}

/// Sends a frame while hosts change one after another: it may be lost, but may not arrive where the model forbids it.
fn meanwhile(
    transition: &Transition,
    hosts: &Hosts,
    changed: &BTreeSet<String>,
    (place, bytes): (&Place, &[u8]),
) -> Result<(), Difference> {
    let out = hosts.try_out(place, bytes).map_err(Difference::Lost)?.out;
    let arrival = |out: Out| Arrival { at: oracle::tap(&out.at), frame: out.bytes };
    let arrivals: Vec<Arrival> = out.into_iter().map(arrival).collect();
    let forbidden = transition.forbidden(&oracle::tap(place), bytes, &arrivals);
    if forbidden.is_empty() {
        return Ok(());
    }
    let out = |arrival: Arrival| Out { at: oracle::place(&arrival.at), bytes: arrival.frame };
    let mut trace = String::new();
    for (host, steps) in hosts.trace(place, bytes).hops {
        let steps: String = steps.iter().map(ToString::to_string).collect();
        let _ = write!(trace, "\nOn {host}:\n{steps}");
    }
    Err(Difference::Meanwhile(Box::new(Meanwhile {
        from: place.clone(),
        bytes: bytes.to_vec(),
        changed: changed.iter().cloned().collect(),
        arrivals: forbidden.into_iter().map(out).collect(),
        trace,
    })))
}

impl From<String> for Difference {
    fn from(why: String) -> Difference {
        Difference::Change(why)
    }
}
