import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import pg from "pg";

import { until } from "../../scripts/kit/until.ts";
import { reasonToSkipPostgres, startPostgres } from "../helpers/postgres.ts";
import { isThere } from "../helpers/process.ts";

const HOLDER = fileURLToPath(new URL("server-holder.ts", import.meta.url));

describe("a PostgreSQL server of one's own", { skip: reasonToSkipPostgres() }, () => {
  test("answers by TCP and by its socket, durably, and with the settings that it is given", async (t) => {
    const server = await startPostgres(t, { settings: { work_mem: "7MB" } });

    for (const url of [server.url, server.socketUrl]) {
      assert.equal(await ask(url, "SHOW fsync"), "on");
      assert.equal(await ask(url, "SHOW work_mem"), "7MB");
      assert.equal(await ask(url, "SHOW max_connections"), "200");
    }
  });

  test("lets nobody in without the password", async (t) => {
    const server = await startPostgres(t);

    for (const text of [server.url, server.socketUrl]) {
      const url = text.replace(/:\w+@/, ":wrong@");
      assert.notEqual(url, text);
      await assert.rejects(ask(url, "SELECT 1"), { code: "28P01" });
    }
  });

  test("keeps what was committed over a kill -9, and loses what was not", async (t) => {
    const server = await startPostgres(t);
    const client = new pg.Client(server.url);
    const errors: string[] = [];
    client.on("error", ({ message }) => errors.push(message));
    const lost = Promise.withResolvers<void>();
    client.once("end", () => lost.resolve());
    await client.connect();
    await client.query("CREATE TABLE kept (number int)");
    await client.query("INSERT INTO kept VALUES (1)");
    await client.query("BEGIN");
    await client.query("INSERT INTO kept VALUES (2)");
    const { pid } = server;

    await server.kill();
    await lost.promise;
    // Without a last word of the server's.
    assert.deepEqual(errors, ["Connection terminated unexpectedly"]);
    assert.ok(!isThere(pid));
    assert.throws(() => server.pid, /does not run/);
    await assert.rejects(ask(server.url, "SELECT 1"), { code: "ECONNREFUSED" });
    await server.startAgain({ work_mem: "9MB" });

    assert.equal(await ask(server.url, "SELECT string_agg(number::text, ' ') FROM kept"), "1");
    assert.equal(await ask(server.url, "SHOW work_mem"), "9MB");
    assert.match(server.log, /not properly shut down/);
  });

  test("ends in order when it is shut down, and keeps its data", async (t) => {
    const server = await startPostgres(t);
    await ask(server.url, "CREATE TABLE kept ()");

    await server.shutDown();
    await server.startAgain();

    assert.equal(await ask(server.url, "SELECT count(*)::text FROM kept"), "0");
    assert.doesNotMatch(server.log, /not properly shut down/);
  });

  test("leaves no process and no folder when it is stopped", async (t) => {
    const server = await startPostgres(t);
    const { pid, folder } = server;
    assert.ok(isThere(pid) && existsSync(folder));

    await server.stop();

    assert.ok(!isThere(pid));
    assert.ok(!existsSync(folder));
  });

  test("leaves no shared memory when it is stopped after a kill -9", async (t) => {
    const server = await startPostgres(t);
    const lines = readFileSync(join(server.folder, "data", "postmaster.pid"), "latin1").split("\n");
    const number = Number(lines[6]?.trim().split(/ +/)[1]);
    assert.ok(sharedMemory().includes(number));

    await server.kill();
    assert.ok(sharedMemory().includes(number));
    await server.stop();

    assert.ok(!sharedMemory().includes(number));
  });

  test("says why when it does not start, and leaves nothing", async (t) => {
    let folder = "";
    const parent = await startPostgres(t);

    await assert.rejects(
      startPostgres(t, { parent: parent.folder, settings: { shared_buffers: "many" } }),
      (error: Error) => {
        assert.match(error.message, /shared_buffers/);
        folder = /(\S+postbackd-postgres-\w+)\/data/.exec(error.message)?.[1] ?? "";
        return true;
      },
    );

    assert.notEqual(folder, "");
    assert.ok(!existsSync(folder));
  });

  test("ends although it was stopped in what it does", async (t) => {
    const server = await startPostgres(t);
    const { pid } = server;
    process.kill(pid, "SIGSTOP");

    await server.stop();

    assert.ok(!isThere(pid));
  });

  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    test(`is gone with the process that has started it, when that ends by ${signal}`, async (t) => {
      const holder = spawn(process.execPath, [HOLDER], { stdio: ["ignore", "pipe", "inherit"] });
      t.after(() => holder.kill("SIGKILL"));
      const [line] = await once(createInterface({ input: holder.stdout }), "line");
      const { pid, folder } = JSON.parse(String(line)) as { pid: number; folder: string };
      assert.ok(isThere(pid) && existsSync(folder));

      holder.kill(signal);

      await until(() => !isThere(pid) && !existsSync(folder), {
        msMax: 30_000,
        fault: () => `process ${pid} or ${folder} is still there`,
      });
    });
  }
});

/** The numbers of all segments of this machine. */
function sharedMemory(): readonly number[] {
  const [, ...segments] = readFileSync("/proc/sysvipc/shm", "latin1").trim().split("\n");
  return segments.map((segment) => Number(segment.trim().split(/ +/)[1]));
}

/** The one value that a statement answers. */
async function ask(url: string, sql: string): Promise<unknown> {
  const client = new pg.Client(url);
  try {
    await client.connect();
    return Object.values((await client.query<Record<string, unknown>>(sql)).rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
}
