//! Work of this process in the network namespace of a virtual machine or a host, such as opening sockets there.
//!
//! A thread cannot leave a namespace again, so each piece of work runs on a separate thread. A socket stays in the
//! namespace in which it was opened, whichever thread uses it.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;

use crate::registry::namespace_file;
use crate::{Error, Host, Lab};

impl Lab {
    /// Runs `work` in a virtual machine's network namespace, on a separate thread, and waits for it.
    pub fn inside<T: Send>(&self, vm: &str, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        inside(&self.vm(vm)?.namespace, work)
    }
}

pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let path = namespace_file(namespace);
    let file = std::fs::File::open(&path).map_err(Error::io("read", &path))?;
    let entered = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    entered.map_err(|error: rustix::io::Errno| Error::io("enter", &path)(error.into()))
}

impl Host {
    /// Runs `work` in the host's network namespace, on a separate thread, and waits for it.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        inside(&self.namespace, work)
    }
}
