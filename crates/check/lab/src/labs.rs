//! A lab as a whole: the underlay and its hosts, from creation to removal.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::command::{in_parallel, ip_batch, run, tool, tool_in};
use crate::registry::{self, Claim, Kind, Ownership, check_name, namespace};
use crate::state::{State, Vm};
use crate::{Error, Host, HostSpec, cleanup, physical, preflight};

/// Threads that make hosts. Most of their time is spent waiting for daemons.
const BUILDERS: usize = 4;

/// A lab to make.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, unique on this machine: 1 to 24 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// The folder for the hosts' folders; `None` is `/run/weft-lab/NAME`. Keep it short, because it holds sockets.
    pub run_dir: Option<PathBuf>,
    /// The hosts.
    pub hosts: Vec<HostSpec>,
    /// MTU of the underlay, bytes. The default MTU of machines is 100 less.
    pub underlay_mtu: u16,
    /// Prefix length of the subnet of the hosts' tunnel addresses.
    pub underlay_prefix: u8,
    /// Whether to make `br-int` on each host. Otherwise a controller makes it.
    pub integration_bridge: bool,
    /// Physical networks. Each host has a bridge for each of them.
    pub physical: Vec<String>,
}

impl Options {
    /// A lab without hosts, with an underlay MTU of 1500 bytes and a /24 subnet.
    pub fn new(name: impl Into<String>) -> Self {
        Options {
            name: name.into(),
            run_dir: None,
            hosts: Vec::new(),
            underlay_mtu: 1500,
            underlay_prefix: 24,
            integration_bridge: false,
            physical: Vec::new(),
        }
    }

    /// Adds a host.
    pub fn host(mut self, host: HostSpec) -> Self {
        self.hosts.push(host);
        self
    }

    /// Adds `count` hosts `hv1`, `hv2`, ... with addresses from 172.31.0.1 on; at most 250.
    pub fn hosts(mut self, count: u8) -> Self {
        self.hosts.extend((1..=count).map(|n| HostSpec::new(format!("hv{n}"), [172, 31, 0, n])));
        self
    }

    /// Adds a physical network; each host gets a bridge `br-NAME` on it.
    pub fn physical(mut self, network: impl Into<String>) -> Self {
        self.physical.push(network.into());
        self
    }

    /// Makes `br-int` on each host.
    pub fn with_integration_bridge(mut self) -> Self {
        self.integration_bridge = true;
        self
    }
}

/// A running lab. The value that [`Lab::create`] returns owns the lab and removes it when dropped, unless [`Lab::keep`] was
/// called. A value from [`Lab::open`] is a visitor.
///
/// All methods may be called from several threads.
#[derive(Debug)]
pub struct Lab {
    name: String,
    claim: Option<Claim>,
}

impl Lab {
    /// Makes a lab. Remains of a dead owner under this name are removed first. A live owner, or a lab left running on
    /// purpose, is an error with a remedy. If a step fails, everything made so far is removed.
    pub fn create(options: Options) -> Result<Lab, Error> {
        preflight::tools()?;
        check_name("lab name", &options.name)?;
        let state = plan(&options)?;
        let claim = Claim::take(&options.name)?;
        if State::load(&options.name).is_ok_and(|old| old.kept) {
            return Err(Error::Kept(options.name));
        }
        cleanup::remove_parts(&options.name)?;
        state.save()?;
        // From here on, dropping the lab removes everything made so far.
        let lab = Lab { name: options.name, claim: Some(claim) };
        build_underlay(&state)?;
        std::fs::create_dir_all(&state.run_dir).map_err(Error::io("create", &state.run_dir))?;
        if !state.physical.is_empty() {
            physical::build(&state)?;
        }
        for spec in &options.hosts {
            lab.register_host(spec)?;
        }
        let built = in_parallel(&options.hosts, BUILDERS, |spec| lab.build_host(&spec.name));
        built.into_iter().collect::<Result<(), Error>>()?;
        Ok(lab)
    }

