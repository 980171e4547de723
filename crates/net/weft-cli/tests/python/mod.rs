//! The API, used by programs that are not ours: validators, a generator of requests, a generated client and gRPC of Python.
//!
//! Each test starts a real daemon with the built-in rules and runs a script of this folder. `cargo xtask test` installs what the scripts
//! import, by `requirements.txt`, into `target/python`. `WEFT_TEST_SEED` and `WEFT_TEST_REQUESTS` say which requests are generated and how many.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Folder, Outcome, finish, root};

mod reference;

/// Whatever is waited for comes within this time.
const DEADLINE: Duration = Duration::from_mins(1);
/// The folder of these tests.
const HERE: &str = "crates/net/weft-cli/tests/python";
/// The command that installs what they need.
const INSTALL: &str = "python3 -m venv target/python && target/python/bin/pip install -r crates/net/weft-cli/tests/python/requirements.txt";

/// Where a controller listens.
enum Listens {
    Tcp,
    Unix,
}

/// A controller with the built-in rules, which ends with the test.
struct Controller {
    folder: Folder,
    process: Child,
    /// The URL of its API over TCP, or the path of its socket.
    address: String,
}

impl Controller {
    fn start(listens: &Listens) -> Controller {
        let folder = Folder::new();
        let socket = folder.path("weft.sock").display().to_string();
        let listen = match listens {
            Listens::Tcp => "127.0.0.1:0".to_owned(),
            Listens::Unix => format!("unix:{socket}"),
        };
        folder.write("weft.toml", format!("state = \"state\"\nlisten = \"{listen}\"\n"));
        let log = fs::File::create(folder.path("log")).unwrap();
        let mut command = folder.command(&["controller", "--config", "weft.toml"]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut controller = Controller { folder, process, address: socket };
        let port = controller.started();
        if let (Listens::Tcp, Some(port)) = (listens, port) {
            controller.address = format!("http://127.0.0.1:{port}");
        }
        controller
    }

    /// Waits until it listens. Returns its port, which the system has chosen.
    fn started(&mut self) -> Option<u16> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains("controller started")) {
                let (_, listen) = line.split_once("listen=127.0.0.1:")?;
                return listen.split(' ').next()?.parse().ok();
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap()
    }

    /// What curl gets over its unix socket.
    #[track_caller]
    fn get(&self, path: &str) -> serde_json::Value {
        let url = format!("http://localhost{path}");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--unix-socket", &self.address, &url]);
        let output = curl.output().expect("curl is installed");
        assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a script of this folder with the address of the controller and these arguments.
    #[track_caller]
    fn serves(&self, script: &str, arguments: &[&str]) -> Outcome {
        let script = root().join(HERE).join(script);
        let mut command = Command::new(python());
        command.arg(script).arg(&self.address).args(arguments).current_dir(self.folder.path(""));
        // What a shell has set for other programs of Python.
        for name in ["PYTHONPATH", "PYTHONHOME", "http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("PATH", path());
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let outcome = finish(child);
        assert_eq!(outcome.status, Some(0), "{}\n{}\nlog: {}", outcome.stdout, outcome.stderr, self.log());
        outcome
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The folder of the programs that are installed for these tests.
fn programs() -> PathBuf {
    let weft = Path::new(env!("CARGO_BIN_EXE_weft"));
    weft.parent().and_then(Path::parent).unwrap().join("python/bin")
}

/// The interpreter that has what the scripts import.
#[track_caller]
fn python() -> PathBuf {
    let python = programs().join("python");
    assert!(
        python.exists(),
        "{} does not exist; `cargo xtask test` makes it. By hand, in the folder of the repository:\n\n    {INSTALL}\n",
        python.display()
    );
    python
}

/// `PATH`, with the programs of these tests first.
pub(crate) fn path() -> String {
    format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn validators_accept_the_description_and_the_schemas() {
    let controller = Controller::start(&Listens::Tcp);
    let outcome = controller.serves("description.py", &[]);
    println!("{}", outcome.stdout);
}

/// A number that the environment can set.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// The requests of a short run.
const REQUESTS: u64 = 2000;

#[test]
fn generated_requests_are_answered_as_described() {
    let seed = number("WEFT_TEST_SEED", 1);
    let is_quick = std::env::var_os("WEFT_TEST_QUICK").is_some();
    let requests = number("WEFT_TEST_REQUESTS", if is_quick { REQUESTS / 10 } else { REQUESTS });
    println!("seed {seed}, {requests} requests; `WEFT_TEST_SEED={seed}` generates the same ones");
    let controller = Controller::start(&Listens::Tcp);
    let outcome = controller.serves("generated_requests.py", &[&seed.to_string(), &requests.to_string()]);
    println!("{}", outcome.stdout);
}

#[test]
fn a_generated_client_changes_objects() {
    for listens in [Listens::Tcp, Listens::Unix] {
        let controller = Controller::start(&listens);
        let outcome = controller.serves("generated_client.py", &[]);
        println!("{}", outcome.stdout);
    }
}

#[test]
fn grpc_of_python_finds_the_service_and_its_health() {
    for listens in [Listens::Tcp, Listens::Unix] {
        let controller = Controller::start(&listens);
        let outcome = controller.serves("grpc_client.py", &[]);
        println!("{}", outcome.stdout);
    }
}
