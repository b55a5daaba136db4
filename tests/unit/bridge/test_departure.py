import asyncio

from osmosis_bridge.departure import Departure, watched


def test_everyone_who_asked_is_told_once_when_the_client_leaves() -> None:
    departure, told = Departure(), list[str]()
    departure.tell(lambda: told.append("one"))
    departure.tell(lambda: told.append("two"))
    departure.leave()
    assert sorted(told) == ["one", "two"]


def test_who_no_longer_asks_is_not_told() -> None:
    departure, told = Departure(), list[str]()

    def who() -> None:
        told.append("who")

    departure.tell(who)
    departure.forget(who)
    departure.leave()
    assert told == []


def test_who_asks_after_the_client_left_is_told_at_once() -> None:
    departure, told = Departure(), list[str]()
    departure.leave()
    departure.tell(lambda: told.append("late"))
    assert told == ["late"]


def test_on_any_asgi_server_a_disconnect_message_is_a_departure() -> None:
    async def main() -> None:
        left = asyncio.Event()
        messages = [{"type": "http.request"}, {"type": "http.disconnect"}]

        async def receive() -> dict[str, str]:
            return messages.pop(0)

        async with watched(receive) as departure:
            departure.tell(left.set)
            await asyncio.wait_for(left.wait(), 5)

    asyncio.run(main())


def test_the_watcher_ends_with_its_request() -> None:
    async def main() -> None:
        async def receive() -> dict[str, str]:
            await asyncio.Event().wait()
            raise AssertionError

        async with watched(receive):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
