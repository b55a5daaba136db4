import asyncio

from osmosis_bridge.joined import JoinedWrites


class Pipe(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.said.append(bytes(data))

    def close(self) -> None:
        self.said.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.said


def test_what_is_written_in_one_turn_is_sent_at_once_in_order() -> None:
    async def main() -> None:
        pipe = Pipe()
        joined = JoinedWrites(pipe, asyncio.get_running_loop())
        joined.write(b"head ")
        joined.write(b"body")
        assert pipe.said == []
        await asyncio.sleep(0)
        assert pipe.said == [b"head body"]
        joined.write(b"next")
        await asyncio.sleep(0)
        assert pipe.said == [b"head body", b"next"]

    asyncio.run(main())


def test_closing_sends_first_what_was_written_and_nothing_twice() -> None:
    async def main() -> None:
        pipe = Pipe()
        joined = JoinedWrites(pipe, asyncio.get_running_loop())
        joined.write(b"last")
        joined.close()
        await asyncio.sleep(0)
        assert pipe.said == [b"last", "closed"]

    asyncio.run(main())


def test_everything_else_is_the_transports_own() -> None:
    async def main() -> None:
        pipe = Pipe()
        joined = JoinedWrites(pipe, asyncio.get_running_loop())
        assert joined.is_closing() is False
        pipe.close()
        assert joined.is_closing() is True

    asyncio.run(main())
