//! Random networks in a core, with what their switches report.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use conformance::rows::{Reports, rows};
use conformance::{NumberedWorld, Place, Size, Step, history};
use nlog_data::{Row, TableId};
use objects::{Batch, Cancel, ObjectStore};
use switch_model::{InterfaceId, Report, Vif};
use test_random::Random;
use weft_core::core::{AppliedTransaction, Core, CoreError, History, Refusal, RulesTransition};
use weft_core::record::Record;
use weft_core::rules::Rules;

/// Steps of a history after which switches report, and the network is applied.
pub(crate) const STEPS: usize = 3;

/// A history, of networks with and without routers and ACLs in turns.
pub(crate) fn history_of(seed: u64) -> conformance::History {
    let size = Size { routed: 100 * (seed % 2), filtered: 100 * (seed / 2 % 2), ..Size::default() };
    history(&mut Random::new(seed), size)
}

/// The network of a history at its end, and frames that ports send.
pub(crate) fn network_of(seed: u64) -> (NumberedWorld, Vec<(String, Vec<u8>)>) {
    let history = history_of(seed);
    let mut world = NumberedWorld::new(history.scattered);
    for change in history.steps.iter().flat_map(Step::changes) {
        world.apply(change);
    }
    let frames = history.steps.into_iter().filter_map(|step| match step {
        Step::Send(Place::Vnic(_, port), bytes) => Some((port, bytes)),
        _ => None,
    });
    let frames = frames.filter(|(port, _)| world.ports.contains_key(port)).collect();
    (world, frames)
}

/// A core with the objects of a world, and with what its switches report.
pub(crate) fn core_of(rules: &Arc<Rules>, world: &NumberedWorld) -> Core {
    let now = SystemTime::UNIX_EPOCH;
    let evaluator = crate::evaluator(rules, 1).unwrap();
    let (mut core, _) = Core::restore(evaluator, rules.clone(), History::new(rules), now).unwrap();
    core.apply(batch_of(rules, &objects_of(rules, world)), "test", now)
        .unwrap_or_else(|why| panic!("{why}\n{world}"));
    // Tunnel ports are wanted once interfaces are known.
    for _ in 0..2 {
        for host in world.nodes.keys() {
            let report = report(&core, world, host);
            core.report(host, &report, now).unwrap();
        }
    }
    core
}

/// The objects of a world.
pub(crate) fn objects_of(rules: &Rules, world: &NumberedWorld) -> ObjectStore {
    let program = rules.program();
    let rows = rows(world, &program.objects, &Reports::default(), &|_| true);
    let of = |table: TableId| -> Result<Vec<Row>, Infallible> {
        let rows = rows.get(&*program.schema.table(table).name);
        Ok(rows.into_iter().flatten().cloned().collect())
    };
    let Ok(store) = ObjectStore::of_rows(rules.kinds(), &program.schema, of);
    store
}

/// A request for these objects.
pub(crate) fn batch_of(rules: &Rules, objects: &ObjectStore) -> Batch {
    let mut batch = Batch::new(rules.kinds(), Cancel::default());
    for (_, object) in objects.iter() {
        batch.add_json("world", &serde_json::to_string(object).unwrap());
    }
    batch
}

/// What the switch of a host reports.
pub(crate) fn report(core: &Core, world: &NumberedWorld, host: &str) -> Report {
    let desired = core.desired(host);
    let numbered =
        |names: Vec<&String>, first: u16| names.into_iter().cloned().zip(first..).collect::<BTreeMap<_, _>>();
    let vifs = world.ofports.iter().filter(|((own, _), _)| own == host);
    let vif = |((_, port), ofport): (&(String, String), &u16)| {
        let interface = InterfaceId(u128::from(*ofport));
        (port.clone(), Vif { ofport: *ofport, mac: String::new(), interface })
    };
    let vifs: BTreeMap<String, Vif> = vifs.map(vif).collect();
    Report {
        contested: BTreeMap::new(),
        unopened: BTreeMap::new(),
        probes: BTreeMap::new(),
        conflicts: None,
        interfaces: vifs.iter().map(|(port, vif)| (port.clone(), vif.interface)).collect(),
        vifs,
        tunnels: numbered(desired.tunnels.keys().collect(), 40_000),
        patches: numbered(desired.patches.keys().collect(), 50_000),
        problems: Vec::new(),
        ovs_version: String::new(),
    }
}

/// A controller that records what it does, and starts anew now and then.
pub(crate) struct Recorder {
    /// The configured rules.
    rules: Arc<Rules>,
    pub(crate) core: Core,
    pub(crate) records: Vec<Record>,
}

