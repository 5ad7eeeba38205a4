"""What a command leaves on a terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios


def printed(words: list[str], columns: int) -> list[str]:
    """The lines that stay on a terminal of so many columns once the command has ended."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        words, stdin=its, stdout=its, stderr=its, env=os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    )
    os.close(its)
    said = b""
    try:
        while part := os.read(ours, 1 << 16):
            said += part
    except OSError:  # how Linux tells that nobody writes to the terminal any more
        pass
    os.close(ours)
    process.wait()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode().replace("\r\n", "\n"))
    return [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]
