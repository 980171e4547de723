//! Workers of two processes, which are threads here, each with symbols of its own.

use std::net::TcpListener;
use std::thread;

use nlog_data::{Evaluator as _, Transaction, Value};

use super::*;
use crate::carrier::Processes;
use crate::dataflow::{Dataflow, Options, start};

/// A value of `on` makes many others, which are in use only at the worker that has its port.
const TEXT: &str = "
    input table on(port: string, value: string) key(port); input table part(name: string);
    table made(port: string, value: string); output table many(port: string, n: int);
    made(port, value ++ name) :- on(port, value), part(name);
    many(port, count(value)) :- made(port, value);";

/// The values that one row of `on` makes.
const PARTS: usize = 64;

#[test]
fn each_process_forgets_the_values_that_are_no_longer_in_use() {
    let sources = nlog::Sources::from_texts([("test.nlog", TEXT)]);
    let program = nlog::compile(&sources).program.expect("it compiles");
    let find = |name| program.schema.find(name).expect("the test declares it");
    let (on, part) = (find("on"), find("part"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let first = listener.local_addr().expect("it has one").to_string();
    let addresses = vec![first, "127.0.0.1:0".to_owned()];
    let elsewhere = Arc::new(Symbols::of_several_processes());
    let other = {
        let (program, symbols, addresses) = (Arc::clone(&program), Arc::clone(&elsewhere), addresses.clone());
        thread::spawn(move || {
            let processes = Some(Processes::new(1, addresses));
            let mut carrier =
                start(&program, &Options::default(), processes, &symbols).expect("they connect");
            let port = carrier.port().clone();
            let member = Member { program, symbols, attribute: false, emit: None };
            let _ended = carrier.block_on(member.serve(port));
        })
    };
    let processes = Processes::new(0, addresses).listening(listener);
    let mut engine =
        Dataflow::across(Arc::clone(&program), Options::default(), processes).expect("they connect");
    let text = |text: String| Value::from(text.as_str());
    let mut transaction = Transaction::default();
    transaction.insert.insert(part, (0..PARTS).map(|at| vec![text(format!("-{at}"))]).collect());
    engine.commit(&transaction).expect("nothing is refused");
    // The other process has some of the ports.
    let mut most = [0, 0];
    for port in 0..8 {
        for round in 0..16 {
            let row = vec![text(format!("p{port}")), text(format!("v{round}"))];
            let mut transaction = Transaction::default();
            transaction.insert.insert(on, vec![row.clone()]);
            engine.commit(&transaction).expect("nothing is refused");
            let mut transaction = Transaction::default();
            transaction.delete.insert(on, vec![row]);
            let delta = engine.commit(&transaction).expect("nothing is refused").delta;
            assert_eq!(delta.tables.len(), 1, "the group is gone");
            let now = [engine.core.state.symbols.len(), elsewhere.len()];
            most = [most[0].max(now[0]), most[1].max(now[1])];
        }
    }
    // Those of `part`, and the values of two rows at most.
    assert!(most.iter().all(|most| *most < 4 * PARTS), "up to {most:?} symbols");
    drop(engine);
    other.join().expect("the other process ends well");
}
