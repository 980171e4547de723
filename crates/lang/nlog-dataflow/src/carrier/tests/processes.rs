//! Workers in several processes: this test binary starts itself again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::super::{Carrier, Processes, StartError, hostfile, start};
use super::{Bytes, Fault, Log, Toy, run_fault, run_rounds, serve};

/// Set only for a helper process: what it is, and the addresses of all processes.
const ROLE: &str = "NLOG_TEST_CARRIER_ROLE";
const ADDRESSES: &str = "NLOG_TEST_CARRIER_ADDRESSES";

/// The number of workers of each process.
const WORKERS: usize = 2;

fn identity(program: &str) -> Vec<(String, String)> {
    vec![("program".to_owned(), program.to_owned())]
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one").to_string();
    (listener, address)
}

fn begin(processes: Processes, log: &Log) -> Result<Carrier<Toy>, StartError> {
    let log = Arc::clone(log);
    start(WORKERS, Some(processes), Arc::new(Bytes), move |port| serve(port, Arc::clone(&log)))
}

/// Another process.
struct Helper(Child);

impl Helper {
    fn start(test: &str, role: &str, addresses: &[String]) -> Self {
        let path = concat!(module_path!(), "::");
        // The first part is the name of the crate, which the test harness omits.
        let (_, path) = path.split_once("::").expect("a path within the crate");
        let mut command = Command::new(std::env::current_exe().expect("a test runs from a file"));
        command.args(["--exact", &format!("{path}{test}"), "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(ADDRESSES, addresses.join(" "));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Helper(command.spawn().expect("it starts as this one did"))
    }

    /// Waits for the end of the process. Returns whether it succeeded, and its output.
    fn wait(mut self) -> (bool, String) {
        let mut said = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut said).expect("it speaks text");
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut said).expect("it speaks text");
        }
        (self.0.wait().expect("it was started").success(), said)
    }
}

/// The process of this test is number 0, and a helper is number 1.
fn with_helper(log: &Log) -> (Carrier<Toy>, Helper) {
    let (listener, address) = listen();
    let addresses = vec![address, "127.0.0.1:0".to_owned()];
    let helper = Helper::start("is_process_1", "this one", &addresses);
    let processes =
        Processes { listener: Some(listener), ..Processes::new(0, addresses).alike(identity("this one")) };
    (begin(processes, log).unwrap_or_else(|error| panic!("{error}")), helper)
}

fn helper_settings() -> (String, Vec<String>) {
    let role = std::env::var(ROLE).expect("started by a test");
    let addresses = std::env::var(ADDRESSES).expect("started by a test");
    (role, addresses.split(' ').map(str::to_owned).collect())
}

#[test]
#[ignore = "a helper process, started by with_helper"]
fn is_process_1() {
    let (program, addresses) = helper_settings();
    let log = Log::default();
    let mut carrier = match begin(Processes::new(1, addresses).alike(identity(&program)), &log) {
        Ok(carrier) => carrier,
        Err(error) => {
            println!("\n{error}");
            std::process::exit(1);
        }
    };
    let port = carrier.port().clone();
    let served = carrier.block_on(serve(port.clone(), log));
    drop(carrier);
    if served.is_err() {
        println!("\n{}", port.why());
        std::process::exit(1);
    }
}

/// Prints its address, and has a worker of its own fail.
#[test]
#[ignore = "a helper process, started by a_process_0_that_is_killed_ends_the_others"]
fn is_process_0() {
    let (listener, address) = listen();
    println!("\nat {address}");
    let (_, mut addresses) = helper_settings();
    addresses[0] = address;
    let processes =
        Processes { listener: Some(listener), ..Processes::new(0, addresses).alike(identity("this one")) };
    let mut carrier = begin(processes, &Log::default()).unwrap_or_else(|error| panic!("{error}"));
    run_fault(&mut carrier, 1, Fault::IsKilled);
}

