//! The two authorities that `ovs-pki` of Open vSwitch makes, in a folder of their own, and certificates of theirs.

use std::path::{Path, PathBuf};
use std::process::Command;

use mutual_tls::{Files, Pair};

/// One of the two authorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// It signs controllers, and switches trust it.
    Controllers,
    /// It signs switches, and controllers trust it.
    Switches,
}

/// Both authorities.
#[derive(Debug)]
pub struct OvsPki {
    folder: tempfile::TempDir,
}

impl Default for OvsPki {
    fn default() -> Self {
        OvsPki::new()
    }
}

impl OvsPki {
    /// New ones.
    ///
    /// # Panics
    /// Open vSwitch is not installed.
    pub fn new() -> OvsPki {
        let pki = OvsPki { folder: tempfile::tempdir().unwrap() };
        pki.run(&["init"]);
        pki
    }

    /// The certificate of an authority.
    pub fn authority(&self, signer: Signer) -> PathBuf {
        self.folder.path().join("pki").join(format!("{}ca", signer.name())).join("cacert.pem")
    }

    /// A certificate as the tool makes it by itself: its name is followed by a number. The authority of the other kind is trusted.
    pub fn issue(&self, name: &str, signer: Signer) -> Files {
        self.run(&["--batch", "req+sign", name, signer.name()]);
        self.files(name, signer)
    }

    /// A certificate with exactly this name, which is a DNS name of it too.
    pub fn issue_exactly(&self, name: &str, signer: Signer) -> Files {
        self.run(&["--batch", "--unique", "req+sign", name, signer.name()]);
        self.files(name, signer)
    }

    fn files(&self, name: &str, signer: Signer) -> Files {
        let [certificate, key] =
            ["cert", "privkey"].map(|of| self.folder.path().join(format!("{name}-{of}.pem")));
        let other = match signer {
            Signer::Controllers => Signer::Switches,
            Signer::Switches => Signer::Controllers,
        };
        Files { own: Some(Pair { certificate, key }), authorities: self.authority(other), revoked: None }
    }

    fn run(&self, arguments: &[&str]) {
        let folder: &Path = self.folder.path();
        let option = |name: &str, file: &str| format!("--{name}={}", folder.join(file).display());
        let output = Command::new("ovs-pki")
            .args([option("dir", "pki"), option("log", "log")])
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap_or_else(|error| panic!("cannot start ovs-pki of package openvswitch-common: {error}"));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Signer {
    fn name(self) -> &'static str {
        match self {
            Signer::Controllers => "controller",
            Signer::Switches => "switch",
        }
    }
}
