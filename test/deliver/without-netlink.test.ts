import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskClient } from "../helpers/task-client.ts";

const FILTER = fileURLToPath(new URL("../fixtures/net/without-netlink.py", import.meta.url));
const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const NODE = [process.execPath, MAIN] as const;

const canFilter = spawnSync("python3", [FILTER, "probe"]).status === 0;
const skip = canFilter ? false : "this machine filters no system calls (python3, seccomp)";

test(
  "a daemon that may not list its own addresses delivers, and logs one warning",
  { skip },
  async (t) => {
    const cwd = temporaryFolder(t);
    const receiver = await startReceiver(t);
    const { key } = await createTestAccount(join(cwd, "postbackd.db"));
    const command = ["python3", FILTER, ...NODE] as const;
    const args = ["start", "--port", "0", "--allow-target", "127.0.0.1"];
    const program = startProgram(t, args, { cwd, command });
    const { url } = await program.ready;
    const client = taskClient({ url, key });

    await client.post({ postback_url: receiver.url("/a") });
    await client.post({ postback_url: receiver.url("/b") });
    const arrived = [await receiver.next(), await receiver.next()].map(({ url: path }) => path);

    assert.deepEqual(arrived.toSorted(), ["/a", "/b"]);
    assert.equal((await program.stop()).code, 0);
    const lines = program.stderr.split("\n").filter((line) => line.includes("AF_NETLINK"));
    assert.equal(lines.length, 1, program.stderr);
    assert.match(lines[0] ?? "", /"level":"warn".+"error":"EAFNOSUPPORT"/);
  },
);
