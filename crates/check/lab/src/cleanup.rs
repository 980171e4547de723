//! Removes labs, including those of which only remains are known.
//!
//! The state file may be incomplete, because a crash can happen between any two steps. Therefore the kernel decides: every
//! namespace with the lab's prefix belongs to the lab, and so does every process in such a namespace. TAP devices, veth
//! pairs and bridges end with their namespace, so daemons may simply be killed.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::command::{run_with_input, tool, wait_for};
use crate::process::{alive, kill, processes, runs_in};
use crate::registry::{self, Claim, lab_of};
use crate::state::State;
use crate::{Error, Lab, Vswitch, guest, physical};

/// The folder, in that of a lab, of a controller that lives and ends with the lab.
pub const CONTROLLER: &str = "controller";
/// How long killed processes may take to end.
const DEADLINE: Duration = Duration::from_mins(1);

/// Removes every lab whose owner died, and namespaces of labs of which nothing else remains. Labs of live processes and labs
/// kept on purpose stay. Returns the names of the labs removed.
pub fn sweep() -> Result<Vec<String>, Error> {
    // In this order: a lab's folder is made before its first namespace and removed after its last.
    let namespaces = registry::namespaces()?;
    let mut removed = Vec::new();
    for name in registry::names()? {
        let kept = || State::load(&name).is_ok_and(|state| state.kept);
        // A stray file in the registry belongs to no lab.
        if registry::check_name("lab name", &name).is_err() || kept() {
            continue;
        }
        let claim = match Claim::take_existing(&name) {
            Ok(Some(claim)) => claim,
            Ok(None) | Err(Error::InUse { .. }) => continue,
            Err(error) => return Err(error),
        };
        // Meanwhile, its owner may have kept it on purpose.
        if !kept() {
            remove_all(&name, claim)?;
            removed.push(name);
        }
    }
    for namespace in namespaces {
        let Some(name) = lab_of(&namespace).filter(|name| registry::check_name("lab name", name).is_ok())
        else {
            continue;
        };
        let orphan = registry::namespace_file(&namespace).exists() && !registry::folder(name).exists();
        match orphan.then(|| Lab::destroy(name)).transpose() {
            Ok(Some(true)) => removed.push(name.to_owned()),
            // Another sweep is removing it.
            Ok(_) | Err(Error::InUse { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// Removes the lab and, last, the folder that represents it.
pub(crate) fn remove_all(name: &str, claim: Claim) -> Result<(), Error> {
    remove_parts(name)?;
    let folder = registry::folder(name);
    std::fs::remove_dir_all(&folder).map_err(Error::io("remove", folder))?;
    // Held until here, so that nobody builds a lab of this name during the removal.
    drop(claim);
    Ok(())
}

/// Removes all processes, namespaces and folders of a lab, except for the claim's folder.
pub(crate) fn remove_parts(name: &str) -> Result<(), Error> {
    let state = State::load(name).ok();
    let vswitches = state.as_ref().map(vswitches).unwrap_or_default();
    let mut namespaces = registry::namespaces()?;
    namespaces.retain(|namespace| lab_of(namespace) == Some(name));
    let controller = state.as_ref().map(|state| state.run_dir.join(CONTROLLER));
    end_processes(name, &vswitches, controller.as_deref(), &namespaces)?;
    delete_namespaces(name, &namespaces)?;
    for vswitch in &vswitches {
        remove_folder(&vswitch.run_dir)?;
        // A folder that the caller chose is removed only if it is empty.
        if let Some(run_dir) = vswitch.run_dir.parent().filter(|run_dir| *run_dir != registry::folder(name)) {
            let _ = std::fs::remove_dir(run_dir);
        }
    }
    remove_folder_entries(&registry::folder(name))
}

/// Every Open vSwitch that exists in a lab or was planned for it.
pub(crate) fn vswitches(state: &State) -> Vec<Vswitch> {
    let hosts = state.hosts.iter().map(|host| Ok(host.vswitch.clone()));
    let guests = state.vms.values().filter(|vm| vm.trunk).map(|vm| guest::vswitch(vm, state));
    let physical = (!state.physical.is_empty()).then(|| physical::vswitch(state));
    // If the folder's name is too long, nothing was made.
    hosts.chain(guests).chain(physical).filter_map(Result::ok).collect()
}

fn end_processes(
    name: &str,
    vswitches: &[Vswitch],
    controller: Option<&Path>,
    namespaces: &[String],
) -> Result<(), Error> {
    let inodes: BTreeSet<(u64, u64)> = namespaces
        .iter()
        .filter_map(|namespace| std::fs::metadata(registry::namespace_file(namespace)).ok())
        .map(|meta| (meta.dev(), meta.ino()))
        .collect();
    let ours = |pid: u32| {
        let inside = std::fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|meta| inodes.contains(&(meta.dev(), meta.ino())));
        let daemon = || {
            let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            match program.trim() {
                "ovs-vswitchd" | "ovsdb-server" => {
                    vswitches.iter().any(|vswitch| runs_in(pid, &vswitch.run_dir))
                }
                "weft" => controller.is_some_and(|folder| runs_in(pid, folder)),
                _ => false,
            }
        };
        pid != std::process::id() && alive(pid) && (inside || daemon())
    };
    wait_for(&format!("lab {name}"), "the end of its processes", DEADLINE, || {
        let left: Vec<u32> = processes()?.into_iter().filter(|pid| ours(*pid)).collect();
        left.iter().copied().for_each(kill);
        Ok(left.is_empty().then_some(()))
    })
}

fn delete_namespaces(name: &str, namespaces: &[String]) -> Result<(), Error> {
    if namespaces.is_empty() {
        return Ok(());
    }
    let mut command = tool("ip");
    command.args(["-force", "-batch", "-"]);
    let lines: Vec<String> = namespaces.iter().map(|namespace| format!("netns del {namespace}")).collect();
    let result = run_with_input(&format!("lab {name}"), command, Some(&(lines.join("\n") + "\n")));
    // A namespace that another process deleted meanwhile is no failure; one that still exists is.
    if namespaces.iter().any(|namespace| registry::namespace_file(namespace).exists()) {
        result.map(drop)
    } else {
        Ok(())
    }
}

pub(crate) fn remove_folder(folder: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Empties the lab's folder except for the file with the claim's lock.
fn remove_folder_entries(folder: &Path) -> Result<(), Error> {
    let entries = std::fs::read_dir(folder).map_err(Error::io("read", folder))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            remove_folder(&path)?;
        } else if path.file_name().is_some_and(|name| name != "owner.lock") {
            std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}
