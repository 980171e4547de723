//! Where switches dial in, with OVSDB and with OpenFlow, over TLS. The certificate of a switch names its transport node, and its connection
//! goes to the driver of that node.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mutual_tls::{Credentials, Strangers};
use ovs_driver::Inbound;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio_stream::StreamExt as _;
use tracing::{debug, error, info};

use crate::config::{Listen, SocketMode};
use crate::listener::{BindError, Connection, Listener, Refusals};

/// How switches dial in.
#[derive(Debug)]
pub struct DialIn {
    /// Where the managers of switches lead.
    pub ovsdb: Option<SocketAddr>,
    /// Where the controllers of bridges lead.
    pub openflow: Option<SocketAddr>,
    /// The name or the address of this machine, as switches know it. `None`: the address that it listens at.
    pub advertise: Option<String>,
    /// Hands the connections to drivers.
    pub inbound: Arc<Inbound>,
    /// The threads that serve them.
    pub threads: Handle,
}

/// What switches must be told to dial in, such as `ssl:192.0.2.1:6640`. `None` where none can.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// With OVSDB.
    pub ovsdb: Option<String>,
    /// With OpenFlow.
    pub openflow: Option<String>,
}

/// Bound addresses where switches dial in.
pub(crate) struct Entrances {
    threads: Handle,
    inbound: Arc<Inbound>,
    bound: Vec<(Listener, String)>,
    pub(crate) targets: Targets,
}

impl Entrances {
    /// Binds the addresses.
    pub(crate) async fn bind(dial_in: DialIn) -> Result<Entrances, BindError> {
        let DialIn { ovsdb, openflow, advertise, inbound, threads } = dial_in;
        let mut entrances = Entrances { threads, inbound, bound: Vec::new(), targets: Targets::default() };
        entrances.targets.ovsdb = entrances.enter(ovsdb, advertise.as_deref()).await?;
        entrances.targets.openflow = entrances.enter(openflow, advertise.as_deref()).await?;
        Ok(entrances)
    }

    /// Binds one of them.
    async fn enter(
        &mut self,
        address: Option<SocketAddr>,
        advertise: Option<&str>,
    ) -> Result<Option<String>, BindError> {
        let Some(address) = address else { return Ok(None) };
        let listen = Listen::Tcp(address);
        let failed = |why: String| BindError { listen: Listen::Tcp(address), why };
        // On the threads that will serve it.
        let bound = self.threads.spawn(Listener::bind(listen, SocketMode::default())).await;
        let listener = bound.map_err(|error| failed(error.to_string()))??;
        let Listen::Tcp(address) = listener.listen else { return Err(failed("it is no port".to_owned())) };
        let host = advertise.map_or_else(|| address.ip().to_string(), str::to_owned);
        let target = target(&host, address.port());
        self.bound.push((listener, target.clone()));
        Ok(Some(target))
    }

    /// Admits switches until the returned tasks are aborted.
    pub(crate) fn admit(self, credentials: &Arc<Credentials>) -> Vec<JoinHandle<()>> {
        let Entrances { threads, inbound, bound, targets: _ } = self;
        let admit = |(listener, target): (Listener, String)| {
            info!(target, "switches can dial in");
            threads.spawn(admit_all(listener, target, inbound.clone(), credentials.clone()))
        };
        bound.into_iter().map(admit).collect()
    }
}

/// What a switch must be told to dial this port of this host.
fn target(host: &str, port: u16) -> String {
    match host.parse() {
        Ok(IpAddr::V6(address)) => format!("ssl:[{address}]:{port}"),
        _ => format!("ssl:{host}:{port}"),
    }
}

async fn admit_all(listener: Listener, target: String, inbound: Arc<Inbound>, credentials: Arc<Credentials>) {
    let (target, refusals) = (Arc::<str>::from(target), Arc::new(Refusals::default()));
    let (mut incoming, mut handshakes) = (listener.incoming(), JoinSet::new());
    loop {
        let connection = tokio::select! {
            Some(_) = handshakes.join_next() => continue,
            connection = incoming.next() => connection,
        };
        let Some(Ok(connection)) = connection else {
            error!(
                target = &*target,
                "the listener has ended, so no more switches can dial in here; restart the controller, and report this with the log"
            );
            return;
        };
        let (target, refusals) = (target.clone(), refusals.clone());
        let (inbound, credentials) = (inbound.clone(), credentials.clone());
        handshakes.spawn(async move {
            let peer = connection.caller().peer;
            // Without the port, which differs each time.
            let from = peer.address.map(|address| address.ip().to_string()).unwrap_or_default();
            match admit(connection, &from, &target, &inbound, &credentials).await {
                Ok(node) => debug!(switch = node, from, target = &*target, "switch has dialled in"),
                Err(error) => refusals.refused(&peer, &format_args!("at {target}: {error}")),
            }
        });
    }
}

/// Hands a connection to the driver of the switch that has opened it.
async fn admit(
    connection: Connection,
    from: &str,
    target: &str,
    inbound: &Inbound,
    credentials: &Arc<Credentials>,
) -> io::Result<String> {
    let mut stream = credentials.accept(connection, Strangers::Refused).await?;
    let node = stream.peer().ok_or_else(|| io::Error::other("it has no certificate"))?.of_switch();
    let node = node.map_err(io::Error::other)?.to_owned();
    // From now on, its driver decides how long it may be silent.
    stream.transport_mut().release();
    inbound.arrived(&node, target, from, Box::new(stream)).map_err(io::Error::other)?;
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_open_vswitch_reads_them() {
        assert_eq!(target("192.0.2.1", 6640), "ssl:192.0.2.1:6640");
        assert_eq!(target("fd00::1", 6640), "ssl:[fd00::1]:6640");
        assert_eq!(target("weft.example", 6653), "ssl:weft.example:6653");
    }
}
