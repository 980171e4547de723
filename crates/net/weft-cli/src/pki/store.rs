//! What the commands do with the folder of a CA.

use std::time::SystemTime;

use mutual_tls::Role;
use weft_core::times::to_the_second;

use super::certificate::{Authority, AuthorityError, Certificate, Pair};
use super::folder::{Folder, Lock, PUBLIC, SECRET};
use super::index::{Entry, Index, Serial};
use super::names::{Address, Name};
use super::revocation::RevocationList;
use crate::exit::Failure;

/// The certificate of the CA.
pub(super) const CA: &str = "ca.pem";
/// Its private key.
pub(super) const CA_KEY: &str = "ca.key";
/// The list of revoked certificates.
const REVOKED: &str = "revoked.pem";
/// All certificates that were issued.
const ISSUED: &str = "issued.txt";
/// The folder within the folder where the files of revoked certificates go.
pub(super) const REVOKED_FILES: &str = "revoked";

/// The folder of a CA, opened to issue or to revoke.
pub(super) struct Store {
    folder: Folder,
    authority: Authority,
    issued: Index,
    now: SystemTime,
    _lock: Lock,
}

/// What a certificate is to say.
pub(super) struct Request {
    pub(super) name: Name,
    pub(super) role: Role,
    /// Where the owner is reached, besides its name.
    pub(super) addresses: Vec<Address>,
    /// How long it is valid.
    pub(super) days: u32,
}

/// What has become of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Valid,
    /// It is still valid, but a newer one has its name.
    Renewed,
    Expired,
    Revoked,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            State::Valid => "valid",
            State::Renewed => "renewed",
            State::Expired => "expired",
            State::Revoked => "revoked",
        }
    }
}

/// A line of `weft pki list`.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) role: String,
    pub(super) serial: Serial,
    pub(super) not_after: SystemTime,
    pub(super) state: State,
}

impl Store {
    /// Makes a CA of controllers or of members that is valid for so many days, in a folder that has none.
    pub(super) fn make(folder: Folder, of: &str, days: u32, now: SystemTime) -> Result<Store, Failure> {
        folder.make()?;
        let lock = folder.lock()?;
        for file in [CA, CA_KEY, REVOKED, ISSUED] {
            if folder.has(file)? {
                return Err(Failure::Rejected(format!(
                    "{} is there already, and `weft pki init` overwrites nothing: `weft pki list` shows the certificates of \
                     a CA, and `--dir` names another folder",
                    folder.name_of(file)
                )));
            }
        }
        let (authority, Pair { certificates, key }) =
            Authority::make(of, days, now).map_err(Failure::Outside)?;
        folder.create(CA_KEY, &key, SECRET)?;
        let list = RevocationList::default().sign(&authority, now).map_err(Failure::Outside)?;
        folder.create(REVOKED, &list, PUBLIC)?;
        folder.create(ISSUED, &Index::default().to_string(), PUBLIC)?;
        // Last, since a folder with it has a CA.
        folder.create(CA, &certificates, PUBLIC)?;
        Ok(Store { folder, authority, issued: Index::default(), now, _lock: lock })
    }