    /// Makes sure that [`Lab::create`] can make a lab of this name, before anything is done for it.
    pub fn check_free(name: &str) -> Result<(), Error> {
        let state = match State::load(name) {
            Err(Error::NoLab(_)) => return Ok(()),
            other => other.ok(),
        };
        match registry::ownership(name, state.as_ref())? {
            Ownership::Kept => Err(Error::Kept(name.to_owned())),
            Ownership::Process(pid) => Err(Error::InUse { lab: name.to_owned(), pid }),
            Ownership::Abandoned => Ok(()),
        }
    }

    /// Opens a running lab: one kept by [`Lab::keep`], or one that a live process owns.
    pub fn open(name: &str) -> Result<Lab, Error> {
        let state = State::load(name)?;
        if registry::ownership(name, Some(&state))? == Ownership::Abandoned {
            return Err(Error::Abandoned(name.to_owned()));
        }
        Ok(Lab { name: name.to_owned(), claim: None })
    }

    /// Removes a kept or abandoned lab by name; [`Error::InUse`] if a live process owns it. Returns whether there was
    /// anything to remove.
    pub fn destroy(name: &str) -> Result<bool, Error> {
        check_name("lab name", name)?;
        let of_lab = |namespace: &String| registry::lab_of(namespace) == Some(name);
        let existed = registry::folder(name).exists() || registry::namespaces()?.iter().any(of_lab);
        if existed {
            let claim = Claim::take(name)?;
            cleanup::remove_all(name, claim)?;
        }
        Ok(existed)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its state on disk now.
    pub fn state(&self) -> Result<State, Error> {
        State::load(&self.name)
    }

    /// Gives up ownership: the lab keeps running when this process ends, until [`Lab::destroy`].
    pub fn keep(mut self) -> Result<Lab, Error> {
        State::update(&self.name, |state| {
            state.kept = true;
            Ok(())
        })?;
        self.claim = None;
        Ok(self)
    }

    /// Removes the lab now and reports errors; dropping it does the same but ignores them. A visitor can only remove a kept
    /// lab; otherwise the error is [`Error::InUse`].
    pub fn remove(mut self) -> Result<(), Error> {
        match self.claim.take() {
            Some(claim) => cleanup::remove_all(&self.name, claim),
            None => Lab::destroy(&self.name).map(drop),
        }
    }

    /// The hosts, in order of creation.
    pub fn hosts(&self) -> Result<Vec<Host>, Error> {
        Ok(self.state()?.hosts)
    }

    /// A host by name.
    pub fn host(&self, name: &str) -> Result<Host, Error> {
        self.state()?.host(name).cloned()
    }

    /// The machines, by name.
    pub fn vms(&self) -> Result<Vec<Vm>, Error> {
        Ok(self.state()?.vms.into_values().collect())
    }

    /// A machine by name.
    pub fn vm(&self, name: &str) -> Result<Vm, Error> {
        self.state()?.vm(name).cloned()
    }

    /// Adds a host to a running lab.
    pub fn add_host(&self, spec: &HostSpec) -> Result<Host, Error> {
        self.register_host(spec)?;
        self.build_host(&spec.name)?;
        self.host(&spec.name)
    }

    /// The namespace of the cable between the hosts: its bridge is `switch`. A machine in it is no host.
    pub fn underlay_namespace(&self) -> String {
        namespace(self.name(), Kind::Underlay, "")
    }

    /// Enters every host's tunnel address and MAC address in the neighbour tables of all others. Otherwise the first packet
    /// to a host is lost while its address is resolved. A restart of `ovs-vswitchd` clears the table.
    pub fn warm_underlay(&self) -> Result<(), Error> {
        let hosts = self.hosts()?;
        let warmed = in_parallel(&hosts, BUILDERS, |host| {
            let mut peers = hosts.iter().filter(|peer| peer.name != host.name);
            peers.try_for_each(|peer| host.learn_neighbour(peer))
        });
        warmed.into_iter().collect()
    }

    /// Empties every host's datapath cache; see [`crate::Vswitch::flush_datapath`].
    pub fn flush_datapaths(&self) -> Result<(), Error> {
        let flushed = in_parallel(&self.hosts()?, BUILDERS, |host| host.flush_datapath());
        flushed.into_iter().collect()
    }

    fn register_host(&self, spec: &HostSpec) -> Result<(), Error> {
        State::update(&self.name, |state| {
            let planned =
                Host::plan(&state.name, spec, &state.run_dir, state.underlay_prefix, state.underlay_mtu)?;
            if state.hosts.iter().any(|host| host.name == spec.name) {
                let (lab, name) = (state.name.clone(), spec.name.clone());
                return Err(Error::Exists { lab, kind: "host", name });
            }
            if let Some(other) = state.hosts.iter().find(|host| host.ip == spec.ip) {
                let reason = format!("host {} has this tunnel address", other.name);
                return Err(Error::invalid("tunnel address", spec.ip.to_string(), reason));
            }
            state.hosts.push(planned);
            Ok(())
        })
    }

    fn build_host(&self, name: &str) -> Result<(), Error> {
        let state = self.state()?;
        let host = state.host(name)?;
        let number = state.hosts.iter().take_while(|other| other.name != name).count();
        host.build(&namespace(&state.name, Kind::Underlay, ""), number)?;
        physical::join(&state, host, number)?;
        if state.integration_bridge { host.make_integration_bridge() } else { Ok(()) }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take()
            && let Err(error) = cleanup::remove_all(&self.name, claim)
        {
            // A drop cannot return an error. The next lab of this name removes the remains.
            eprintln!("lab {}: {error}", self.name);
        }
    }
}

fn plan(options: &Options) -> Result<State, Error> {
    let mtu = options.underlay_mtu;
    if !(676..=65000).contains(&mtu) {
        return Err(Error::invalid("underlay mtu", mtu.to_string(), "choose 676 to 65000"));
    }
    if !(8..=30).contains(&options.underlay_prefix) {
        let prefix = options.underlay_prefix.to_string();
        return Err(Error::invalid("underlay prefix length", prefix, "choose 8 to 30"));
    }
    let run_dir = options.run_dir.clone().unwrap_or_else(|| registry::folder(&options.name));
    if !run_dir.is_absolute() {
        let reason = "daemons need an absolute path";
        return Err(Error::invalid("run folder", run_dir.to_string_lossy(), reason));
    }
    let state = State {
        name: options.name.clone(),
        run_dir,
        kept: false,
        underlay_mtu: mtu,
        underlay_prefix: options.underlay_prefix,
        integration_bridge: options.integration_bridge,
        hosts: Vec::new(),
        vms: BTreeMap::new(),
        physical: options.physical.clone(),
        next_number: 0,
    };
    physical::check(&state)?;
    // Faults in the hosts' specification are found before anything is made.
    for host in &options.hosts {
        Host::plan(&state.name, host, &state.run_dir, state.underlay_prefix, mtu)?;
    }
    Ok(state)
}

/// One namespace with a kernel bridge: the cable between the hosts.
fn build_underlay(state: &State) -> Result<(), Error> {
    let underlay = namespace(&state.name, Kind::Underlay, "");
    let place = format!("lab {}", state.name);
    let mut add = tool("ip");
    add.args(["netns", "add", &underlay]);
    run(&place, add)?;
    let mut settings = tool_in(&underlay, "sysctl");
    settings.args(["-e", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"]);
    run(&place, settings)?;
    ip_batch(
        &place,
        &underlay,
        &[
            format!("link add name switch mtu {} type bridge mcast_snooping 0", state.underlay_mtu),
            "link set switch up".to_owned(),
        ],
    )
}
