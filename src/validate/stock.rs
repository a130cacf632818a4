//! Machines and models by the names that tables use, read once.
//!
//! A name from a table is looked up in the catalog only, never as a path.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machine::{Family, Machine};
use super::names;
use crate::catalog;
use crate::error::Result;
use crate::hardware::Link;
use crate::model::Model;

/// What a row cannot be predicted for.
pub type Reason = String;

/// Families and models made so far.
#[derive(Debug, Default)]
pub struct Stock {
    families: BTreeMap<(String, String), Arc<Family>>,
    models: BTreeMap<String, Arc<Model>>,
    /// Whether each card is predicted as if it had not been measured.
    leave_out: bool,
}

impl Stock {
    /// An empty stock; with `leave_out` each card is predicted as if it had not been measured, from its class.
    pub fn new(leave_out: bool) -> Self {
        Self {
            leave_out,
            ..Self::default()
        }
    }

    /// The machine of a table's GPU name under a framework; a reason if either is unknown.
    ///
    /// # Errors
    /// Internal: an embedded file is broken.
    pub fn machine(
        &mut self,
        gpu: &str,
        framework: &str,
    ) -> Result<std::result::Result<Arc<Family>, Reason>> {
        let Some(hardware) = names::hardware(gpu) else {
            return Ok(Err(format!(
                "GPU `{}` is not in the catalog",
                names::short(gpu)
            )));
        };
        let Some(runtime) = names::runtime(framework) else {
            return Ok(Err(format!(
                "software `{}` has no profile",
                names::short(framework)
            )));
        };
        self.family(&hardware, runtime, None).map(Ok)
    }

    /// The machine of a catalog id and runtime, with another link where one is given.
    ///
    /// # Errors
    /// Internal: an embedded file is broken.
    pub fn family(
        &mut self,
        hardware: &str,
        runtime: &str,
        link: Option<Link>,
    ) -> Result<Arc<Family>> {
        let suffix = link
            .as_ref()
            .map_or(String::new(), |l| format!(" over {}", l.name));
        let key = (format!("{hardware}{suffix}"), runtime.to_string());
        if let Some(family) = self.families.get(&key) {
            return Ok(family.clone());
        }
        let mut hardware = if self.leave_out {
            catalog::hardware_unmeasured(hardware)?
        } else {
            catalog::hardware(hardware)?
        };
        if let Some(link) = link {
            hardware.link = link;
        }
        let family = Arc::new(Family::new(Machine {
            hardware: Arc::new(hardware),
            runtime: Arc::new(catalog::runtime(runtime)?),
        }));
        self.families.insert(key, family.clone());
        Ok(family)
    }

    /// The model of a table's name; a reason if it is unknown.
    ///
    /// # Errors
    /// Internal: an embedded file is broken.
    pub fn model(&mut self, name: &str) -> Result<std::result::Result<Arc<Model>, Reason>> {
        if let Some(model) = self.models.get(name) {
            return Ok(Ok(model.clone()));
        }
        let Some(id) = names::model(name) else {
            return Ok(Err(format!(
                "model `{}` is not in the catalog",
                names::short(name)
            )));
        };
        let model = Arc::new(catalog::model(&id)?);
        self.models.insert(name.to_string(), model.clone());
        Ok(Ok(model))
    }
}
