"""The testee of client.py, for stile-conformance; see ../TESTEE.md."""
import asyncio
import json
import sys

import client as stile


class Testee:
    def __init__(self):
        self.client = None
        self.calls = {}  # request id: its task
        self.locks = {}  # id of the acquire: its lock
        self.watchers = []

    def say(self, **line):
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def lock(self, request):
        lock = self.locks.get(request["lock"])
        if lock is None:
            raise LookupError("no lock of request %d" % request["lock"])
        return lock

    async def handle(self, request):
        """Carries a request out and returns what the reply has besides its id."""
        do = request["do"]
        if do == "dial":
            secret = request.get("secret")
            self.client = stile.Client(request["addrs"], secret=secret and secret.encode(),
                                       only_listed=request.get("only_listed", False),
                                       retry_for=request.get("retry_for_ms", 0) / 1000)
            return {"ok": True}
        if do == "acquire":
            # What JSON can't say in UTF-8 comes with surrogates.
            key = request["key"].encode("utf-8", "surrogateescape")
            wait = {0: None, -1: 0}.get(request["wait_ms"], request["wait_ms"] / 1000)
            lock = await self.client.acquire(key, wait, request["lease_ms"] / 1000)
            self.locks[request["id"]] = lock
            self.watchers.append(asyncio.create_task(self.watch(request["id"], lock)))
            return {"ok": True, "token": str(lock.token), "expires_in_ms": lock.left() * 1000}
        if do == "release":
            await self.client.release(self.lock(request))
            return {"ok": True}
        if do == "keep":
            lock = self.lock(request)
            await self.client.keep(lock, request["lease_ms"] / 1000)
            return {"ok": True, "expires_in_ms": lock.left() * 1000}
        if do == "lock":
            lock = self.lock(request)
            return {"ok": True, "held": lock.held(), "expires_in_ms": max(0, lock.left() * 1000)}
        if do == "cancel":
            call = self.calls.get(request["call"])
            if call:
                call.cancel()
            return {"ok": True}
        if do == "close":
            await self.client.close()
            return {"ok": True}
        return {"unsupported": "no command " + do}

    async def watch(self, id, lock):
        await lock.lost.wait()
        self.say(event="lost", lock=id)

    async def reply(self, request):
        try:
            line = await self.handle(request)
        except asyncio.CancelledError:
            line = {"error": "cancelled", "outcome": "maybe"}
        except stile.StileError as e:
            line = {"error": e.kind, "outcome": e.outcome, "text": str(e)}
            if e.kind == "refused":
                line["code"] = e.code.decode("latin-1")
        except ValueError as e:
            line = {"error": "bad_argument", "outcome": "no", "text": str(e)}
        except LookupError as e:
            line = {"failed": str(e)}
        self.say(id=request["id"], **line)

    async def run(self):
        self.say(stile_testee=1, client="stile-python", version="1",
                 profiles=["core", "keep", "ping", "hello", "resume", "secret", "limits"])
        reader = asyncio.StreamReader(limit=1 << 20)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            request = json.loads(line)
            self.calls[request["id"]] = asyncio.create_task(self.reply(request))


if __name__ == "__main__":
    asyncio.run(Testee().run())
