//! `weft controller` as a process that a test kills and starts again.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use weft_client::Client;

use super::Folder;
use super::web::Web;

/// Whatever is waited for comes within this time.
pub(crate) const DEADLINE: Duration = Duration::from_mins(3);

/// The number in an environment variable, which makes a run longer or repeats it.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// The seed of a run: `WEFT_TEST_SEED`, or one that no earlier run has used.
pub(crate) fn seed() -> u64 {
    number("WEFT_TEST_SEED")
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

/// A controller that is killed with the test.
pub(crate) struct Controller(Child);

impl Controller {
    /// Where controllers of this folder listen.
    pub(crate) fn socket(folder: &Folder) -> PathBuf {
        folder.path("weft.sock")
    }

    /// The same, as `--controller` and the client take it.
    pub(crate) fn endpoint(folder: &Folder) -> String {
        format!("unix:{}", Self::socket(folder).display())
    }

    /// Starts one on the state that the folder has.
    pub(crate) fn start(folder: &Folder) -> Controller {
        Self::start_with(folder, "")
    }

    /// The same, with more lines in its configuration.
    pub(crate) fn start_with(folder: &Folder, more: &str) -> Controller {
        Self::configure(folder, more);
        Self::spawn(folder, &[])
    }

    /// The same, with variables that systemd sets.
    pub(crate) fn start_as_service(folder: &Folder, variables: &[(&str, &str)]) -> Controller {
        Self::configure(folder, "");
        Self::spawn(folder, variables)
    }

    fn spawn(folder: &Folder, variables: &[(&str, &str)]) -> Controller {
        let mut command = folder.command(&["controller", "--config", "weft.toml"]);
        command.envs(variables.iter().copied());
        let log = fs::File::create(folder.path("log")).unwrap();
        Controller(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// Writes its configuration, with these lines after the first two.
    pub(crate) fn configure(folder: &Folder, more: &str) {
        let listen = Self::endpoint(folder);
        folder.write("weft.toml", format!("state = \"state\"\nlisten = \"{listen}\"\n{more}"));
    }

    /// Lets it read its configuration again.
    pub(crate) fn hang_up(&self) {
        kill_process(Pid::from_child(&self.0), Signal::HUP).unwrap();
    }

    /// A client, once it answers.
    pub(crate) async fn client(&mut self, folder: &Folder) -> Client {
        let endpoint = Self::endpoint(folder);
        self.once(folder, async || Client::connect(&endpoint).await.ok()).await
    }

    /// A connection of HTTP, once it listens.
    pub(crate) async fn web(&mut self, folder: &Folder) -> Web {
        let socket = Self::socket(folder);
        self.once(folder, async || Web::connect(&socket).await.ok()).await
    }

    /// Tries until there is a result.
    async fn once<T>(&mut self, folder: &Folder, tried: impl AsyncFn() -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(result) = tried().await {
                return result;
            }
            let ended = self.0.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}: {}", Self::log(folder));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// What the last one logged.
    pub(crate) fn log(folder: &Folder) -> String {
        fs::read_to_string(folder.path("log")).unwrap()
    }

    /// Ends it in the middle of whatever it does, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Lets it end in order, and waits until it is gone.
    pub(crate) fn terminate(self) {
        self.terminate_after(|| ());
    }

    /// The same; what happens meanwhile comes before its end is awaited.
    pub(crate) fn terminate_after(mut self, meanwhile: impl FnOnce()) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        meanwhile();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
