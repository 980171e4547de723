//! A lab as a whole: the underlay and its hosts, from creation to removal.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::command::{in_parallel, ip_batch, run, tool, tool_in};
use crate::registry::{self, Claim, Kind, Ownership, check_name, namespace};
use crate::state::{State, Vm};
use crate::{Error, Host, HostSpec, cleanup, physical, preflight};

/// Hosts are made by this many threads; most of the time goes to waiting for daemons.
const BUILDERS: usize = 4;

/// A lab to make.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its name, unique on this machine: 1 to 24 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Where the hosts' folders go; `None` is `/run/weft-lab/NAME`. Keep it short: sockets are made in it.
    pub run_dir: Option<PathBuf>,
    /// The hosts.
    pub hosts: Vec<HostSpec>,
    /// MTU of the underlay, bytes. Machines get 100 less by default.
    pub underlay_mtu: u16,
    /// Prefix length of the subnet in which the hosts' addresses lie.
    pub underlay_prefix: u8,
    /// Make `br-int` on each host; else that is left to a controller.
    pub integration_bridge: bool,
    /// Physical networks that each host has a bridge on.
    pub physical: Vec<String>,
}

impl Options {
    /// A lab without hosts, with an underlay of 1500 bytes and a /24.
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

    /// Adds `count` hosts `hv1`, `hv2` ... at 172.31.0.1 and up; up to 250.
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

/// A running lab. The one that [`Lab::create`] returns owns it and takes it down when dropped, unless
/// [`Lab::keep`] was called; one from [`Lab::open`] is a visitor.
///
/// All methods may be called from several threads.
#[derive(Debug)]
pub struct Lab {
    name: String,
    claim: Option<Claim>,
}

impl Lab {
    /// Makes a lab. What a dead owner left under this name is removed first; a live owner, or a lab left
    /// running on purpose, is an error that says what to do. If a step fails, everything made is removed.
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
        // From here on dropping the lab removes what was made.
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

    /// A lab that runs: left so by [`Lab::keep`], or owned by a live process.
    pub fn open(name: &str) -> Result<Lab, Error> {
        let state = State::load(name)?;
        if registry::ownership(name, Some(&state))? == Ownership::Abandoned {
            return Err(Error::Abandoned(name.to_owned()));
        }
        Ok(Lab { name: name.to_owned(), claim: None })
    }

    /// Takes down a lab by name, kept or abandoned; [`Error::InUse`] if a live process owns it. Says
    /// whether there was anything to take down.
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

    /// What is on disk about it now.
    pub fn state(&self) -> Result<State, Error> {
        State::load(&self.name)
    }

    /// Gives up ownership: the lab goes on when this process ends, until [`Lab::destroy`].
    pub fn keep(mut self) -> Result<Lab, Error> {
        State::update(&self.name, |state| {
            state.kept = true;
            Ok(())
        })?;
        self.claim = None;
        Ok(self)
    }

    /// Takes the lab down now and says whether that worked; dropping does the same in silence. A visitor
    /// cannot: [`Error::InUse`], or use [`Lab::destroy`].
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

    /// Tells every host the MAC behind every other's tunnel address. Otherwise the first packet to a host
    /// is lost while its address is resolved; after this a test may demand that none is. A restart of
    /// `ovs-vswitchd` forgets it.
    pub fn warm_underlay(&self) -> Result<(), Error> {
        let hosts = self.hosts()?;
        let warmed = in_parallel(&hosts, BUILDERS, |host| {
            let mut peers = hosts.iter().filter(|peer| peer.name != host.name);
            peers.try_for_each(|peer| host.learn_neighbour(peer))
        });
        warmed.into_iter().collect()
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
            // There is nobody to return it to; what is left is swept by the next lab of this name.
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
    // Faults of the hosts' specification are better found before anything is made.
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
