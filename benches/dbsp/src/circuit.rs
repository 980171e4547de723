//! The circuit, written by hand on tuples of u32 as the dataflow that Weft is compared with.
//!
//! It uses everything known about the tables: ports are placed once, for sources and destinations alike; only the pairs
//! (switch, hypervisor) of sources are made distinct; the data of a destination is looked up before the large join; flows
//! are not made distinct, because no two ports share a stage number.

use anyhow::{Result, anyhow};
use dbsp::BatchReader as _;
use dbsp::circuit::CircuitConfig;
use dbsp::dynamic::DowncastTrait as _;
use dbsp::trace::{BatchReader as _, Cursor as _};
use dbsp::typed_batch::SpineSnapshot;
use dbsp::utils::{Tup2, Tup3};
use dbsp::{DBData, DBSPHandle, IndexedZSetHandle, OrdZSet, OutputHandle, RootCircuit, Runtime, ZWeight};

use crate::workload::{self, Change};

/// Hypervisor, stage of the destination port, OpenFlow port.
type Flow = Tup3<u32, u32, u32>;
/// Hypervisor, encapsulation, address.
type Tunnel = Tup3<u32, u32, u32>;
/// Rows of one input by its first column, with 1 or -1.
type Weighted<K> = Vec<Tup2<K, Tup2<u32, ZWeight>>>;
/// A table that is read after each transaction.
type Out<T> = OutputHandle<SpineSnapshot<OrdZSet<T>>>;

/// A transaction in the form that dbsp takes without copying.
pub(crate) struct Rows {
    pairs: [Weighted<u32>; 5],
    tunnel_port: Weighted<Tunnel>,
}

impl Rows {
    /// The rows of a transaction.
    pub(crate) fn new(change: &Change) -> Rows {
        let (delete, insert) = (pairs(&change.delete), pairs(&change.insert));
        let pair = |[key, value]: &[u32; 2]| (*key, *value);
        let tunnel = |[from, encap, ip, number]: &[u32; 4]| (Tup3(*from, *encap, *ip), *number);
        Rows {
            pairs: std::array::from_fn(|at| weighted(delete[at], insert[at], pair)),
            tunnel_port: weighted(&change.delete.tunnel_port, &change.insert.tunnel_port, tunnel),
        }
    }
}

fn pairs(rows: &workload::Rows) -> [&[[u32; 2]]; 5] {
    [&rows.port, &rows.presence, &rows.encap, &rows.locator, &rows.stage]
}

fn weighted<R, K>(delete: &[R], insert: &[R], split: impl Fn(&R) -> (K, u32)) -> Weighted<K> {
    let with = |weight| move |(key, value)| Tup2(key, Tup2(value, weight));
    delete.iter().map(&split).map(with(-1)).chain(insert.iter().map(&split).map(with(1))).collect()
}

/// The net changes of a transaction, with 1 or -1.
pub(crate) struct Deltas {
    pub(crate) flows: Vec<(Flow, ZWeight)>,
    pub(crate) tunnels: Vec<(Tunnel, ZWeight)>,
}

/// The circuit's inputs and outputs.
#[derive(Clone)]
struct Handles {
    /// The tables of two columns, in the order of [`pairs`].
    pairs: [IndexedZSetHandle<u32, u32>; 5],
    tunnel_port: IndexedZSetHandle<Tunnel, u32>,
    flows: Out<Flow>,
    tunnels: Out<Tunnel>,
}

impl Handles {
    fn new(circuit: &mut RootCircuit) -> Handles {
        let (port, port_in) = circuit.add_input_indexed_zset::<u32, u32>();
        let (presence, presence_in) = circuit.add_input_indexed_zset::<u32, u32>();
        let (encap, encap_in) = circuit.add_input_indexed_zset::<u32, u32>();
        let (locator, locator_in) = circuit.add_input_indexed_zset::<u32, u32>();
        let (stage, stage_in) = circuit.add_input_indexed_zset::<u32, u32>();
        let (tunnel_port, tunnel_port_in) = circuit.add_input_indexed_zset::<Tunnel, u32>();
        let placed = port.join_index(&presence, |port, switch, host| Some((*port, Tup2(*switch, *host))));
        let sources = placed.map_index(|(_, Tup2(switch, host))| (*switch, *host));
        let sources =
            sources.distinct().join_index(&encap, |switch, host, encap| Some((*switch, Tup2(*host, *encap))));
        let destinations = placed
            .join_index(&stage, |_, Tup2(switch, host), stage| Some((*host, Tup2(*switch, *stage))))
            .join_index(&locator, |host, Tup2(switch, stage), ip| Some((*switch, Tup3(*host, *ip, *stage))));
        let tunnel = sources.join_index(&destinations, |_, Tup2(from, encap), Tup3(to, ip, stage)| {
            (from != to).then_some((Tup3(*from, *encap, *ip), *stage))
        });
        let flows = tunnel.join(&tunnel_port, |Tup3(from, _, _), stage, number| Tup3(*from, *stage, *number));
        let tunnels = tunnel.map(|(tunnel, _)| *tunnel).distinct();
        Handles {
            pairs: [port_in, presence_in, encap_in, locator_in, stage_in],
            tunnel_port: tunnel_port_in,
            flows: flows.accumulate_output(),
            tunnels: tunnels.accumulate_output(),
        }
    }
}

/// The running circuit.
pub(crate) struct Engine {
    dbsp: DBSPHandle,
    handles: Handles,
}

impl Engine {
    /// Starts it.
    pub(crate) fn new(config: CircuitConfig) -> Result<Engine> {
        let (dbsp, handles) = Runtime::init_circuit(config, |circuit| Ok(Handles::new(circuit)))?;
        Ok(Engine { dbsp, handles })
    }

    /// Runs a transaction.
    pub(crate) fn commit(&mut self, mut rows: Rows) -> Result<Deltas> {
        for (input, rows) in self.handles.pairs.iter().zip(&mut rows.pairs) {
            append(input, rows);
        }
        append(&self.handles.tunnel_port, &mut rows.tunnel_port);
        self.dbsp.transaction()?;
        Ok(Deltas { flows: net(&self.handles.flows), tunnels: net(&self.handles.tunnels) })
    }

    /// Ends its threads.
    pub(crate) fn stop(self) -> Result<()> {
        self.dbsp.kill().map_err(|_| anyhow!("a thread of dbsp panicked"))
    }
}

fn append<K: DBData>(input: &IndexedZSetHandle<K, u32>, rows: &mut Weighted<K>) {
    if !rows.is_empty() {
        input.append(rows);
    }
}

/// The net changes of the last transaction. The cursor merges the batches that the steps of the transaction made. dbsp's
/// iterators take longer, because they box each row.
fn net<T: DBData + Copy>(output: &Out<T>) -> Vec<(T, ZWeight)> {
    let batch = output.concat();
    let mut changes = Vec::with_capacity(batch.inner().len());
    let mut cursor = batch.inner().cursor();
    while cursor.key_valid() {
        if cursor.val_valid() {
            let weight = **cursor.weight();
            changes.push((*cursor.key().downcast_checked::<T>(), weight));
        }
        cursor.step_key();
    }
    changes
}