    /// Opens the folder of a CA that can sign.
    pub(super) fn open(folder: Folder, now: SystemTime) -> Result<Store, Failure> {
        check(&folder)?;
        let lock = folder.lock()?;
        let key = zeroize::Zeroizing::new(folder.read(CA_KEY)?);
        let authority = Authority::of(folder.read(CA)?, &key).map_err(|error| match error {
            AuthorityError::Certificate(error) => fault(&folder, CA, &error),
            AuthorityError::Key(error) => fault(&folder, CA_KEY, &error),
        })?;
        if authority.not_after() <= now {
            return Err(Failure::Rejected(format!(
                "the CA in {} expired at {}; `weft pki init --dir FOLDER` makes another one, whose certificate all hosts need",
                folder.name(),
                to_the_second(authority.not_after())
            )));
        }
        let issued = issued(&folder)?;
        Ok(Store { folder, authority, issued, now, _lock: lock })
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// When the CA expires.
    pub(super) fn not_after(&self) -> SystemTime {
        self.authority.not_after()
    }

    /// Issues a certificate under a name that has none. Returns when it expires.
    pub(super) fn issue(&mut self, request: Request) -> Result<SystemTime, Failure> {
        let Request { name, role, mut addresses, days } = request;
        for file in files(&name) {
            if self.folder.has(&file)? {
                let file = self.folder.name_of(&file);
                return Err(Failure::Rejected(format!(
                    "{name} has a certificate already ({file}); `weft pki renew {name}` makes it a new one, and \
                     `weft pki revoke {name}` frees the name"
                )));
            }
        }
        // Others connect to controllers and to hosts.
        if matches!(role, Role::Controller | Role::Node) {
            addresses.splice(0..0, Address::of_name(&name));
        }
        let mut different: Vec<Address> = Vec::new();
        for address in addresses {
            if !different.contains(&address) {
                different.push(address);
            }
        }
        let (pair, Entry { not_after, .. }) = self.sign(&name, role, &different, days)?;
        let [certificate, key] = files(&name);
        // The key first: whoever looks for a certificate finds its key too.
        self.folder.create(&key, &pair.key, SECRET)?;
        self.folder.create(&certificate, &pair.certificates, PUBLIC)?;
        Ok(not_after)
    }

    /// Issues another certificate, with another key, under the name, role and addresses of the present one. Returns what it is, and when the former
    /// one expires.
    pub(super) fn renew(&mut self, name: &Name, days: u32) -> Result<(Entry, SystemTime), Failure> {
        let present = self.present(name)?.ok_or_else(|| self.unknown(name))?;
        let [certificate, key] = files(name);
        let known = self.issued.of(name).find(|entry| entry.serial == present.serial);
        let Some(role) = known.map(|entry| entry.role.clone()) else {
            let why =
                format!("{} does not list its serial number {}", self.folder.name_of(ISSUED), present.serial);
            return Err(fault(&self.folder, &certificate, &why));
        };
        if revoked(&self.folder)?.contains(&present.serial) {
            return Err(Failure::Rejected(format!(
                "the certificate of {name} is revoked, and stays so; `weft pki revoke {name}` once more puts its files aside, and \
                 then the name can be issued again"
            )));
        }
        let (pair, entry) = self.sign(name, role, &present.addresses, days)?;
        self.folder.replace(&key, &pair.key, SECRET)?;
        self.folder.replace(&certificate, &pair.certificates, PUBLIC)?;
        Ok((entry, present.not_after))
    }

    /// Revokes all certificates of a name that are still valid, and puts its files aside. Returns their number.
    pub(super) fn revoke(&mut self, name: &Name) -> Result<usize, Failure> {
        // A file that cannot be read must not keep a name from being revoked.
        let present = self.present(name).ok().flatten();
        let of_index = self.issued.of(name).filter(|entry| entry.not_after > self.now);
        let mut serials: Vec<Serial> = of_index.map(|entry| entry.serial.clone()).collect();
        serials.extend(present.map(|present| present.serial).filter(|serial| !serials.contains(serial)));
        if serials.is_empty() && self.issued.of(name).next().is_none() {
            return Err(self.unknown(name));
        }
        let mut list = revoked(&self.folder)?;
        serials.retain(|serial| !list.contains(serial));
        for serial in &serials {
            list.add(serial.clone(), self.now);
        }
        if !serials.is_empty() {
            let list = list.sign(&self.authority, self.now).map_err(Failure::Outside)?;
            self.folder.replace(REVOKED, &list, PUBLIC)?;
        }
        let last = self.issued.of(name).next_back().map(|entry| &entry.serial).or(serials.last());
        let suffix = last.map(|serial| format!("-{serial}")).unwrap_or_default();
        for (file, kind) in files(name).into_iter().zip(["pem", "key"]) {
            self.folder.put_aside(&file, REVOKED_FILES, &format!("{name}{suffix}.{kind}"))?;
        }
        Ok(serials.len())
    }

    /// Signs a certificate and writes it down, before anybody can have it.
    fn sign(
        &mut self,
        name: &Name,
        role: Role,
        addresses: &[Address],
        days: u32,
    ) -> Result<(Pair, Entry), Failure> {
        let pair = self.authority.issue(name, &role, addresses, days, self.now).map_err(Failure::Outside)?;
        let Certificate { serial, not_after, .. } =
            Certificate::read(&pair.certificates).map_err(Failure::Outside)?;
        let entry = Entry { serial, name: name.clone(), role, not_after };
        self.issued.0.push(entry.clone());
        self.folder.replace(ISSUED, &self.issued.to_string(), PUBLIC)?;
        Ok((pair, entry))
    }

    /// The certificate in the file of a name, if there is one.
    fn present(&self, name: &Name) -> Result<Option<Certificate>, Failure> {
        let [file, _] = files(name);
        if !self.folder.has(&file)? {
            return Ok(None);
        }
        let read = Certificate::read(&self.folder.read(&file)?);
        read.map(Some).map_err(|error| fault(&self.folder, &file, &error))
    }

    /// Whether it has issued a certificate under this name, whatever has become of it.
    pub(super) fn knows(&self, name: &Name) -> bool {
        self.issued.of(name).next().is_some()
    }

    fn unknown(&self, name: &Name) -> Failure {
        let folder = self.folder.name();
        Failure::Rejected(format!("{folder} has no certificate of {name}; `weft pki list` shows all"))
    }
}

/// The CA, under this name, and all certificates that it has issued, the oldest first. This needs neither the CA's key nor the right to write.
pub(super) fn list(folder: &Folder, of: &str, now: SystemTime) -> Result<Vec<Listed>, Failure> {
    check(folder)?;
    let ca = Certificate::read(&folder.read(CA)?).map_err(|error| fault(folder, CA, &error))?;
    let state = if ca.not_after <= now { State::Expired } else { State::Valid };
    let mut listed = vec![Listed {
        name: of.to_owned(),
        role: "ca".to_owned(),
        serial: ca.serial,
        not_after: ca.not_after,
        state,
    }];
    let (issued, revoked) = (issued(folder)?, revoked(folder)?);
    for entry in &issued.0 {
        let is_last = issued.of(&entry.name).next_back() == Some(entry);
        let state = match () {
            () if revoked.contains(&entry.serial) => State::Revoked,
            () if entry.not_after <= now => State::Expired,
            () if is_last => State::Valid,
            () => State::Renewed,
        };
        let (name, role) = (entry.name.to_string(), entry.role.organisation());
        let (serial, not_after) = (entry.serial.clone(), entry.not_after);
        listed.push(Listed { name, role, serial, not_after, state });
    }
    Ok(listed)
}

/// The files of a name: its certificate and its key.
pub(super) fn files(name: &Name) -> [String; 2] {
    [format!("{name}.pem"), format!("{name}.key")]
}

/// Checks that there is a CA.
fn check(folder: &Folder) -> Result<(), Failure> {
    if folder.has(CA)? {
        return Ok(());
    }
    Err(Failure::Rejected(format!(
        "there is no CA in {0} ({1} does not exist): `weft pki init` makes one, and `--dir` names another folder",
        folder.name(),
        folder.name_of(CA)
    )))
}

fn issued(folder: &Folder) -> Result<Index, Failure> {
    folder.read(ISSUED)?.parse().map_err(|error: String| fault(folder, ISSUED, &error))
}

fn revoked(folder: &Folder) -> Result<RevocationList, Failure> {
    RevocationList::read(&folder.read(REVOKED)?).map_err(|error| fault(folder, REVOKED, &error))
}

fn fault(folder: &Folder, file: &str, error: &str) -> Failure {
    Failure::Rejected(format!("{}: {error}", folder.name_of(file)))
}
