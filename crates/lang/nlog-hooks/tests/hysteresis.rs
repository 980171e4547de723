//! `hysteresis` compared with an evaluation of every row's whole history.

use std::collections::BTreeSet;

use crate::support::{Moment, Random, difference, hysteresis};
use nlog_data::{Column, Role, Row, Table, Type, Value};
use nlog_hooks::{Hook, Hysteresis};

fn rows(names: &str) -> BTreeSet<Row> {
    names.chars().map(|name| vec![Value::from(name.to_string())]).collect()
}

/// The hook with the history of its tables.
struct Held {
    hook: Hysteresis,
    rise: u64,
    fall: u64,
    history: Vec<Moment>,
    shown: BTreeSet<Row>,
}

impl Held {
    fn new(rise: u64, fall: u64) -> Self {
        Held { hook: Hysteresis::new(rise, fall), rise, fall, history: Vec::new(), shown: BTreeSet::new() }
    }

    fn source(&self) -> BTreeSet<Row> {
        self.history.last().map(|(rows, _)| rows.clone()).unwrap_or_default()
    }

    /// Replaces the source. Returns the rows shown then.
    fn moment(&mut self, source: BTreeSet<Row>, tick: Option<u64>) -> BTreeSet<Row> {
        let delta = self.hook.update(&difference(&self.source(), &source), tick);
        let delta = delta.expect("it never fails");
        self.history.push((source, tick));
        let wanted = hysteresis(&self.history, self.rise, self.fall);
        assert_eq!(delta, difference(&self.shown, &wanted), "{:?}", self.history);
        self.hook.accept();
        self.shown = wanted;
        self.shown.clone()
    }

    /// Replaces the hook by one with its memory. The rows of both tables stay.
    fn restart(&mut self) {
        let memory = self.hook.memory().expect("it has one");
        let name = Column { name: "name".to_owned(), ty: Type::String };
        let target = Table {
            name: "shown".to_owned(),
            role: Role::Input,
            columns: vec![name],
            key: None,
            uniques: Vec::new(),
            doc: String::new(),
        };
        self.hook = Hysteresis::new(self.rise, self.fall);
        self.hook.restore(&memory, &target).expect("it is its own");
        let source = difference(&BTreeSet::new(), &self.source());
        let shown = self.hook.update(&source, None).expect("it never fails");
        assert_eq!(shown, difference(&BTreeSet::new(), &self.shown), "{:?}", self.history);
        self.hook.accept();
        assert_eq!(self.hook.memory(), Some(memory));
    }

    fn set(&mut self, names: &str) -> BTreeSet<Row> {
        self.moment(rows(names), None)
    }

    fn tick(&mut self, now: u64) -> BTreeSet<Row> {
        self.moment(self.source(), Some(now))
    }
}

#[test]
fn a_row_comes_late_and_goes_late() {
    let mut held = Held::new(1000, 500);
    assert_eq!(held.set("a"), rows(""));
    // Its time begins here: how long it has been present is unknown.
    assert_eq!(held.tick(7000), rows(""));
    assert_eq!(held.tick(7999), rows(""));
    assert_eq!(held.set("ab"), rows(""));
    assert_eq!(held.tick(8000), rows("a"));
    assert_eq!(held.set("b"), rows("a"));
    assert_eq!(held.tick(8600), rows("a"));
    assert_eq!(held.tick(9050), rows("ab"), "b has been there since 8000");
    assert_eq!(held.tick(9100), rows("b"));
}

#[test]
fn a_row_that_flaps_stays_as_it_was() {
    let mut held = Held::new(1000, 1000);
    held.set("a");
    held.tick(0);
    assert_eq!(held.tick(1000), rows("a"));
    for round in 0..5 {
        assert_eq!(held.set("b"), rows("a"));
        assert_eq!(held.tick(2000 + 900 * round), rows("a"));
        assert_eq!(held.set("a"), rows("a"));
        assert_eq!(held.tick(2400 + 900 * round), rows("a"));
    }
}

#[test]
fn without_a_time_to_wait_there_is_no_wait() {
    let mut held = Held::new(1000, 0);
    held.set("a");
    held.tick(0);
    held.tick(1000);
    assert_eq!(held.set(""), rows(""), "it goes at once");
    assert_eq!(held.set("a"), rows(""), "and comes back late");
    let mut held = Held::new(0, 1000);
    assert_eq!(held.set("a"), rows("a"));
    assert_eq!(held.set(""), rows("a"));
}

#[test]
fn random_histories_are_as_each_row_says() {
    let mut changes = 0;
    let seeds = test_random::seeds!("random_histories_are_as_each_row_says", 400);
    let is_whole = seeds.is_whole();
    for seed in seeds {
        let mut random = Random::new(seed);
        let times = [0, 1, 3, 10, 1 << 63];
        let mut held = Held::new(*random.pick(&times), *random.pick(&times));
        let mut now = 0;
        for _ in 0..60 {
            let mut source = held.source();
            for name in ["a", "b", "c", "d"] {
                if random.chance(15) {
                    let row = vec![Value::from(name)];
                    if !source.remove(&row) {
                        source.insert(row);
                    }
                }
            }
            let tick = random.chance(60).then(|| {
                now += random.below(5);
                now
            });
            if random.chance(25) {
                // Refused: no effect remains, not even the time.
                let later = tick.map(|now| now + random.below(20));
                held.hook.update(&difference(&held.source(), &source), later).expect("it never fails");
                held.hook.undo();
            }
            if random.chance(15) {
                held.restart();
            }
            let before = held.shown.clone();
            held.moment(source, tick);
            changes += usize::from(before != held.shown);
        }
    }
    assert!(!is_whole || changes > 1000, "rows come and go: {changes}");
}

#[test]
fn a_tick_costs_what_is_due() {
    let costs = [10, 1000, 5000].map(|many| {
        let mut hook = Hysteresis::new(100, 100);
        let steady = (0..many).map(|number| vec![Value::Int(number)]).collect();
        hook.update(&difference(&BTreeSet::new(), &steady), Some(0)).expect("it never fails");
        hook.accept();
        hook.update(&difference(&steady, &steady), Some(100)).expect("it never fails");
        hook.accept();
        let mut more = steady.clone();
        more.extend((0..5).map(|number| vec![Value::Int(many + number)]));
        let before = hook.work();
        hook.update(&difference(&steady, &more), Some(200)).expect("it never fails");
        hook.accept();
        let due = hook.update(&difference(&more, &more), Some(300)).expect("it never fails");
        assert_eq!(due.insert.len(), 5);
        hook.accept();
        hook.work() - before
    });
    assert_eq!(costs, [15; 3], "each of the new rows came, was waited for, and was shown");
}
