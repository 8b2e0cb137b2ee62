"""The worker's own program with the fake engine in it."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from stateset_agents_worker.__main__ import main  # noqa: E402


def open_engine(options, ranks):
    from tests.fake_engine import open_fake

    return open_fake(options, ranks)


if __name__ == "__main__":
    sys.exit(main(open_engine=open_engine))
