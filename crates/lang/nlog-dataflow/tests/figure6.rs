//! Figure 6 of the paper: its results, and the agreement of the reference with any number of workers, byte for byte.

use crate::support::{Random, Runs, compile};
use nlog_data::{Tables, Transaction, Value};

const FIGURE_6: &str = include_str!("../../../../examples/figure6.nlog");

fn text(prefix: &str, number: u64) -> Value {
    Value::String(format!("{prefix}{number}").into())
}

fn address(number: u64) -> Value {
    Value::Ip([10, 0, 0, number as u8].into())
}

#[test]
fn two_ports_on_two_hosts_get_two_tunnels_and_their_flows() {
    let program = compile(FIGURE_6);
    let mut runs = Runs::new(&program, &Tables::Outputs, false);
    let line = |text: &str| crate::support::transaction(&program, text);
    let first = line(
        r#"{"insert": {"log_port": [["p1", "s"], ["p2", "s"]], "log_port_presence": [["p1", "h1"], ["p2", "h2"]],
            "hypervisor_locator": [["h1", "10.0.0.1"], ["h2", "10.0.0.2"]], "lport_stage_id": [["p1", 1], ["p2", 26]],
            "log_datapath_encap": [["s", "geneve"]]}}"#,
    );
    assert_eq!(
        runs.commit(&first),
        r#"{"txn":1,"insert":{"ovsdb_tunnel":[["h1","geneve","10.0.0.2"],["h2","geneve","10.0.0.1"]]},"delete":{}}"#
    );
    let port = line(r#"{"insert": {"ovsdb_tport": [["h1", "geneve", "10.0.0.2", 3]]}}"#);
    assert_eq!(
        runs.commit(&port),
        r#"{"txn":2,"insert":{"ovs_flow":[["h1","reg1=0x1a","output:3"]]},"delete":{}}"#
    );
    let moved = line(
        r#"{"delete": {"log_port_presence": [["p2", "h2"]]}, "insert": {"log_port_presence": [["p2", "h1"]]}}"#,
    );
    assert_eq!(
        runs.commit(&moved),
        r#"{"txn":3,"insert":{},"delete":{"ovs_flow":[["h1","reg1=0x1a","output:3"]],"ovsdb_tunnel":[["h1","geneve","10.0.0.2"],["h2","geneve","10.0.0.1"]]}}"#
    );
    let bad = line(
        r#"{"delete": {"log_port_presence": [["p2", "h1"]]},
            "insert": {"log_port_presence": [["p2", "h2"]], "ovsdb_tport": [["h2", "geneve", "10.0.0.1", 65300]]}}"#,
    );
    let refused = runs.commit(&bad);
    assert!(refused.contains(r#""code":"range""#), "{refused}");
    assert!(runs.contents_are_equal());
}

/// Ports appear, move and disappear. Tunnels get their numbers in later transactions, and some of the numbers are
/// invalid.
#[test]
fn random_histories_agree() {
    let program = compile(FIGURE_6);
    let id = |name: &str| program.schema.find(name).expect("Figure 6 has the table");
    for seed in test_random::seeds!("random_histories_agree", 3) {
        let mut random = Random::new(seed);
        let mut runs = Runs::new(&program, &Tables::All, false);
        for step in 0..40 {
            let mut transaction = Transaction::default();
            for _ in 0..random.below(8) {
                let (port, host, switch) = (random.below(12), random.below(5), random.below(4));
                let (table, row) = match random.below(6) {
                    0 => ("log_port", vec![text("p", port), text("s", switch)]),
                    1 => ("log_port_presence", vec![text("p", port), text("h", host)]),
                    2 => ("hypervisor_locator", vec![text("h", host), address(host % 4)]),
                    3 => ("lport_stage_id", vec![text("p", port), Value::Int(port as i64 - 1)]),
                    4 => ("log_datapath_encap", vec![text("s", switch), text("e", host % 2)]),
                    _ => {
                        let number = Value::Int(65270 + random.below(11) as i64);
                        (
                            "ovsdb_tport",
                            vec![text("h", host), text("e", switch % 2), address(port % 4), number],
                        )
                    }
                };
                let side =
                    if random.below(3) == 0 { &mut transaction.delete } else { &mut transaction.insert };
                side.entry(id(table)).or_default().push(row.clone());
                if random.below(2) == 0 {
                    // Make room for the row: delete any row with its key.
                    let there = runs.inputs(id(table));
                    let same_key = there.into_iter().filter(|other| other[0] == row[0]);
                    transaction.delete.entry(id(table)).or_default().extend(same_key);
                }
            }
            let line = runs.commit(&transaction);
            assert!(runs.agreed(), "seed {seed}, step {step}: {line}\n{}", runs.difference());
        }
        assert!(runs.contents_are_equal(), "seed {seed}");
    }
}