#[test]
fn processes_exchange_messages_and_end() {
    let log = Log::default();
    let (mut carrier, helper) = with_helper(&log);
    let port = carrier.port().clone();
    assert_eq!((port.me(), port.peers()), (0, 2 * WORKERS));
    assert_eq!((port.is_local(1), port.is_local(2)), (true, false));
    let large = Arc::new((0..1_000_000).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
    let run = carrier.block_on(async {
        run_rounds(&port, 50).await?;
        for size in [0, 1, (1 << 18) - 3, 1 << 18, large.len()] {
            let sent = Arc::new(large[..size].to_vec());
            port.broadcast(Toy::Return(Arc::clone(&sent)))?;
            for from in 1..port.peers() {
                assert!(
                    port.receive(from).await? == Toy::Returned(Arc::clone(&sent)),
                    "{size} bytes of {from}"
                );
            }
        }
        run_rounds(&port, 3).await
    });
    run.unwrap_or_else(|_| panic!("{}", port.why()));
    drop(carrier);
    let (well, said) = helper.wait();
    assert!(well, "{said}");
    assert_eq!(super::entries(&log), ["ended well"; WORKERS - 1]);
}

#[test]
fn a_process_that_is_killed_ends_the_others() {
    for worker in [2, 3] {
        let log = Log::default();
        let (mut carrier, helper) = with_helper(&log);
        let why = run_fault(&mut carrier, worker, Fault::IsKilled);
        assert!(why.starts_with("process 1 (127.0.0.1:0) disconnected: "), "{why}");
        drop(carrier);
        assert_eq!(super::entries(&log), [why], "the other worker says it too");
        assert!(!helper.wait().0);
    }
}

#[test]
fn a_process_0_that_is_killed_ends_the_others() {
    let mut process_0 = Helper::start("is_process_0", "", &[String::new(), "127.0.0.1:0".to_owned()]);
    let mut lines = BufReader::new(process_0.0.stdout.take().expect("it is piped")).lines();
    let address = loop {
        let line = lines.next().expect("it says it").expect("it speaks text");
        if let Some(address) = line.strip_prefix("at ") {
            break address.to_owned();
        }
    };
    let process_1 = Helper::start("is_process_1", "this one", &[address.clone(), "127.0.0.1:0".to_owned()]);
    let (well, said) = process_1.wait();
    assert!(!well && said.contains(&format!("\nprocess 0 ({address}) disconnected: ")), "{said}");
    assert!(!process_0.wait().0);
}

#[test]
fn a_worker_that_fails_in_another_process_is_named() {
    let faults = [
        (Fault::Panics, "worker 3 of process 1 (127.0.0.1:0) panicked: boom"),
        (Fault::Ends, "worker 3 of process 1 (127.0.0.1:0) ended before worker 0"),
        (Fault::SendsWrong, "worker 3 of process 1 (127.0.0.1:0) sent an invalid message: unlucky"),
    ];
    for (fault, why) in faults {
        let log = Log::default();
        let (mut carrier, helper) = with_helper(&log);
        assert_eq!(run_fault(&mut carrier, 3, fault), why);
        drop(carrier);
        let (well, said) = helper.wait();
        assert!(!well && said.contains(why), "{said}");
    }
}

#[test]
fn a_caller_that_panics_ends_the_other_process() {
    let helper = std::thread::spawn(|| {
        let (mut carrier, helper) = with_helper(&Log::default());
        let port = carrier.port().clone();
        carrier.block_on(run_rounds(&port, 2)).expect("nobody is lost");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _carrier = carrier;
            panic!("this test's own panic");
        }));
        assert!(outcome.is_err());
        helper
    });
    let (well, said) = helper.join().expect("the panic was caught").wait();
    assert!(!well && said.contains("worker 0 of process 0 (127.0.0.1:"), "{said}");
}

#[test]
fn another_identity_is_an_error_for_both() {
    let (listener, address) = listen();
    let addresses = vec![address.clone(), "127.0.0.1:0".to_owned()];
    let helper = Helper::start("is_process_1", "another one", &addresses);
    let processes =
        Processes { listener: Some(listener), ..Processes::new(0, addresses).alike(identity("this one")) };
    let error = begin(processes, &Log::default()).err().expect("they differ").to_string();
    let expected = "process 1 (127.0.0.1:0) has program another one, but this process has this one; start all \
                    processes alike";
    assert_eq!(error, expected);
    let (well, said) = helper.wait();
    assert!(!well && said.contains(&format!("process 0 ({address}) has program this one")), "{said}");
}

#[test]
fn a_process_that_does_not_come_is_named() {
    let brief = |process, addresses| Processes {
        patience: Duration::from_millis(20),
        ..Processes::new(process, addresses).alike(Vec::new())
    };
    let (listener, address) = listen();
    // Whoever says something else is nobody.
    let mut noise = TcpStream::connect(&address).expect("it listens");
    noise.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it listens");
    let addresses = vec![address.clone(), "elsewhere:1".to_owned()];
    let processes = Processes { listener: Some(listener), ..brief(0, addresses) };
    let error = begin(processes, &Log::default()).err().expect("nobody comes").to_string();
    assert!(error.starts_with("process 1 (elsewhere:1) did not connect within 0 seconds"), "{error}");
    assert_eq!(noise.read(&mut [0; 8]).unwrap_or(0), 0, "noise is not answered");

    let (gone, address) = listen();
    drop(gone);
    let error = begin(brief(1, vec![address.clone(), "127.0.0.1:0".to_owned()]), &Log::default()).err();
    let error = error.expect("nobody is there").to_string();
    assert!(
        error.starts_with(&format!("process 0 ({address}) did not connect within 0 seconds (")),
        "{error}"
    );
}

#[test]
fn an_address_in_use_is_named() {
    let (_listener, address) = listen();
    let error = begin(Processes::new(0, vec![address.clone()]).alike(Vec::new()), &Log::default()).err();
    let error = error.expect("it is in use").to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: Address already in use")), "{error}");
    let error = begin(Processes::new(2, vec![address]).alike(Vec::new()), &Log::default()).err();
    assert_eq!(error, Some(StartError::NoAddress(2, 1)));
}

#[test]
fn a_host_file_has_a_line_for_each_process() {
    let text = "one:2101\n\n two:2102 \nthree:2103\n";
    assert_eq!(hostfile(text, 2), Ok(vec!["one:2101".to_owned(), "two:2102".to_owned()]));
    assert_eq!(hostfile(text, 4), Err("it has 3 addresses, but there are 4 processes".to_owned()));
    for wrong in ["two", "two:", ":2102", "two:99999"] {
        let error = format!("line 2 is `{wrong}`, but must be `host:port`");
        assert_eq!(hostfile(&format!("one:2101\n{wrong}\n"), 2), Err(error));
    }
}
