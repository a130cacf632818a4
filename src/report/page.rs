//! A page before it has a format: titled sections of sentences, facts, grids and lists.

/// A whole page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its blocks in order.
    pub blocks: Vec<Block>,
}

/// One block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Starts a section.
    Title(String),
    /// Sentences.
    Text(String),
    /// The sentence that matters most.
    Verdict(String, Mood),
    /// Name and value, one a line.
    Facts(Vec<(String, String)>),
    /// A table.
    Grid(Grid),
    /// Sentences, one an item.
    List(Vec<String>),
    /// A command line to copy.
    Command(String),
}

/// What a verdict says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It works.
    Good,
    /// It does not.
    Bad,
    /// Neither.
    Plain,
}

/// A table: the first column is text, the others are figures unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Column heads; a line break puts the unit under the name.
    pub head: Vec<String>,
    /// Rows, as wide as the head.
    pub rows: Vec<Vec<String>>,
    /// Columns that hold text.
    pub text: Vec<usize>,
}

impl Grid {
    /// A grid with these heads.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            text: vec![0],
        }
    }

    /// These columns hold text.
    #[must_use]
    pub fn texts(mut self, columns: &[usize]) -> Self {
        self.text = columns.to_vec();
        self
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl Page {
    /// Starts a section.
    pub fn title(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Title(text.into()));
    }

    /// Adds sentences, if there are any.
    pub fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.blocks.push(Block::Text(text));
        }
    }

    /// Adds facts, if there are any.
    pub fn facts<N: Into<String>, V: Into<String>>(
        &mut self,
        facts: impl IntoIterator<Item = (N, V)>,
    ) {
        let facts: Vec<_> = facts
            .into_iter()
            .map(|(n, v)| (n.into(), v.into()))
            .collect();
        if !facts.is_empty() {
            self.blocks.push(Block::Facts(facts));
        }
    }

    /// Adds a table, if it has rows.
    pub fn grid(&mut self, grid: Grid) {
        if !grid.rows.is_empty() {
            self.blocks.push(Block::Grid(grid));
        }
    }

    /// Adds a list, if it has items.
    pub fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.blocks.push(Block::List(items));
        }
    }

    /// Adds any block.
    pub fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }
}
