//! Patterns by chance. `SEMEL_TEST_SEED` says where it begins.

/// Patterns, most of them due in the hours in which clocks change.
pub(crate) fn draw(count: usize) -> Vec<String> {
    let said = std::env::var("SEMEL_TEST_SEED").ok();
    let seed = said.and_then(|text| text.parse::<u64>().ok());
    // Seeds are small numbers, and chance begins with one of many bits.
    let seed = seed.unwrap_or(0x5e_3e_1b_07).max(1);
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    (0..count).map(|_| chance.pattern()).collect()
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn pattern(&mut self) -> String {
        let minute = match self.below(8) {
            0 => format!("*/{}", [10, 15, 20, 30][self.below(4) as usize]),
            1 => format!("{},{}", self.below(30), 30 + self.below(30)),
            2 => format!("{}-59/25", self.below(20)),
            _ => self.below(60).to_string(),
        };
        let hour = match self.below(10) {
            0 => "*".to_owned(),
            1 => format!("*/{}", [2, 3, 4, 6, 12][self.below(5) as usize]),
            2 => format!("{}-{}", self.below(3), 3 + self.below(3)),
            3 => format!("{},{}", self.below(4), 20 + self.below(4)),
            4 => self.below(24).to_string(),
            _ => self.below(4).to_string(),
        };
        let day = match self.below(6) {
            0 => (1 + self.below(31)).to_string(),
            1 => format!("{}-{}", 1 + self.below(10), 12 + self.below(17)),
            2 => "L".to_owned(),
            _ => "*".to_owned(),
        };
        let month = match self.below(6) {
            0 => format!("{},{}", 3 + self.below(2), 9 + self.below(3)),
            1 => format!("{}-12/2", 1 + self.below(3)),
            _ => "*".to_owned(),
        };
        let weekday = match self.below(6) {
            0 => self.below(8).to_string(),
            1 => "1-5".to_owned(),
            2 => format!("0,{}", 3 + self.below(4)),
            _ => "*".to_owned(),
        };
        // A day that the named months may not have is never due.
        match (month.as_str(), day.as_str()) {
            ("*", _) | (_, "*" | "L") => format!("{minute} {hour} {day} {month} {weekday}"),
            _ => format!("{minute} {hour} * {month} {weekday}"),
        }
    }
}
