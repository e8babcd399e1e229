//! The socket between `semel once` and the supervisor of its command.
//!
//! ```text
//! semel once ── terms and the command's stdin; `answered`, `lost`, `continue` ──▶ supervisor
//! semel once ◀── `ended` with the command's wait status ────────────────────────── supervisor
//! ```
//!
//! The socket is the supervisor's own stdin, so that it does not reach the command; the command's
//! stdin travels over the socket. Nobody waits for a word: each side reads all that has come when
//! it looks. A read asks the system and not the runtime, which may not yet know of words that came
//! while the process was stopped.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::limit::Terms;

/// The most bytes of the terms: two numbers, a space and a newline.
const TERMS_BYTES_MAX: usize = 64;

/// What one side says to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The server answered a heartbeat that was sent at this time (milliseconds of
    /// `CLOCK_BOOTTIME`).
    Answered(u64),
    /// The server does not answer, or says that the hold is lost.
    Lost,
    /// SIGCONT came: the command is to continue, if it still may.
    Continue,
    /// The command has ended with this wait status.
    Ended(i32),
}

impl Word {
    fn to_line(self) -> String {
        match self {
            Self::Answered(sent_ms) => format!("answered {sent_ms}\n"),
            Self::Lost => "lost\n".to_owned(),
            Self::Continue => "continue\n".to_owned(),
            Self::Ended(status) => format!("ended {status}\n"),
        }
    }

    fn read(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("answered", sent_ms)) => sent_ms.parse().ok().map(Self::Answered),
            Some(("ended", status)) => status.parse().ok().map(Self::Ended),
            Some(_) => None,
            None if line == "lost" => Some(Self::Lost),
            None if line == "continue" => Some(Self::Continue),
            None => None,
        }
    }
}

/// One end of the socket.
#[derive(Debug)]
pub(super) struct Channel(UnixStream);

impl Channel {
    /// Opens a socket that holds the terms and the command's stdin. Its other end is to be a
    /// supervisor's stdin.
    pub(super) fn open(terms: Terms, stdin: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let passed = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&passed)) {
            return Err(io::Error::other("a descriptor cannot be passed on"));
        }
        let line = format!("{} {}\n", terms.lease_ms, terms.answered_ms);
        let line = [IoSlice::new(line.as_bytes())];
        sendmsg(&ours, &line, &mut control, SendFlags::empty())?;
        ours.set_nonblocking(true)?;
        Ok((Self(ours), theirs.into()))
    }

    /// The supervisor's end, which is its stdin, with the terms and the command's stdin.
    pub(super) fn take() -> io::Result<(Self, Terms, OwnedFd)> {
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        Self::accept(UnixStream::from(stdin))
    }

    fn accept(stream: UnixStream) -> io::Result<(Self, Terms, OwnedFd)> {
        let mut bytes = [0; TERMS_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        // The system ends a read behind a descriptor, so no word is read together with the terms.
        let message = recvmsg(
            &stream,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let stdin = control.drain().find_map(|message| {
            let RecvAncillaryMessage::ScmRights(mut passed) = message else {
                return None;
            };
            passed.next()
        });
        let (Some(terms), Some(stdin)) = (read_terms(&bytes[..message.bytes]), stdin) else {
            return Err(io::Error::other("`semel once` did not say what it is for"));
        };
        stream.set_nonblocking(true)?;
        Ok((Self(stream), terms, stdin))
    }

    /// Says a word. It is lost if the other side is gone, or has not listened for hundreds of words
    /// and goes by the earlier ones.
    pub(super) fn say(&self, word: Word) {
        let _ = (&self.0).write_all(word.to_line().as_bytes());
    }

    /// The words that have come. `begun` keeps the beginning of one that has not come whole.
    pub(super) fn hear(&self, begun: &mut Vec<u8>) -> Vec<Word> {
        let mut piece = [0; 512];
        loop {
            match (&self.0).read(&mut piece) {
                Ok(0) => break,
                Ok(count) => begun.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nothing more has come, or the other side is gone.
                Err(_) => break,
            }
        }
        let mut words = Vec::new();
        while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = begun.drain(..=end).collect();
            let line = std::str::from_utf8(&line[..end]);
            words.extend(line.ok().and_then(Word::read));
        }
        words
    }
}

fn read_terms(bytes: &[u8]) -> Option<Terms> {
    let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let (lease_ms, answered_ms) = line.split_once(' ')?;
    Some(Terms {
        lease_ms: lease_ms.parse().ok()?,
        answered_ms: answered_ms.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_terms_come_with_the_stdin_of_the_command_and_words_after_them() {
        let (from, mut to) = io::pipe().unwrap();
        let terms = Terms {
            lease_ms: 60_000,
            answered_ms: 4_711,
        };

        let (ours, theirs) = Channel::open(terms, &OwnedFd::from(from)).unwrap();
        ours.say(Word::Answered(4_800));
        let (supervisor, said, stdin) = Channel::accept(UnixStream::from(theirs)).unwrap();
        to.write_all(b"input").unwrap();
        drop(to);
        let mut input = String::new();
        File::from(stdin).read_to_string(&mut input).unwrap();

        assert_eq!(said, terms);
        assert_eq!(input, "input");
        let mut begun = Vec::new();
        assert_eq!(supervisor.hear(&mut begun), [Word::Answered(4_800)]);
        assert!(supervisor.hear(&mut begun).is_empty(), "nobody waits");
        supervisor.say(Word::Ended(256));
        drop(supervisor);
        assert_eq!(ours.hear(&mut Vec::new()), [Word::Ended(256)]);
    }

    #[test]
    fn a_word_that_comes_in_pieces_is_heard_whole_and_an_odd_one_not_at_all() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let (mut begun, channel) = (Vec::new(), Channel(theirs));

        (&ours)
            .write_all(b"lost\nanswered x\nhello\nconti")
            .unwrap();
        assert_eq!(channel.hear(&mut begun), [Word::Lost]);
        (&ours).write_all(b"nue\n").unwrap();

        assert_eq!(channel.hear(&mut begun), [Word::Continue]);
    }
}
