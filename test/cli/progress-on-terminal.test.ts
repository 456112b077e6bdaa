import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { version } from "../../src/assets.ts";
import { openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { migrate } from "../../src/store/sqlite/machine/migrate.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/migration-steps.ts";
import { runProgram, type Ready } from "../helpers/program.ts";
import { newDatabaseFile, newPost, newTask, openTestStore, seedAccount } from "../helpers/store.ts";
import { reasonToSkipTerminal, startOnTerminal } from "../helpers/terminal.ts";

const skip = reasonToSkipTerminal();

test(
  "a backup shows on a terminal what is copied and checked, and elsewhere nothing",
  { skip },
  async (t) => {
    const database = newDatabaseFile(t);
    const store = await openTestStore(t, { file: database });
    const accountId = await seedAccount(store);
    const inputText = JSON.stringify("x".repeat(500_000));
    await store.insertTasks(
      newPost(
        accountId,
        Array.from({ length: 6 }, () => newTask({ inputText })),
      ),
    );
    await store.close();
    const backup = (verb: string, copy: string): string[] => [
      ...["backup", verb, copy],
      ...(verb === "check" ? [] : ["--db", database]),
    ];

    const onTerminal = startOnTerminal(t, backup("create", `${database}.one`));
    // One at a time: the other is refused meanwhile.
    assert.equal(await onTerminal.exit, 0, onTerminal.shown);
    const inScript = await runProgram(t, backup("create", `${database}.two`));
    const restore = [...backup("restore", `${database}.two`), "--deliveries", "pause", "--yes"];

    assert.match(onTerminal.shown, /MiB copied: (\d+) of \1\D/);
    assert.match(onTerminal.shown, /tables checked: (\d+) of \1\D/);
    assert.match(onTerminal.shown, /MiB read: (\d+) of \1\D/);
    assert.deepEqual([inScript.code, inScript.stderr], [0, ""]);
    const restored = startOnTerminal(t, restore);
    assert.equal(await restored.exit, 0, restored.shown);
    assert.match(restored.shown, /MiB read: (\d+) of \1\D/);
  },
);

const OLD_SCHEMA = readFileSync(new URL("../fixtures/schema-v8.sql", import.meta.url), "utf8");

test(
  "a start that migrates a file shows its steps on a terminal before it serves",
  { skip },
  async (t) => {
    const database = newDatabaseFile(t);
    const connection = openWriter(database);
    migrate(connection, { schemaSql: OLD_SCHEMA, version: 8, migrations: [] });
    connection.close();

    const program = startOnTerminal(t, ["start", "--port", "0", "--db", database]);
    const steps = SCHEMA_VERSION - 8;
    await program.shows(`migration steps: ${steps} of ${steps}`);
    await program.shows(`"version":"${version}"}`);
    const { pid } = JSON.parse(
      /^\{"event":"ready".*\}$/m.exec(program.shown)?.[0] ?? "{}",
    ) as Ready;
    process.kill(pid, "SIGTERM");

    assert.equal(await program.exit, 0, program.shown);
  },
);
