//! SHA-1 (RFC 3174), for the one source that still signs with it.

/// The digest of a message.
pub(crate) fn digest(message: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in padded(message).chunks_exact(64) {
        absorb(&mut state, block);
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// HMAC (RFC 2104) with it, for keys of at most one block.
pub(crate) fn hmac(key: &[u8], message: &[u8]) -> [u8; 20] {
    assert!(key.len() <= 64, "longer keys are hashed first");
    let pad = |with: u8| -> Vec<u8> {
        let mut block = [with; 64];
        block
            .iter_mut()
            .zip(key)
            .for_each(|(byte, key)| *byte ^= key);
        block.to_vec()
    };
    let inner = digest(&[pad(0x36), message.to_vec()].concat());
    digest(&[pad(0x5c), inner.to_vec()].concat())
}

fn padded(message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    bytes.push(0x80);
    while bytes.len() % 64 != 56 {
        bytes.push(0);
    }
    let bits = message.len() as u64 * 8;
    bytes.extend(bits.to_be_bytes());
    bytes
}

fn absorb(state: &mut [u32; 5], block: &[u8]) {
    let mut words: Vec<u32> = block
        .chunks_exact(4)
        .map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        .collect();
    for at in 16..80 {
        let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
        words.push(mixed.rotate_left(1));
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (round, word) in words.into_iter().enumerate() {
        let (mixed, constant) = match round / 20 {
            0 => ((b & c) | (!b & d), 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = a
            .rotate_left(5)
            .wrapping_add(mixed)
            .wrapping_add(e)
            .wrapping_add(constant)
            .wrapping_add(word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(add);
    }
}

#[test]
fn the_digests_of_the_standard_come_out() {
    let cases = [
        ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    ];
    for (message, expected) in cases {
        assert_eq!(hex::encode(digest(message.as_bytes())), expected);
    }
}
