//! Which token lies in which slot of a sequence, and the moves of a re-tier.
//!
//! Both sides are dense: slots `0..n` hold tokens, none is free in between, so that what streams is whole pages and what is
//! read is full. A re-tier therefore moves three kinds of tokens: those that change sides, in either direction, and those
//! from the end that fill the holes which are left (compaction). Holes are first filled by arrivals. Positions are tokens of
//! the sequence; slots count through its pages. Rival: free lists, which leave holes in pages that a link would carry.

/// The tokens of one sequence by side and slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Book {
    /// Position of each slot in device memory.
    pub(super) resident: Vec<u32>,
    /// Position of each slot in host memory.
    pub(super) host: Vec<u32>,
}

/// Slots to move, from and to, in the order in which they may be moved: `down` and `up` leave their slots before any of
/// them is written, packing comes last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Device to host.
    pub(super) down: Vec<(u32, u32)>,
    /// Host to device.
    pub(super) up: Vec<(u32, u32)>,
    /// Within the device.
    pub(super) pack: Vec<(u32, u32)>,
    /// Within the host.
    pub(super) pack_host: Vec<(u32, u32)>,
}

/// One side: takes tokens out of the slots `out`, puts `arrivals` into holes first and then at the end, and fills the holes
/// that are left from the end. Returns where the arrivals went and the moves that pack.
fn replace(side: &mut Vec<u32>, out: &[u32], arrivals: &[u32]) -> (Vec<u32>, Vec<(u32, u32)>) {
    let mut into = Vec::with_capacity(arrivals.len());
    for (i, position) in arrivals.iter().enumerate() {
        let slot = out.get(i).copied().unwrap_or(side.len() as u32);
        if i < out.len() {
            side[slot as usize] = *position;
        } else {
            side.push(*position);
        }
        into.push(slot);
    }
    let holes = &out[arrivals.len().min(out.len())..];
    let left = (side.len() - holes.len()) as u32;
    let mut tail: Vec<u32> = (left..side.len() as u32)
        .filter(|s| holes.binary_search(s).is_err())
        .collect();
    let mut pack = Vec::new();
    for hole in holes.iter().filter(|h| **h < left) {
        // As many tokens beyond the new end as holes before it.
        let Some(from) = tail.pop() else { break };
        side[*hole as usize] = side[from as usize];
        pack.push((from, *hole));
    }
    side.truncate(left as usize);
    (into, pack)
}

/// Slots of a side whose positions are to leave it, ascending.
fn leaving(side: &[u32], leave: impl Fn(u32) -> bool) -> Vec<u32> {
    let slots = (0u32..).zip(side);
    slots.filter(|(_, p)| leave(**p)).map(|(s, _)| s).collect()
}

impl Book {
    /// Positions `0..length`, of which those that `host` names are on the host.
    pub(super) fn new(length: u32, host: &[u32]) -> Self {
        let mut book = Self {
            resident: (0..length).collect(),
            host: Vec::new(),
        };
        book.retier(host);
        // A start leaves no holes and no order: as if each had been put there one by one.
        book.resident.sort_unstable();
        book.host.sort_unstable();
        book
    }

    /// A new token, which is resident; its slot.
    pub(super) fn append(&mut self) -> u32 {
        self.resident.push(self.length());
        self.resident.len() as u32 - 1
    }

    /// Tokens of the sequence.
    pub(super) fn length(&self) -> u32 {
        (self.resident.len() + self.host.len()) as u32
    }

    /// Makes `host` the positions on the host; every other is resident.
    pub(super) fn retier(&mut self, host: &[u32]) -> Moves {
        let mut wanted = vec![false; self.length() as usize];
        for position in host {
            if let Some(w) = wanted.get_mut(*position as usize) {
                *w = true;
            }
        }
        let is_wanted = |p: u32| wanted[p as usize];
        let (down, up) = (
            leaving(&self.resident, is_wanted),
            leaving(&self.host, |p| !is_wanted(p)),
        );
        let positions = |side: &[u32], slots: &[u32]| -> Vec<u32> {
            slots.iter().map(|s| side[*s as usize]).collect()
        };
        let (going, coming) = (positions(&self.resident, &down), positions(&self.host, &up));
        let (to_resident, pack) = replace(&mut self.resident, &down, &coming);
        let (to_host, pack_host) = replace(&mut self.host, &up, &going);
        Moves {
            down: down.into_iter().zip(to_host).collect(),
            up: up.into_iter().zip(to_resident).collect(),
            pack,
            pack_host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Book, Moves};

    /// Moves tokens as a device would, slot by slot.
    fn apply(resident: &mut Vec<u32>, host: &mut Vec<u32>, moves: &Moves, after: &Book) {
        let down: Vec<u32> = moves.down.iter().map(|m| resident[m.0 as usize]).collect();
        let up: Vec<u32> = moves.up.iter().map(|m| host[m.0 as usize]).collect();
        resident.resize(resident.len() + up.len(), u32::MAX);
        host.resize(host.len() + down.len(), u32::MAX);
        for (to, token) in moves.up.iter().zip(&up) {
            resident[to.1 as usize] = *token;
        }
        for (to, token) in moves.down.iter().zip(&down) {
            host[to.1 as usize] = *token;
        }
        for (side, pack) in [
            (&mut *resident, &moves.pack),
            (&mut *host, &moves.pack_host),
        ] {
            let sources: Vec<u32> = pack.iter().map(|m| m.0).collect();
            assert!(
                pack.iter().all(|m| !sources.contains(&m.1)),
                "a slot is read and written"
            );
            for (from, to) in pack {
                side[*to as usize] = side[*from as usize];
            }
        }
        resident.truncate(after.resident.len());
        host.truncate(after.host.len());
    }

    /// Any change of sides leaves both dense, with each token once, and the moves alone lead there.
    #[test]
    fn moves_do_what_the_book_says() {
        let mut state = 1u64;
        let mut random = |n: u32| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u32 % n
        };
        for _ in 0..300 {
            let length = 1 + random(40);
            let some = |random: &mut dyn FnMut(u32) -> u32| -> Vec<u32> {
                let share = random(5);
                (0..length).filter(|_| random(4) < share).collect()
            };
            let first = some(&mut random);
            let mut book = Book::new(length, &first);
            assert_eq!(book.host, first);
            let (mut resident, mut host) = (book.resident.clone(), book.host.clone());
            for _ in 0..3 {
                let next = some(&mut random);
                let moves = book.retier(&next);
                apply(&mut resident, &mut host, &moves, &book);
                assert_eq!((&resident, &host), (&book.resident, &book.host));
                let mut sorted = host.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, next);
                assert_eq!(book.length(), length);
            }
        }
    }

    #[test]
    fn a_new_token_is_resident_behind_the_others() {
        let mut book = Book::new(4, &[1, 2]);
        assert_eq!(book.append(), 2);
        assert_eq!(book.resident, [0, 3, 4]);
    }
}
