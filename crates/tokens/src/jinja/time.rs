//! The time of day, for `strftime_now`.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, and how far local time is ahead of universal time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Seconds since 1970, universal time.
    pub seconds: i64,
    /// Seconds east of Greenwich.
    pub offset: i64,
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Now {
    /// By the system's clock, in universal time.
    pub fn system() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self { seconds: seconds.cast_signed(), offset: 0 }
    }

    /// As C's `strftime` writes it, in English.
    pub fn format(self, pattern: &str) -> String {
        let local = self.seconds.saturating_add(self.offset);
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = date(days);
        let weekday = (days + 4).rem_euclid(7) as usize;
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let of_year = days - first_day(year);
        let mut out = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once('%') {
            out.push_str(before);
            let plain = after.starts_with('-');
            let mut chars = after[usize::from(plain)..].chars();
            let number = |number: i64, width: usize| {
                if plain { number.to_string() } else { format!("{number:0width$}") }
            };
            let Some(kind) = chars.next() else {
                out.push('%');
                rest = "";
                break;
            };
            rest = chars.as_str();
            let part = match kind {
                'Y' => year.to_string(),
                'y' => number(year.rem_euclid(100), 2),
                'm' => number(month, 2),
                'd' => number(day, 2),
                'e' => format!("{day:2}"),
                'H' => number(hour, 2),
                'I' => number((hour + 11) % 12 + 1, 2),
                'M' => number(minute, 2),
                'S' => number(second % 60, 2),
                'j' => number(of_year + 1, 3),
                'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
                'A' => DAYS[weekday].to_owned(),
                'a' => DAYS[weekday][..3].to_owned(),
                'B' => MONTHS[month as usize - 1].to_owned(),
                'b' | 'h' => MONTHS[month as usize - 1][..3].to_owned(),
                'w' => weekday.to_string(),
                'u' => (if weekday == 0 { 7 } else { weekday }).to_string(),
                'U' => number((of_year + 7 - weekday as i64) / 7, 2),
                'W' => number((of_year + 7 - (weekday as i64 + 6) % 7) / 7, 2),
                'F' => self.format("%Y-%m-%d"),
                'T' | 'X' => self.format("%H:%M:%S"),
                'R' => self.format("%H:%M"),
                'D' | 'x' => self.format("%m/%d/%y"),
                'c' => self.format("%a %b %e %H:%M:%S %Y"),
                'f' => "000000".to_owned(),
                'z' | 'Z' => String::new(), // a time without a zone, as the reference passes it
                'n' => "\n".to_owned(),
                't' => "\t".to_owned(),
                '%' => "%".to_owned(),
                other => format!("%{other}"),
            };
            out.push_str(&part);
        }
        out + rest
    }
}

/// The day of the first of January, counted from 1970.
fn first_day(year: i64) -> i64 {
    let y = year - 1;
    y * 365 + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) - 719_162
}

/// Year, month and day.
fn date(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while first_day(year + 1) <= days {
        year += 1;
    }
    let leap = i64::from(first_day(year + 1) - first_day(year) == 366);
    let mut day = days - first_day(year);
    for (month, length) in (1..).zip([31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        if day < length {
            return (year, month, day + 1);
        }
        day -= length;
    }
    (year, 12, 31)
}

#[cfg(test)]
mod tests {
    use super::Now;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| Now { seconds, offset: 0 };
        assert_eq!(at(0).format("%A %d %B %Y %H:%M:%S %j"), "Thursday 01 January 1970 00:00:00 001");
        assert_eq!(at(951_782_400).format("%F %a %b %-d"), "2000-02-29 Tue Feb 29");
        assert_eq!(at(1_767_225_599).format("%d %b %Y, %I:%M %p %%"), "31 Dec 2025, 11:59 PM %");
        assert_eq!(at(-1).format("%F %T %y"), "1969-12-31 23:59:59 69");
        assert_eq!(Now { seconds: 0, offset: 3600 }.format("%-H%"), "1%");
    }
}