impl Recorder {
    /// With an empty network.
    pub(crate) fn new(rules: &Arc<Rules>) -> Recorder {
        Recorder::after(rules, Vec::new())
    }

    /// A controller that starts after these records.
    pub(crate) fn after(rules: &Arc<Rules>, mut records: Vec<Record>) -> Recorder {
        let mut history = history_after(rules, &records);
        let run = history.rules_to_run(rules);
        let evaluator = crate::evaluator(&run, 1).unwrap();
        let (mut core, correction) = Core::restore(evaluator, run, history, SystemTime::UNIX_EPOCH).unwrap();
        core.make_evaluators_with(Arc::new(|rules| crate::evaluator(rules, 1)));
        core.edit_evaluators_with(Arc::new(crate::edit));
        records.extend(correction);
        Recorder { rules: rules.clone(), core, records }
    }

    /// A controller of which nothing has been recorded yet.
    pub(crate) fn of(core: Core) -> Recorder {
        Recorder { rules: core.rules().clone(), core, records: Vec::new() }
    }

    fn restart(&mut self) {
        *self = Recorder::after(&self.rules.clone(), std::mem::take(&mut self.records));
    }

    /// Goes on with other rules, unless they are refused. Returns whether it does.
    pub(crate) fn load(&mut self, rules: &Arc<Rules>, transition: RulesTransition) -> bool {
        let Ok(done) = self.change_rules(rules, transition) else { return false };
        self.records.extend(done.map(|done| done.journalled()));
        self.core.journalled();
        true
    }

    /// Goes on with other rules, which is not recorded yet.
    pub(crate) fn change_rules(
        &mut self,
        rules: &Arc<Rules>,
        transition: RulesTransition,
    ) -> Result<Option<AppliedTransaction>, Refusal> {
        // What is recorded is on disk.
        self.core.journalled();
        match self.core.change_rules(rules, transition, "test", SystemTime::UNIX_EPOCH) {
            Ok(accepted) => Ok(accepted.transaction),
            Err(CoreError::Refused(refusal)) => Err(refusal),
            Err(failed) => panic!("{failed}"),
        }
    }

    /// Brings the controller to a world as far as it lets itself be: objects that others refer to stay, as do those that clash with them.
    pub(crate) fn follow(&mut self, world: &NumberedWorld) {
        let (now, rules) = (SystemTime::UNIX_EPOCH, self.core.rules().clone());
        let wanted = objects_of(&rules, world);
        let gone = self.core.objects().iter().map(|(key, _)| key.clone());
        let gone: Vec<_> = gone.filter(|key| wanted.get(key).is_none()).collect();
        let mut accepted = vec![self.core.apply(batch_of(&rules, &wanted), "test", now)];
        accepted.extend(gone.iter().map(|key| self.core.delete(std::slice::from_ref(key), "test", now)));
        accepted.push(self.core.apply(batch_of(&rules, &wanted), "test", now));
        let accepted = accepted.into_iter().filter_map(|accepted| accepted.ok()?.transaction);
        self.records.extend(accepted.map(|done| done.journalled()));
        for host in world.nodes.keys() {
            let report = report(&self.core, world, host);
            let done = self.core.report(host, &report, now).ok().flatten();
            self.records.extend(done.map(|done| done.journalled()));
        }
    }
}

/// The worlds of a random history, one after the other.
pub(crate) fn for_each_world(seed: u64, mut each: impl FnMut(&NumberedWorld)) {
    let history = history_of(seed);
    let mut world = NumberedWorld::new(history.scattered);
    for steps in history.steps.chunks(STEPS) {
        for change in steps.iter().flat_map(Step::changes) {
            world.apply(change);
        }
        each(&world);
    }
}

/// The records of a controller that follows a random history, and starts anew once.
pub(crate) fn records_of(rules: &Arc<Rules>, seed: u64) -> Vec<Record> {
    let mut recorder = Recorder::new(rules);
    let mut number = 0;
    for_each_world(seed, |world| {
        recorder.follow(world);
        if number == 3 {
            recorder.restart();
        }
        number += 1;
    });
    recorder.records
}

/// The state after these records.
fn history_after(rules: &Rules, records: &[Record]) -> History {
    let mut history = History::new(rules);
    for record in records {
        history.add(record).unwrap();
    }
    history
}

/// The record that stands for all of these.
pub(crate) fn base_of(rules: &Rules, records: &[Record]) -> Record {
    let history = history_after(rules, records);
    let at = "2026-11-27T00:00:00Z".to_owned();
    history.into_base(format!("{at}-0badcafe").into(), 1, at, rules.text())
}
