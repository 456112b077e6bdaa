import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { askDatabase, eventually } from "../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { taskClient } from "../helpers/task-client.ts";

const skip = reasonToSkipPostgres();
const PATIENCE_MS = 30_000;

/** A user of the server who owns the schema of a new database. */
async function newUser(t: TestContext) {
  const url = await newDatabaseUrl(t);
  const name = `u_${randomBytes(6).toString("hex")}`;
  const schema = /search_path(?:=|%3D)(\w+)/.exec(url)?.[1] ?? assert.fail(url);
  await askDatabase(
    url,
    `CREATE ROLE ${name} LOGIN PASSWORD 'Old-1'; ALTER SCHEMA ${schema} OWNER TO ${name}`,
  );
  t.after(() => askDatabase(url, `REASSIGN OWNED BY ${name} TO postgres; DROP ROLE ${name}`));
  return {
    urlWith(password: string): string {
      const own = new URL(url);
      own.username = name;
      own.password = password;
      return own.href;
    },
    /** Changes the password and ends all connections, so that each has to be opened again. */
    async rotate(password: string): Promise<void> {
      await askDatabase(url, `ALTER ROLE ${name} PASSWORD '${password}'`);
      const find = `SELECT pid FROM pg_stat_activity WHERE usename = '${name}'`;
      const pids = (await askDatabase(url, find)).map((row) => Number(Object(row).pid));
      assert.ok(pids.length > 1);
      await askDatabase(
        url,
        `SELECT pg_terminate_backend(pid, 10000) FROM unnest(ARRAY[${pids.join()}]) AS a (pid)`,
      );
    },
  };
}

for (const how of ["POSTBACKD_DB_FILE", "the configuration file and SIGHUP"]) {
  test(`a daemon signs in with a password that was changed in ${how}`, { skip }, async (t) => {
    const cwd = temporaryFolder(t);
    const user = await newUser(t);
    const isFile = how === "POSTBACKD_DB_FILE";
    const write = (url: string): void => {
      if (isFile) writeFileSync(join(cwd, "secret"), `${url}\n`);
      else writeFileSync(join(cwd, "postbackd.toml"), `database = "${url}"\n`);
    };
    write(user.urlWith("Old-1"));
    const place = {
      cwd,
      env: { ...(isFile && { POSTBACKD_DB_FILE: "secret" }), POSTBACKD_NODE_STATE_FOLDER: cwd },
    };
    const daemon = startProgram(t, ["start", "--port", "0"], place);
    const { url, pid } = await daemon.ready;
    const made = await runProgram(t, ["admin", "account", "create", "ada", "--json"], place);
    assert.equal(made.code, 0, made.stderr);
    const { key } = (JSON.parse(made.stdout) as { readonly key: { readonly key: string } }).key;
    const client = taskClient({ url, key });
    await client.ended(await client.post({}));

    write(user.urlWith("New-2"));
    if (!isFile) {
      daemon.kill("SIGHUP");
      await daemon.says("configuration reloaded");
    }
    await user.rotate("New-2");
    const posts = async (): Promise<boolean> =>
      (await client.call("/v1/tasks/task_post", { method: "POST", body: "[{}]" })).status === 200;
    await eventually("posts again", posts, PATIENCE_MS);
    await client.ended(await client.post({}));
    assert.equal((await daemon.stop()).code, 0);
    assert.doesNotMatch(daemon.stderr, /Old-1|New-2/);
    assert.equal(pid, daemon.pid);
  });
}
