"""The kernel is run by Triton's interpreter: its arithmetic is tested here, its speed on a GPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import unittest

import torch

torch.set_num_threads(1)


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@unittest.skipIf(INTERPRETED or importlib.util.find_spec("triton") is None, "Triton is not installed")
class Interpreted(unittest.TestCase):
    def test_in_a_process_of_its_own(self) -> None:
        """Triton must know before it is imported."""
        command = [sys.executable, "-W", "ignore", "-m", "unittest", "tests.test_decode_kernel"]
        ended = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)


@unittest.skipUnless(INTERPRETED, "Run by the test above")
class Kernel(unittest.TestCase):
    def setUp(self) -> None:
        from stateset_agents_worker import decode_kernel

        self.kernel = decode_kernel

    def test_it_attends_to_what_a_row_has_and_no_more(self) -> None:
        torch.manual_seed(0)
        rows, slots, length = 6, 7, 320
        for heads, key_heads, dim, window in ((4, 2, 64, None), (3, 3, 16, 33), (5, 1, 80, 150)):
            query = torch.randn(rows, 1, heads, dim).transpose(1, 2)[:, :, 0]
            new_key, new_value = torch.randn(2, rows, key_heads, dim)
            reach = torch.tensor([1, 2, 64, 65, 200, 319])
            write = reach - 1
            # A row without a reply: it writes to the spare place and sees itself alone.
            write[0] = length - 1
            for parts in (1, 4):
                with self.subTest(heads=heads, dim=dim, window=window, parts=parts):
                    keys, values = torch.randn(2, slots, key_heads, length, dim)
                    before = keys.clone()
                    got = self.kernel.attend(
                        query, new_key, new_value, keys, values, write, reach, dim**-0.5, window, parts
                    )
                    for row in range(rows):
                        self.assertTrue(torch.equal(keys[row, :, write[row]], new_key[row]))
                        self.assertTrue(torch.equal(values[row, :, write[row]], new_value[row]))
                        begin = max(0, int(reach[row]) - window) if window else 0
                        own = slice(begin, int(reach[row]))
                        k, v = keys[row, :, own], values[row, :, own]
                        if row == 0:
                            k, v = new_key[0, :, None], new_value[0, :, None]
                        k, v = (x.repeat_interleave(heads // key_heads, 0) for x in (k, v))
                        weights = (torch.einsum("hd,hnd->hn", query[row], k) * dim**-0.5).softmax(1)
                        wanted = torch.einsum("hn,hnd->hd", weights, v)
                        self.assertLess((got[row] - wanted).abs().max().item(), 1e-5)
                    before[torch.arange(rows), :, write] = keys[torch.arange(rows), :, write]
                    self.assertTrue(torch.equal(before, keys))

    def test_keys_are_read_in_parts_where_rows_are_few(self) -> None:
        parts = self.kernel.parts_for
        self.assertEqual([parts(8, 4096), parts(64, 4096), parts(512, 4096)], [16, 4, 1])
        self.assertEqual(parts(8, 128), 1)


if __name__ == "__main__":
    unittest.main()
