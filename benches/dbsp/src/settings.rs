//! settings
use anyhow::{Result, bail};
use dbsp::circuit::CircuitConfig;
pub(crate) fn of(name: &str) -> Result<CircuitConfig> {
    let mut config = CircuitConfig::with_workers(1);
    if name == "best" {
      let e = |n: &str| std::env::var(n).ok().and_then(|v| v.parse::<u64>().ok());
      if let Some(c) = e("CHUNK") { config.dev_tweaks.splitter_chunk_size_records = Some(c); }
      if let Some(c) = e("L0") { config.dev_tweaks.max_level0_batch_size_records = Some(c as u16); }
      if let Some(c) = e("MT") { config.dev_tweaks.merger_threads = Some(c as u16); }
      if let Some(_) = e("PUSH") { config.dev_tweaks.merger = serde_json::from_str("\"push_merger\"").ok(); }
      if let Some(_) = e("NOIN") { config.allow_input_during_commit = false; }
      if let Some(c) = e("NEG") { config.dev_tweaks.negative_weight_multiplier = Some(c as u16); }
      if let Some(_) = e("FULL") { config.step_size = dbsp::circuit::StepSize::FullSteps; }
      if let Some(_) = e("ADAPT") { config.dev_tweaks.adaptive_joins = Some(true); }
    } else if name != "default" { bail!("bad") }
    Ok(config)
}
