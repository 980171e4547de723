//! Workers that exchange toy messages: as threads, as processes, and inside a dataflow.

mod inside_dataflow;
mod processes;
mod threads;

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Carrier, Codec, Lost, Port};

/// A message of the tests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Toy {
    /// Run this many rounds, and answer with the sum of what arrives.
    Rounds(u64),
    /// The same, but a worker does something else instead of its second round.
    Fault(usize, Fault),
    Number(u64),
    /// Return the bytes.
    Return(Arc<Vec<u8>>),
    Returned(Arc<Vec<u8>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Fault {
    Panics,
    Ends,
    IsKilled,
    SendsWrong,
}

/// A number that no codec reads.
const WRONG: u64 = 13;

struct Bytes;

impl Codec<Toy> for Bytes {
    fn encode(&self, body: Toy) -> Result<Vec<u8>, String> {
        postcard::to_allocvec(&body).map_err(|error| error.to_string())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Toy, String> {
        match postcard::from_bytes(bytes) {
            Ok(Toy::Number(WRONG)) => Err("unlucky".to_owned()),
            read => read.map_err(|error| error.to_string()),
        }
    }
}

/// What each worker said at its end.
type Log = Arc<Mutex<Vec<String>>>;

fn entries(log: &Log) -> Vec<String> {
    let mut entries = log.lock().unwrap_or_else(PoisonError::into_inner).clone();
    entries.sort();
    entries
}

fn others(port: &Port<Toy>) -> impl Iterator<Item = usize> + use<> {
    let me = port.me();
    (0..port.peers()).filter(move |worker| *worker != me)
}

/// In each round, each worker sends its number to each other worker and waits for theirs.
async fn rounds(port: &Port<Toy>, count: u64, fault: Option<Fault>) -> Result<u64, Lost> {
    let mut sum = 0;
    for round in 0..count {
        match fault.filter(|_| round == 1) {
            None => port.broadcast(Toy::Number(round * 1000 + port.me() as u64))?,
            Some(Fault::Panics) => panic!("boom"),
            Some(Fault::Ends) => return Ok(0),
            Some(Fault::SendsWrong) => port.broadcast(Toy::Number(WRONG))?,
            Some(Fault::IsKilled) => {
                let me = rustix::process::getpid();
                rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("it is this process");
                std::thread::park();
            }
        }
        for from in others(port) {
            let Toy::Number(number) = port.receive(from).await? else { panic!("not the message of a round") };
            assert_eq!(number, round * 1000 + from as u64, "of this round, and of this worker");
            sum += number;
        }
    }
    Ok(sum)
}

/// What a worker does for worker 0.
async fn serve(port: Port<Toy>, log: Log) -> Result<(), Lost> {
    let served = serve_orders(&port).await;
    let said = if served.is_ok() { "ended well".to_owned() } else { port.why() };
    log.lock().unwrap_or_else(PoisonError::into_inner).push(said);
    served
}

async fn serve_orders(port: &Port<Toy>) -> Result<(), Lost> {
    while let Some(order) = port.rest().await? {
        match order {
            Toy::Rounds(count) => {
                let sum = rounds(port, count, None).await?;
                port.send(0, Toy::Number(sum))?;
            }
            Toy::Fault(worker, fault) => {
                let ends = worker == port.me();
                rounds(port, 3, Some(fault).filter(|_| ends)).await?;
                if ends {
                    return Ok(());
                }
            }
            Toy::Return(bytes) => port.send(0, Toy::Returned(bytes))?,
            other => panic!("{other:?} is no order"),
        }
    }
    Ok(())
}

/// Has all workers run rounds, and checks their sums.
async fn run_rounds(port: &Port<Toy>, count: u64) -> Result<(), Lost> {
    port.broadcast(Toy::Rounds(count))?;
    let own = rounds(port, count, None).await?;
    let of_all = |me: u64| {
        let numbers = (0..count).flat_map(|round| (0..port.peers() as u64).map(move |from| (round, from)));
        numbers.filter(|(_, from)| *from != me).map(|(round, from)| round * 1000 + from).sum::<u64>()
    };
    assert_eq!(own, of_all(0));
    for from in 1..port.peers() {
        assert_eq!(port.receive(from).await?, Toy::Number(of_all(from as u64)));
    }
    Ok(())
}

/// Has a worker fail, and returns what worker 0 says about it.
fn run_fault(carrier: &mut Carrier<Toy>, worker: usize, fault: Fault) -> String {
    let port = carrier.port().clone();
    let lost = carrier.block_on(async {
        port.broadcast(Toy::Fault(worker, fault))?;
        port.broadcast(Toy::Number(0))?;
        let first = port.receive(worker).await;
        // Within a process, what a worker sends before its fault always arrives.
        assert!(!port.is_local(worker) || first == Ok(Toy::Number(worker as u64)), "{}", port.why());
        port.receive(worker).await
    });
    assert_eq!(lost, Err(Lost));
    assert_eq!(carrier.block_on(port.receive(worker)), Err(Lost), "it stays lost");
    assert_eq!(port.send(worker, Toy::Number(0)), Err(Lost));
    port.why()
}
