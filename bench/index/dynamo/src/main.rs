//! Removals of single blocks in random order from Dynamo's `RadixTree` (crate dynamo-kv-router, called directly, one thread),
//! over all blocks of each worker: the loads of `bench/index.ts --loads random`, whose mean to compare with.
//!
//!   cargo run --release -- [ROUNDS]
//!
//! Events are made outside of the time, and dropped within it by the tree, which takes them. The tree refuses the removal of a
//! block behind a removed one of its chain: it has dropped the worker from there on. This is cheaper than a removal.

use std::env::args;
use std::time::Instant;

use dynamo_kv_router::indexer::RadixTree;
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent,
};

const WORKERS: usize = 8;

/// A splitmix64 generator.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn event(worker: usize, event_id: u64, data: KvCacheEventData) -> RouterEvent {
    let event = KvCacheEvent { event_id, data, dp_rank: 0 };
    RouterEvent::new(worker as u64, event)
}

fn stored(hashes: &[u64], local: &[u64]) -> KvCacheEventData {
    let blocks = hashes.iter().zip(local).map(|(&hash, &tokens)| KvCacheStoredBlockData {
        block_hash: ExternalSequenceBlockHash(hash),
        tokens_hash: LocalBlockHash(tokens),
        mm_extra_info: None,
    });
    KvCacheEventData::Stored(KvCacheStoreData {
        parent_hash: None,
        start_position: None,
        blocks: blocks.collect(),
    })
}

fn removed(hash: u64) -> KvCacheEventData {
    let block_hashes = vec![ExternalSequenceBlockHash(hash)];
    KvCacheEventData::Removed(KvCacheRemoveData { block_hashes })
}

struct Figures {
    stored_ns: f64,
    removed_ns: f64,
    refused: usize,
}

fn measure(blocks_each: usize, chain_blocks: usize) -> Figures {
    let blocks = WORKERS * blocks_each;
    let mut draw = Draw(7);
    let hashes: Vec<u64> = (0..blocks).map(|_| draw.next()).collect();
    let local: Vec<u64> = (0..blocks).map(|_| draw.next()).collect();
    let mut order: Vec<usize> = (0..blocks).collect();
    for i in (1..blocks).rev() {
        order.swap(i, (draw.next() % (i as u64 + 1)) as usize);
    }
    let mut tree = RadixTree::new();
    let stores: Vec<RouterEvent> = (0..blocks)
        .step_by(chain_blocks)
        .map(|at| {
            let range = at..at + chain_blocks;
            event(at / blocks_each, at as u64, stored(&hashes[range.clone()], &local[range]))
        })
        .collect();
    let started = Instant::now();
    for each in stores {
        tree.apply_event(each).expect("a chain that begins at the root");
    }
    let stored_ns = started.elapsed().as_nanos() as f64 / blocks as f64;
    let removals: Vec<RouterEvent> = order
        .iter()
        .map(|&block| event(block / blocks_each, block as u64, removed(hashes[block])))
        .collect();
    let mut refused = 0;
    let started = Instant::now();
    for each in removals {
        if tree.apply_event(each).is_err() {
            refused += 1;
        }
    }
    let removed_ns = started.elapsed().as_nanos() as f64 / blocks as f64;
    assert_eq!(tree.current_size(), 0, "blocks are left");
    Figures { stored_ns, removed_ns, refused }
}

fn main() {
    let rounds: usize = args().nth(1).map_or(5, |text| text.parse().expect("a number of rounds"));
    println!("{WORKERS} workers; the fastest of {rounds} rounds");
    for chain_blocks in [7, 32, 100, 1000] {
        for about in [4700, 31_000, 250_000] {
            let blocks_each = about - about % chain_blocks;
            let all: Vec<Figures> = (0..rounds).map(|_| measure(blocks_each, chain_blocks)).collect();
            let least = |of: fn(&Figures) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
            println!(
                "  {blocks_each} blocks per worker in chains of {chain_blocks}: mean {:.0} ns per removal ({:.0} % refused) | stored {:.0} ns per block",
                least(|figures| figures.removed_ns),
                100.0 * all[0].refused as f64 / (WORKERS * blocks_each) as f64,
                least(|figures| figures.stored_ns),
            );
        }
    }
}
