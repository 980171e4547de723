//! A long run in which names keep changing: the engine's memory stays bounded.
//!
//! Ports appear under names never used before and disappear for good, hosts change their addresses, and some
//! transactions are refused. The state keeps its size. With `WEFT_TEST_TRANSACTIONS=1000000` the test runs that many
//! transactions, as `cargo xtask soak` does in a release build, and prints the memory in use along the way.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::support::{Random, compile, resident_kib};
use nlog::Program;
use nlog_data::{CommitError, Evaluator, Row, TableId, Transaction, Value};
use nlog_dataflow::{Dataflow, Options};

/// Joins, groups, strings and flows made of names, a checked key, and a division that can fail.
const PROGRAM: &str = r#"
    input table port(lport: string, switch: string, mac: mac, tag: int) key(lport);
    input table at(lport: string, hv: string) key(lport);
    input table locator(hv: string, ip: ip) key(hv);
    table remote(hv: string, switch: string, ip: ip);
    output table tunnel(hv: string, ip: ip);
    output table members(switch: string, ports: set<string>) key(switch);
    output table place(lport: string, text: string) key(lport);
    output table flow(hv: string, match: match, actions: actions) key(hv, match);
    remote(h, s, ip) :- at(p, h), port(p, s, _, _), port(q, s, _, _), at(q, g), locator(g, ip), h != g;
    tunnel(h, ip) :- remote(h, _, ip);
    members(s, set(p)) :- port(p, s, _, _);
    place(p, p ++ "@" ++ h ++ "/" ++ s) :- at(p, h), port(p, s, _, _);
    flow(h, match{eth_dst: mac}, actions[set(reg0, share), output(1)]) :-
        at(p, h), port(p, _, mac, tag), share = 1000 / tag;
"#;

/// The size of the state.
const PORTS: usize = 300;
const SWITCHES: u64 = 60;
const HOSTS: u64 = 20;

/// Makes transactions that keep the size of the state.
struct History {
    random: Random,
    tables: [TableId; 3],
    /// Ports with their rows, the oldest first.
    ports: VecDeque<[Row; 2]>,
    /// By host, its row of `locator`.
    hosts: Vec<Row>,
    /// The number of names made up so far.
    names: u64,
}

fn text(text: String) -> Value {
    Value::String(text.into())
}

impl History {
    fn new(program: &Program, seed: u64) -> Self {
        let find = |name| program.schema.find(name).expect("the program above declares it");
        let tables = ["port", "at", "locator"].map(find);
        History { random: Random::new(seed), tables, ports: VecDeque::new(), hosts: Vec::new(), names: 0 }
    }

    /// All hosts and ports.
    fn first(&mut self) -> Transaction {
        let mut transaction = Transaction::default();
        self.hosts = (0..HOSTS).map(|host| self.host(host)).collect();
        transaction.insert.insert(self.tables[2], self.hosts.clone());
        for _ in 0..PORTS {
            self.come(&mut transaction);
        }
        transaction
    }

    fn host(&mut self, host: u64) -> Row {
        self.names += 1;
        let [.., a, b, c] = self.names.to_be_bytes();
        vec![text(format!("host-{host}")), Value::Ip([10, a, b, c].into())]
    }

    fn port(&mut self, tag: i64) -> [Row; 2] {
        self.names += 1;
        let name = || text(format!("a port with a long name, the {}th", self.names));
        let [.., a, b, c, d] = self.names.to_be_bytes();
        let mac = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
        let mac = Value::Mac(mac.parse().expect("six bytes"));
        let port =
            vec![name(), text(format!("switch-{}", self.random.below(SWITCHES))), mac, Value::Int(tag)];
        [port, vec![name(), text(format!("host-{}", self.random.below(HOSTS)))]]
    }

    fn come(&mut self, transaction: &mut Transaction) {
        let tag = 1 + self.random.below(900) as i64;
        let rows = self.port(tag);
        for (row, table) in rows.iter().zip(self.tables) {
            transaction.insert.entry(table).or_default().push(row.clone());
        }
        self.ports.push_back(rows);
    }

    fn go(&mut self, transaction: &mut Transaction) {
        for (row, table) in self.ports.pop_front().into_iter().flatten().zip(self.tables) {
            transaction.delete.entry(table).or_default().push(row);
        }
    }

    /// The next transaction, and whether it must be accepted.
    fn next(&mut self) -> (Transaction, bool) {
        let mut transaction = Transaction::default();
        match self.random.below(20) {
            // A port that divides by zero.
            0 => {
                for (row, table) in self.port(0).into_iter().zip(self.tables) {
                    transaction.insert.entry(table).or_default().push(row);
                }
                return (transaction, false);
            }
            // A port in two places.
            1 => {
                let [_, one] = self.port(1);
                let other = vec![one[0].clone(), text(format!("no host, the {}th", self.names))];
                transaction.insert.insert(self.tables[1], vec![one, other]);
                return (transaction, false);
            }
            // A host with a new address.
            2 => {
                let host = self.random.below(HOSTS);
                let row = self.host(host);
                let before = std::mem::replace(&mut self.hosts[host as usize], row.clone());
                transaction.delete.insert(self.tables[2], vec![before]);
                transaction.insert.insert(self.tables[2], vec![row]);
            }
            _ => {
                for _ in 0..=self.random.below(3) {
                    self.go(&mut transaction);
                    self.come(&mut transaction);
                }
            }
        }
        (transaction, true)
    }
}

fn transactions() -> u64 {
    let asked = std::env::var("WEFT_TEST_TRANSACTIONS").ok();
    asked.map_or(9_000, |text| text.parse().expect("WEFT_TEST_TRANSACTIONS is a number"))
}

#[test]
fn names_that_are_gone_take_no_memory() {
    for seed in test_random::seeds!("names_that_are_gone_take_no_memory", 1) {
        run(seed);
    }
}

fn run(seed: u64) {
    let program = compile(PROGRAM);
    let options = Options { ..Options::default() };
    let mut engine = Dataflow::new(Arc::clone(&program), options).expect("it starts");
    let mut history = History::new(&program, seed);
    let first = history.first();
    engine.commit(&first).expect("nothing is wrong with it");
    let transactions = transactions();
    let settled = (transactions / 3).min(10_000);
    let (mut early, mut refused) = (0, 0);
    let started = std::time::Instant::now();
    for number in 1..=transactions {
        let (transaction, sound) = history.next();
        match engine.commit(&transaction) {
            Ok(_) => assert!(sound, "transaction {number} should be refused"),
            Err(CommitError::Refused(error)) => {
                assert!(!sound, "transaction {number}: {error}");
                refused += 1;
            }
            Err(error) => panic!("transaction {number}: {error}"),
        }
        if number == settled {
            early = resident_kib();
        }
        if number == settled || number.is_multiple_of(100_000) || number == transactions {
            let (now, elapsed) = (resident_kib(), started.elapsed().as_secs_f64());
            println!(
                "{number} transactions, {refused} refused, {} names: {now} KiB, {elapsed:.1} s",
                history.names
            );
        }
    }
    assert!(refused * 20 > transactions, "{refused} of {transactions} were refused");
    // Allow a tenth more, and 1 MiB for the allocator's rounding.
    let (end, limit) = (resident_kib(), early + early / 10 + 1024);
    assert!(end <= limit, "{early} KiB after {settled} transactions, {end} KiB at the end");
    let ports = program.schema.find("place").expect("declared above");
    assert_eq!(
        engine.contents(ports).expect("it is an output").len(),
        PORTS,
        "the state is as large as ever"
    );
}
