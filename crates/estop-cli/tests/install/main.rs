//! TL-1, TL-3: our entries in the settings of coding agents, and the plugins for those that want code.

mod mcp;
mod plugins;
mod settings;
