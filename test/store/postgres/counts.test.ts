import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { findFaults } from "../../../scripts/kit/postgres-faults.ts";
import { USED_BYTES } from "../../../src/store/postgres/upkeep.ts";
import { askDatabase, openNode } from "../../helpers/postgres-nodes.ts";
import { Planner } from "../../helpers/postgres-plans.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { newPost, newTask, seedAccount, NEW_TASK_BYTES } from "../../helpers/store.ts";

describe("the size of all data on PostgreSQL", { skip: reasonToSkipPostgres() }, () => {
  test("is added up from a row of each writer, however many accounts there are", async (t) => {
    const url = await newDatabaseUrl(t);
    await openNode(t, url);
    const planner = await Planner.open(t, url);
    await askDatabase(
      url,
      `INSERT INTO task_counts (account_seq, word, stripe, count)
       SELECT i, 'bytes', stripe, 0 FROM generate_series(1, 5000) AS i CROSS JOIN generate_series(0, 3) AS stripe`,
    );
    await askDatabase(url, "ANALYZE task_counts");

    const plan = await planner.text(USED_BYTES, "");

    assert.match(plan, /Index Cond: \(\(account_seq = 0\)/);
    assert.doesNotMatch(plan, /Seq Scan on task_counts/);
  });

  test("is what the accounts have, at whichever nodes they post", async (t) => {
    const url = await newDatabaseUrl(t);
    const nodes = [await openNode(t, url), await openNode(t, url)] as const;
    const accounts = [await seedAccount(nodes[0], "ada"), await seedAccount(nodes[0], "bob")];
    const before = await nodes[0].usedBytes();

    await Promise.all(
      accounts.flatMap((accountId) =>
        nodes.map((node) => node.insertTasks(newPost(accountId, [newTask()]))),
      ),
    );

    assert.ok((await nodes[1].usedBytes()) - before >= 4 * NEW_TASK_BYTES);
    assert.deepEqual(await findFaults(url, { erases: false }), []);
  });
});
