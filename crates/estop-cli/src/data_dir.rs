//! Which data directory a command is about: the option, or else what the configuration says.

use std::path::PathBuf;

use estop_config::Env;

/// Which data directory.
#[derive(Debug, clap::Args)]
pub(crate) struct DataDirArgs {
    /// Where estop keeps everything, instead of the configuration's `data_dir`
    #[arg(long, value_name = "FOLDER", global = true)]
    data_dir: Option<PathBuf>,
    /// The configuration file, for its `data_dir`
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

impl DataDirArgs {
    /// The folder.
    pub(crate) fn folder(&self) -> anyhow::Result<PathBuf> {
        Ok(match &self.data_dir {
            Some(folder) => folder.clone(),
            None => estop_config::data_dir(self.config.as_deref(), &Env::of_process())?,
        })
    }

    /// What the command line names: the folder, and the configuration file.
    pub(crate) fn named(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        (self.data_dir.clone(), self.config.clone())
    }

    /// Whether the command line names one.
    pub(crate) fn is_given(&self) -> bool {
        self.data_dir.is_some() || self.config.is_some()
    }
}
