//! The wire format of protocol buffers, as much of it as a SentencePiece model needs.
//!
//! No length is believed before it was checked against the bytes that remain, and nothing is copied.

/// What is wrong, and at which byte.
pub(super) type Fault = String;

/// The fields of one message, in the order of the file.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// An integer, a boolean or a variant.
    Varint(u64),
    /// Four bytes: here always a float.
    Fixed32(u32),
    /// Eight bytes.
    Fixed64,
    /// A text, some bytes or a message.
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let begin = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(format!("cut short in the number at byte {begin}"));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("the number at byte {begin} is too long"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let remaining = &self.bytes[self.at..];
        let taken = usize::try_from(length).ok().and_then(|length| remaining.get(..length));
        let Some(taken) = taken else {
            return Err(format!(
                "byte {}: {length} bytes are announced and {} remain",
                self.at,
                remaining.len()
            ));
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), Fault> {
        let begin = self.at;
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Value::Fixed32(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            kind => return Err(format!("byte {begin}: field of the unknown kind {kind}")),
        };
        match tag >> 3 {
            0 => Err(format!("byte {begin}: field number 0")),
            number => Ok((number, value)),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len(); // nothing after a fault means anything
        }
        Some(field)
    }
}

impl<'a> Value<'a> {
    /// A text or message.
    pub fn bytes(self, what: &str) -> Result<&'a [u8], Fault> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed32(_) | Self::Fixed64 => Err(format!("{what} is a number")),
        }
    }

    /// A text.
    pub fn text(self, what: &str) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes(what)?).map_err(|error| format!("{what}: {error}"))
    }

    /// A boolean.
    pub fn flag(self, what: &str) -> Result<bool, Fault> {
        Ok(self.number(what)? != 0)
    }

    /// An integer.
    pub fn number(self, what: &str) -> Result<u64, Fault> {
        match self {
            Self::Varint(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed32(_) | Self::Fixed64 => Err(format!("{what} is not an integer")),
        }
    }

    /// A float.
    pub fn float(self, what: &str) -> Result<f32, Fault> {
        match self {
            Self::Fixed32(bits) => Ok(f32::from_bits(bits)),
            Self::Bytes(_) | Self::Varint(_) | Self::Fixed64 => Err(format!("{what} is not a float")),
        }
    }
}
