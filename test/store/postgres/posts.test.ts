import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { openNode } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { newPost, newRefusedTask, newTask, seedAccount } from "../../helpers/store.ts";

describe("posts to a database on a server", { skip: reasonToSkipPostgres() }, () => {
  test("a refused task with a NUL in its type and message is stored", async (t) => {
    const store = await openNode(t, await newDatabaseUrl(t));
    const accountId = await seedAccount(store);
    const refused = newRefusedTask({ type: "a\0b", message: "Unknown Field: '\0'." });
    const task = newTask();
    await store.insertTasks(newPost(accountId, [task], { refused: [refused] }));
    const found = await store.findTask({ accountId, id: refused.id });
    assert.equal(found?.task.statusMessage, "Unknown Field: '\x1A'.");
    assert.equal(found.task.type, "a\x1Ab");
    assert.notEqual(await store.findTask({ accountId, id: task.id }), null);
  });
});
