"""The relay counts right: python3 -m unittest discover tests/clients"""

import unittest

from counter import Reader

ANSWERS = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\n\r\n!\r\n0\r\n\r\n"
    b"HTTP/1.1 204 No Content\r\n\r\n"
    b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\nX-Estop-Reason: loop\r\n\r\nstop"
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end HTTP/1.1 500 no head\r\n\r\n"
)


def has_no_body(head):
    return head.first_line.split(" ")[1] in ("100", "204")


class HeadsAreFoundWhateverThePieces(unittest.TestCase):
    def check(self, size):
        heads, body = [], bytearray()
        reader = Reader(heads.append, body.extend, no_body=has_no_body, until_close=True)
        for start in range(0, len(ANSWERS), size):
            reader.feed(ANSWERS[start : start + size])
        self.assertEqual([head.first_line.split(" ")[1] for head in heads], ["100", "200", "204", "403", "200"])
        self.assertEqual(heads[3].fields["x-estop-reason"], "loop")
        self.assertTrue(bytes(body).startswith(b"hello\r\n!stopuntil the end"))

    def test_byte_by_byte(self):
        self.check(1)

    def test_in_odd_pieces(self):
        for size in (2, 3, 7, 50):
            self.check(size)

    def test_at_once(self):
        self.check(len(ANSWERS))


if __name__ == "__main__":
    unittest.main()
