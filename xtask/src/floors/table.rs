//! `floors.toml` beside a package's `Cargo.toml`: the rooms and their floors.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Without this file a package has no rooms.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Table {
    /// Files that count as one.
    one_concept: Vec<Vec<String>>,
    room: Vec<Room>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Room {
    pub name: String,
    pub floor: u32,
    /// `file.rs`, or `folder/` for all files below it that have no own line.
    files: Vec<String>,
}

impl Table {
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("floors.toml");
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path)?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    pub fn parse(text: &str) -> Result<Self> {
        let table: Self = toml::from_str(text)?;
        let mut listed = BTreeSet::new();
        for file in table.room.iter().flat_map(|room| &room.files) {
            ensure!(listed.insert(file), "`{file}` is in two rooms");
        }
        Ok(table)
    }

    pub fn has_rooms(&self) -> bool {
        !self.room.is_empty()
    }

    /// The room of a file, by the longest line of the table that matches it.
    pub fn room(&self, file: &str) -> Option<&Room> {
        let fits = |line: &&String| *line == file || line.ends_with('/') && file.starts_with(*line);
        let longest = |room: &Room| room.files.iter().filter(fits).map(String::len).max();
        let rooms = self
            .room
            .iter()
            .filter_map(|room| Some((longest(room)?, room)));
        rooms
            .max_by_key(|(length, _)| *length)
            .map(|(_, room)| room)
    }

    /// Lines about files that do not exist.
    pub fn unused<'a>(&'a self, files: &'a BTreeSet<String>) -> impl Iterator<Item = &'a String> {
        let in_rooms = self.room.iter().flat_map(|room| &room.files);
        let lines = in_rooms.chain(self.one_concept.iter().flatten());
        lines.filter(|line| {
            let fits =
                |file: &String| file == *line || line.ends_with('/') && file.starts_with(*line);
            !files.iter().any(fits)
        })
    }

    /// The common name of each file that counts as one with others.
    pub fn concepts(&self) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for files in &self.one_concept {
            let name = files.join(" + ");
            names.extend(files.iter().map(|file| (file.clone(), name.clone())));
        }
        names
    }
}
