//! A command that watches files, line by line.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use super::Folder;
use super::controller::DEADLINE;

/// Its process ends with this value.
pub(crate) struct Watched {
    child: Child,
    lines: Receiver<String>,
}

impl Watched {
    /// Starts it. What it prints and what it says come in their order of each.
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = folder.interruptible(arguments);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = mpsc::channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stderr.take().unwrap()), Box::new(child.stdout.take().unwrap())];
        for stream in streams {
            let send = send.clone();
            let read = move || {
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
            };
            thread::spawn(read);
        }
        Watched { child, lines }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Reads all lines up to one that, after its indentation, begins like this.
    #[track_caller]
    pub(crate) fn until(&self, wanted: &str) -> String {
        let (end, mut said) = (Instant::now() + DEADLINE, String::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line =
                self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no line `{wanted}` in\n{said}"));
            said += &line;
            said.push('\n');
            if line.trim_start().starts_with(wanted) {
                return said;
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
