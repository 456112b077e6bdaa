import assert from "node:assert/strict";
import { test } from "node:test";

import { runProgram } from "../helpers/program.ts";
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
